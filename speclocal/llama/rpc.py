"""llama.cpp's RPC backend: models spread over the memory and computing power of workers on other machines.

Knows workers as devices of llama.cpp, and the serving end; addresses and greetings are workers.py's.
"""

from __future__ import annotations

import ctypes
import itertools
import os
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

from speclocal.errors import ModelError, WorkerError
from speclocal.llama import backend, log, workers
from speclocal.llama.devices import Device, native_list, worker_device
from speclocal.llama.guard import GaveUp, Guard
from speclocal.llama.workers import Address

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")
_Pointer = ctypes.c_void_p

HOW_TO_GET_RPC = (
    "install it with RPC on every machine: "
    '`CMAKE_ARGS="-DGGML_RPC=on" pip install --no-cache-dir --force-reinstall llama-cpp-python`'
)


def available() -> bool:
    """Return whether this build of llama.cpp has the RPC backend."""
    backend.start()
    try:
        backend.native("ggml_backend_rpc_add_server", _Pointer, ctypes.c_char_p)
    except AttributeError:
        return False
    return True


def require() -> None:
    """Raise ModelError unless this build of llama.cpp has the RPC backend."""
    if not available():
        raise ModelError("this llama.cpp is built without RPC, and cannot use other machines", HOW_TO_GET_RPC)


class Connection:
    """Workers as devices for models. When one of them goes away it is lost for good, with all models on it.

    Everything that reaches a worker goes through `run`: loading and freeing weights, contexts, passes, saved states.
    """

    def __init__(self, addresses: Sequence[Address]) -> None:
        """Greet the workers, and make them devices.

        Raises ModelError when a worker does not answer, or speaks another version of the protocol.
        """
        global _stuck
        require()
        if _stuck:
            raise ModelError("this process cannot meet workers any more: one of them was of another version", _RESTART)
        self.addresses = tuple(addresses)
        self.num_users = 0  # each has called `connect`, and not yet `leave`
        self.lost: WorkerError | None = None
        self._places = {workers.resolve(address): address for address in addresses}
        versions = {address: workers.greet(address) for address in addresses}
        self._guard = Guard()
        self.devices: list[Device] = []
        # llama.cpp keeps what it knows of a worker by its address, broken connections too: what stands behind the
        # number it does not read, and so a lost worker is met anew.
        number = next(_numbers)
        for address, version in versions.items():
            log.forget()
            try:
                self.devices += self._guard.run(_devices_at, f"{address}#{number}")
            except GaveUp as exc:
                _stuck = True
                if "version mismatch" in log.reason():
                    raise ModelError(
                        f"the worker {address} speaks version {version} of llama.cpp's protocol, this build another",
                        "install the same version of llama-cpp-python on both machines",
                    ) from exc
                raise WorkerError(f"the worker {address} went away as soon as it was met", _RESTART) from exc

    def run(
        self, call: Callable[_Arguments, _Value], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Value:
        """Return what a call returns that reaches workers.

        Raises WorkerError when one of them goes away meanwhile, and ever after.
        """
        if self.lost:
            raise self.lost
        try:
            return self._guard.run(call, *arguments, **named)
        except BaseException as exc:
            if self._guard.reason:  # also where an interrupt did not want to wait
                self.lost = self._loss()
            if isinstance(exc, GaveUp):
                raise self.lost or exc from exc
            raise

    def watch(self) -> None:
        """See to it that a worker whose machine vanishes is missed. Call it when weights are loaded."""
        workers.notice_silence(list(self._places))

    def leave(self) -> None:
        """Count one user less; without users the connection ends."""
        self.num_users -= 1
        if self.num_users == 0:
            self._guard.close()

    def _loss(self) -> WorkerError:
        gone = workers.hang_up(list(self._places))
        names = [str(address) for place, address in self._places.items() if place in gone] or ["a worker"]
        return WorkerError(
            f"lost {' and '.join(names)}: what was on it of the model is gone",
            "see to the worker, then ask again: the model is loaded anew",
        )


_RESTART = "start the command again"
_stuck = False  # llama.cpp gave up while it met a worker, and holds a lock that it needs to meet any
_numbers = itertools.count()
_open: dict[tuple[Address, ...], Connection] = {}


def connect(addresses: Sequence[Address]) -> Connection:
    """Return the connection to these workers: one for all that use it at the same time, a new one after a loss.

    Whoever has it must `leave` it. Raises ModelError when they cannot be reached.
    """
    key = tuple(addresses)
    found = _open.get(key)
    if found is None or found.lost or found.num_users == 0:
        found = _open[key] = Connection(key)
    found.num_users += 1
    return found


def _devices_at(endpoint: str) -> list[Device]:
    """Return the devices of a worker."""
    registry = backend.native("ggml_backend_rpc_add_server", _Pointer, ctypes.c_char_p)(endpoint.encode())
    if not registry:
        raise ModelError(f"the worker {endpoint.partition('#')[0]} has no devices", "start it anew")
    count = backend.native("ggml_backend_reg_dev_count", ctypes.c_size_t, _Pointer)(registry)
    get = backend.native("ggml_backend_reg_dev_get", _Pointer, _Pointer, ctypes.c_size_t)
    return [worker_device(get(registry, i)) for i in range(count)]


def serve(address: Address, threads: int, devices: Sequence[Device], *, quiet: bool = True) -> None:
    """Serve devices to one client after the other, for ever; returns only when the address cannot be had.

    quiet: llama.cpp prints nothing; else all it prints goes to stderr.
    """
    start = backend.native(
        "ggml_backend_rpc_start_server",
        None,
        *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, _Pointer),
    )
    chosen = native_list(devices)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere if quiet else 2, 1)
    if quiet:
        os.dup2(nowhere, 2)
    start(str(address).encode(), None, threads, len(devices), chosen)
