"""Workers are named, greeted and missed without llama.cpp, which would end the process over each mistake."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

import pytest

from speclocal.errors import ModelError, UsageError
from speclocal.llama import workers
from speclocal.llama.workers import Address, Version, greet, hang_up, notice_silence, parse

Serve = Callable[[Callable[[socket.socket], object]], Address]

GREETING = b"\x0e" + struct.pack("<Q", 24) + bytes(24)


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Let a function talk with every program that connects; return where. It gets the connection."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()

        def start(talk: Callable[[socket.socket], object]) -> Address:
            def accept() -> None:
                with suppress(OSError):
                    while True:
                        connection, _ = place.accept()
                        with closing(connection), suppress(OSError):
                            talk(connection)

            threading.Thread(target=accept, daemon=True).start()
            return Address("127.0.0.1", place.getsockname()[1])

        yield start
        place.shutdown(socket.SHUT_RDWR)


def read_greeting(connection: socket.socket) -> bytes:
    data = b""
    while len(data) < len(GREETING) and (more := connection.recv(64)):
        data += more
    return data


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", ()),
        ("  ", ()),
        ("one:1", (Address("one", 1),)),
        ("one", (Address("one", 50052),)),
        (" 10.0.0.2:65535 , one.local ", (Address("10.0.0.2", 65535), Address("one.local", 50052))),
    ],
)
def test_addresses_are_listed_with_commas(text: str, addresses: tuple[Address, ...]) -> None:
    """A port can be left out: it is llama.cpp's own then."""
    assert parse(text) == addresses


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("one:", "--rpc: `one:` is not the address of a worker", "write it as host:port"),
        (":1", "--rpc: `:1` is not the address of a worker", "write it as host:port"),
        ("one:x", "--rpc: `one:x` is not the address of a worker", "write it as host:port"),
        ("one,,two", "--rpc: `` is not the address of a worker", "write it as host:port"),
        ("a b:1", "--rpc: `a b:1` is not the address of a worker", "write it as host:port"),
        (
            "[::1]:50052",
            "--rpc: `[::1]:50052` is not the address of a worker",
            "llama.cpp's workers have no IPv6: give a name or an IPv4 address",
        ),
        ("one:0", "--rpc: port 0 of `one:0` is out of range", "give a number from 1 to 65535"),
        ("one:65536", "--rpc: port 65536 of `one:65536` is out of range", "give a number from 1 to 65535"),
        ("one:1,two,one:1", "--rpc names one:1 twice", "name every worker once"),
        (",".join(f"w{i}" for i in range(17)), "--rpc names 17 workers", "llama.cpp takes up to 16"),
    ],
)
def test_a_wrong_address_is_refused(text: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_worker_tells_its_version(serve: Serve) -> None:
    """It is greeted as llama.cpp does, and may say more than the version."""
    seen = []

    def talk(connection: socket.socket) -> None:
        seen.append(read_greeting(connection))
        connection.sendall(struct.pack("<Q3B25x", 28, 7, 1, 2))

    address = serve(talk)
    assert greet(address) == Version(7, 1, 2)
    assert greet(address) == Version(7, 1, 2)
    assert seen == [GREETING, GREETING]
    assert str(Version(7, 1, 2)) == "7.1.2"


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x00", b"HTTP/1.1 400 Bad Request\r\n\r\n", struct.pack("<Q", 1) + b"abc"],
    ids=["nothing", "a byte", "HTTP", "too little"],
)
def test_something_else_is_no_worker(answer: bytes, serve: Serve) -> None:
    """A web server, or a worker so old or new that it answers otherwise, is not mistaken for one."""

    def talk(connection: socket.socket) -> None:
        read_greeting(connection)
        connection.sendall(answer)

    address = serve(talk)
    with pytest.raises(ModelError) as caught:
        greet(address)
    assert caught.value.message == f"what answers at {address} is not a worker of this llama.cpp"


def test_nobody_answers() -> None:
    """The error names the command that starts a worker there."""
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        address = Address("localhost", place.getsockname()[1])  # bound, and nobody listens
        with pytest.raises(ModelError) as caught:
            greet(address)
    assert caught.value.message == f"no worker answers at {address}: Connection refused"
    assert caught.value.hint == f"start one there with `speclocal worker --host 127.0.0.1 --port {address.port}`"


def test_a_busy_worker_is_not_waited_for(serve: Serve) -> None:
    """A worker that serves another program lets this one wait: after a while that is an error."""
    address = serve(lambda connection: connection.recv(1 << 10) and connection.recv(1))
    with pytest.raises(ModelError) as caught:
        greet(address, patience_seconds=0.1)
    assert caught.value.message == f"the worker {address} does not answer within 0.1 s"
    assert caught.value.hint.startswith("a worker serves one program at a time")


@pytest.mark.parametrize("host", ["no-such-name.invalid", "a" * 64, "ä" * 64])
def test_an_unknown_name_is_an_error(host: str) -> None:
    with pytest.raises(ModelError) as caught:
        greet(Address(host, 1))
    assert caught.value.message.startswith(f"the worker {host}:1 cannot be found: ")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="open files are not listed here")
def test_connections_that_others_opened_are_ended(serve: Serve) -> None:
    """Of two workers one ended by itself: that one is named, and both connections are over. Others stay open."""
    gone = serve(lambda connection: None)
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        place.listen()
        here = place.getsockname()
        dead, alive, other = (
            socket.create_connection((gone.host, gone.port)),
            *map(socket.create_connection, [here] * 2),
        )
        with closing(dead), closing(alive), closing(other), socket.create_server(("127.0.0.1", 0)) as elsewhere:
            unrelated = socket.create_connection(elsewhere.getsockname())
            with closing(unrelated):
                dead.recv(1)  # the other side has closed
                places = [(gone.host, gone.port), here]
                notice_silence(places)
                assert alive.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert unrelated.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
                notice_silence()
                assert unrelated.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                assert hang_up(places) == {(gone.host, gone.port)}
                assert alive.recv(1) == other.recv(1) == b""
                unrelated.sendall(b"x")


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="open files are not listed here")
def test_looking_for_connections_opens_nothing_for_good() -> None:
    before = os.listdir("/dev/fd")
    notice_silence([("127.0.0.1", 1)])
    assert os.listdir("/dev/fd") == before


def test_a_place_without_a_connection_counts_as_gone() -> None:
    """The kernel forgets the other side of a connection that was reset."""
    assert hang_up([("127.0.0.1", 1)]) == {("127.0.0.1", 1)}


def test_silence_is_noticed_within_seconds() -> None:
    """What is asked of the kernel sums up to the silence that is allowed."""
    assert workers._SILENCE_SECONDS // 2 + 2 * 5 == workers._SILENCE_SECONDS
