"""Workers by their addresses: machines that lend memory and computing power over the network.

Knows addresses and the greeting of llama.cpp's RPC protocol, not what is sent after it. llama.cpp itself ends the
process when an address is wrong, so every worker is greeted from here before llama.cpp meets it.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass

from speclocal.errors import ModelError, UsageError

PORT = 50052
"""The port of a worker where none is given: llama.cpp's own."""
MAX_WORKERS = 16  # GGML_RPC_MAX_SERVERS

_GREETING = struct.pack("<BQ24x", 14, 24)  # command, size, and what the connection can do beyond TCP: nothing
_ANSWER = struct.Struct("<Q3B")  # size; the version of the protocol: what may follow does not matter
_LARGEST_ANSWER = 64  # bytes; what claims to say more is something else
_PATIENCE_SECONDS = 5.0
_SILENCE_SECONDS = 20  # after which a connection to a machine that is gone counts as broken


@dataclass(frozen=True)
class Address:
    """A worker's host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Version:
    """The version of the protocol that a worker speaks."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def parse(text: str) -> tuple[Address, ...]:
    """Return the addresses in `host:port,host:port`; a port can be left out.

    Raises UsageError when it has another form.
    """
    addresses = tuple(_address(part.strip()) for part in text.split(",")) if text.strip() else ()
    if twice := [address for address in addresses if addresses.count(address) > 1]:
        raise UsageError(f"--rpc names {twice[0]} twice", "name every worker once")
    if len(addresses) > MAX_WORKERS:
        raise UsageError(f"--rpc names {len(addresses)} workers", f"llama.cpp takes up to {MAX_WORKERS}")
    return addresses


def _address(text: str) -> Address:
    match = re.fullmatch(r"([^\s:\[\]]+)(?::(\d+))?", text)
    if match is None:
        ipv6 = text.count(":") > 1
        raise UsageError(
            f"--rpc: `{text}` is not the address of a worker",
            "llama.cpp's workers have no IPv6: give a name or an IPv4 address" if ipv6 else "write it as host:port",
        )
    port = int(match[2]) if match[2] else PORT
    if not 1 <= port <= 65535:
        raise UsageError(f"--rpc: port {port} of `{text}` is out of range", "give a number from 1 to 65535")
    return Address(match[1], port)


def resolve(address: Address) -> tuple[str, int]:
    """Return where a worker is in the network.

    Raises ModelError when its name is unknown.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, socket.AF_INET, socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not a name"
        raise ModelError(f"the worker {address} cannot be found: {reason}", "check the name in `--rpc`") from exc
    host, port = found[0][4][:2]
    return str(host), int(port)


def greet(address: Address, patience_seconds: float = _PATIENCE_SECONDS) -> Version:
    """Return the version of the protocol that a worker speaks; it is free for others when this returns.

    Raises ModelError when there is no worker, or it serves somebody else.
    """
    place = resolve(address)
    try:
        with closing(socket.create_connection(place, patience_seconds)) as connection:
            connection.sendall(_GREETING)
            answer = _receive(connection, _ANSWER.size)
    except TimeoutError as exc:
        raise ModelError(
            f"the worker {address} does not answer within {patience_seconds:g} s",
            "a worker serves one program at a time: wait until it is free, or see whether the address is right",
        ) from exc
    except OSError as exc:
        host, port = place
        raise ModelError(
            f"no worker answers at {address}: {exc.strerror or exc}",
            f"start one there with `speclocal worker --host {host} --port {port}`",
        ) from exc
    if len(answer) == _ANSWER.size:
        size, *version = _ANSWER.unpack(answer)
        if 3 <= size <= _LARGEST_ANSWER:
            return Version(*version)
    raise ModelError(
        f"what answers at {address} is not a worker of this llama.cpp",
        "see whether the address is right, and install the same version of llama-cpp-python on both machines",
    )


def _receive(connection: socket.socket, size: int) -> bytes:
    """Return `size` bytes, fewer where the other side ends."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def notice_silence(places: Sequence[tuple[str, int]] | None = None) -> None:
    """Let this process's connections, to these places or to all, break when the other machine vanishes without a word.

    llama.cpp opens them, and would wait for ever.
    """
    options = {"TCP_KEEPIDLE": _SILENCE_SECONDS // 2, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 5}
    for connection in _connections(places):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_SECONDS * 1000)


def hang_up(places: Sequence[tuple[str, int]]) -> set[tuple[str, int]]:
    """End this process's connections to these places; return those where the other side had ended before.

    So the workers that are left become free for the next connection.
    """
    alive = set()
    for connection in _connections(places):
        if not _ended(connection):
            alive.add(connection.getpeername()[:2])
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
    return set(places) - alive


def _ended(connection: socket.socket) -> bool:
    """Return whether nothing more can come from the other side."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _connections(places: Sequence[tuple[str, int]] | None) -> Iterator[socket.socket]:
    """Give this process's connections to these places or all, whoever opened them; none where files are not listed."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:  # Windows
        return
    for number in numbers:
        with suppress(OSError):  # closed meanwhile, or not connected
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with closing(socket.socket(fileno=os.dup(number))) as connection:
                    if connection.family != socket.AF_INET:
                        continue
                    place = connection.getpeername()[:2]
                    if places is None or place in places:
                        yield connection
