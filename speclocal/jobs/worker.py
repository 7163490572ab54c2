"""A worker: this machine's memory and computing power, lent to speclocal on other machines.

Knows that llama.cpp serves, in a process of its own: it serves until that process ends, and can end it itself when a
client sends what it does not expect. Another one takes its place then.
"""

from __future__ import annotations

import errno
import ipaddress
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import NoReturn

from speclocal.errors import ModelError, UsageError
from speclocal.llama import rpc, workers
from speclocal.llama.devices import Device, DeviceKind, devices, devices_for
from speclocal.llama.placement import Placement
from speclocal.llama.workers import Address, Version

_START_SECONDS = 60.0  # a GPU's driver takes its time
_LOOK_SECONDS = 0.1
_MISS_SECONDS = 5.0  # how often new connections are looked for
_AT_ONCE_SECONDS = 2.0  # a process that ends so soon would end again and again


@dataclass(frozen=True)
class Worker:
    """What is lent, where it is found, and the version of the protocol it speaks."""

    address: Address
    devices: tuple[Device, ...]
    threads: int
    version: Version

    @property
    def is_open(self) -> bool:
        """Whether other machines can reach it."""
        return not ipaddress.ip_address(self.address.host).is_loopback


def serve(
    host: str,
    port: int,
    placement: Placement,
    ready: Callable[[Worker], None],
    restarted: Callable[[], None],
    *,
    verbose: bool = False,
) -> NoReturn:
    """Lend this machine until an interrupt.

    port: 0 takes any that is free. placement: its threads and devices count. ready: told what is lent, once it is.
    restarted: told when llama.cpp ended itself. verbose: llama.cpp prints what it does.
    Raises UsageError when the address cannot be had, ModelError when this llama.cpp cannot serve.
    """
    rpc.require()
    address = _free_address(host, port)
    lent = devices_for(placement) or tuple(device for device in devices() if device.kind is DeviceKind.CPU)[:1]
    process = _start(address, placement.threads, lent, verbose)
    try:
        version = _greeted(process, address)
        ready(Worker(address, lent, placement.threads, version))
        while True:
            started = time.monotonic()
            process.join()
            if time.monotonic() - started < _AT_ONCE_SECONDS:
                raise _cannot_serve(address)
            restarted()
            process = _start(address, placement.threads, lent, verbose)
    finally:
        process.kill()
        process.join()


def _free_address(host: str, port: int) -> Address:
    """Return the address to serve at, in numbers; nothing listens there now."""
    try:
        number = socket.getaddrinfo(host, port, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
    except (OSError, UnicodeError) as exc:
        raise UsageError(
            f"--host: `{host}` is not an address",
            "give an IPv4 address of this machine, 127.0.0.1 for itself alone or 0.0.0.0 for all it has",
        ) from exc
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as place:
        if os.name == "posix":  # as llama.cpp will; elsewhere it would take the port from another program
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            place.bind((number, port))
            place.listen()
        except OSError as exc:
            raise _cannot_listen(host, port, exc) from exc
        return Address(str(number), place.getsockname()[1])


def _cannot_listen(host: str, port: int, error: OSError) -> UsageError:
    if error.errno == errno.EADDRINUSE:
        return UsageError(f"port {port} is in use", "give another `--port`, or 0 for any that is free")
    if error.errno == errno.EADDRNOTAVAIL:
        return UsageError(
            f"--host: this machine has no address {host}",
            "give one it has, 127.0.0.1 for itself alone or 0.0.0.0 for all",
        )
    if error.errno == errno.EACCES:
        return UsageError(f"port {port} needs more rights", f"give one above 1023, as {workers.PORT}")
    return UsageError(f"nothing can listen at {host}:{port}: {error.strerror}", "give another `--host` or `--port`")


def _start(address: Address, threads: int, lent: Sequence[Device], verbose: bool) -> BaseProcess:
    """Return a process that serves; it ends with this one, however that ends."""
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve_alone, args=(address, threads, lent, verbose), daemon=True)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the new process inherits that: Ctrl-C is this one's
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    return process


def _serve_alone(address: Address, threads: int, lent: Sequence[Device], verbose: bool) -> None:
    """Serve, as all that a process does."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    threading.Thread(target=_miss_clients, daemon=True).start()
    rpc.serve(address, threads, lent, quiet=not verbose)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(0)


def _miss_clients() -> None:
    """Do not wait for ever for a client whose machine vanished: others could not be served."""
    while True:
        workers.notice_silence()
        time.sleep(_MISS_SECONDS)


def _greeted(process: BaseProcess, address: Address) -> Version:
    """Wait until a process serves; return the version of its protocol."""
    here = Address("127.0.0.1", address.port) if address.host == "0.0.0.0" else address
    deadline = time.monotonic() + _START_SECONDS
    while process.is_alive() and time.monotonic() < deadline:
        try:
            return workers.greet(here)
        except ModelError:
            time.sleep(_LOOK_SECONDS)
    raise _cannot_serve(address)


def _cannot_serve(address: Address) -> ModelError:
    return ModelError(
        f"llama.cpp cannot serve at {address}: it ends at once",
        "`--verbose` shows what it says; give another `--port`",
    )
