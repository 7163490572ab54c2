"""`worker` and `--rpc` refuse what cannot work before anything is loaded or lent."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

import pytest
from commands import Models, Ran, Run

from speclocal.llama import rpc

WITHOUT_RPC = Ran(
    1,
    "",
    "error: this llama.cpp is built without RPC, and cannot use other machines\n\n"
    'hint: install it with RPC on every machine: `CMAKE_ARGS="-DGGML_RPC=on" pip install --no-cache-dir '
    "--force-reinstall llama-cpp-python`\n",
)
without_rpc = pytest.mark.skipif(rpc.available(), reason="this llama.cpp is built with RPC")
with_rpc = pytest.mark.skipif(not rpc.available(), reason="this llama.cpp is built without RPC")


@without_rpc
def test_a_build_without_rpc_is_told(run: Run, generate: Run, models: Models) -> None:
    """Nothing is loaded: the model named here cannot be."""
    assert run("worker", "--port", "0") == WITHOUT_RPC
    assert generate("hello", "-m", models.unloadable, "--rpc", "127.0.0.1:1") == WITHOUT_RPC


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rpc", "one:"), "--rpc: `one:` is not the address of a worker"),
        (("--rpc", "one:1,one:1"), "--rpc names one:1 twice"),
        (("--rpc", "one", "--gpu-layers", "0"), "`--gpu-layers 0` leaves no layers for the workers of `--rpc`"),
    ],
)
def test_a_wrong_address_is_refused_first(arguments: tuple[str, ...], message: str, generate: Run) -> None:
    ran = generate("hello", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}\n\nhint: ")


@with_rpc
def test_an_unreachable_worker_is_an_error_before_loading(generate: Run, models: Models) -> None:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        assert generate("hello", "-m", models.unloadable, "--rpc", f"127.0.0.1:{port}") == Ran(
            1,
            "",
            f"error: no worker answers at 127.0.0.1:{port}: Connection refused\n\n"
            f"hint: start one there with `speclocal worker --host 127.0.0.1 --port {port}`\n",
        )


@with_rpc
def test_a_worker_of_another_version_is_an_error_before_loading(generate: Run, models: Models) -> None:
    """llama.cpp judges its version, and ends the process over it if nobody prevents that."""
    with socket.create_server(("127.0.0.1", 0)) as place:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = place.accept()
                    with connection:
                        connection.recv(33, socket.MSG_WAITALL)
                        connection.sendall(struct.pack("<Q3B25x", 28, 99, 1, 2))

        threading.Thread(target=answer, daemon=True).start()
        port = place.getsockname()[1]
        assert generate("hello", "-m", models.cut, "--rpc", f"127.0.0.1:{port}") == Ran(
            1,
            "",
            f"error: the worker 127.0.0.1:{port} speaks version 99.1.2 of llama.cpp's protocol, this build another\n\n"
            "hint: install the same version of llama-cpp-python on both machines\n",
        )
        place.shutdown(socket.SHUT_RDWR)


@with_rpc
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "no-such-name.invalid"), "--host: `no-such-name.invalid` is not an address"),
        (("--host", "::1"), "--host: `::1` is not an address"),
        (("--host", "192.0.2.1"), "--host: this machine has no address 192.0.2.1"),
        (("--port", "65536"), "invalid value for `--port`"),
        (("--threads", "0"), "--threads 0 is out of range"),
        (("--device", "CUDA7"), "`--device CUDA7` asks for a GPU"),
    ],
)
def test_what_cannot_be_lent_is_refused(arguments: tuple[str, ...], message: str, run: Run) -> None:
    ran = run("worker", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")


@with_rpc
def test_a_port_in_use_is_refused(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = str(place.getsockname()[1])
        assert run("worker", "--port", port) == Ran(
            2, "", f"error: port {port} is in use\n\nhint: give another `--port`, or 0 for any that is free\n"
        )
