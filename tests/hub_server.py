"""A small server on loopback that speaks the Hub's protocol, and breaks it on demand.

Knows what the Hub answers, not who asks. Files are served as the Hub serves large ones: their address answers with size
and hash and sends the client on to another host, which must get no token.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "c" * 40


@dataclass
class Request:
    """What the server was asked. The path is without its query."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class FakeHub:
    """What the server holds, how it misbehaves, and what it was asked."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    forbidden: set[str] = field(default_factory=set)
    disabled: set[str] = field(default_factory=set)

    url: str = ""
    commit: str = COMMIT  # nothing: a server that is no Hub
    statuses: list[int] = field(default_factory=list)  # answered to the next requests, in order
    body_statuses: list[int] = field(default_factory=list)  # answered to the next requests for a file's bytes
    cuts: list[int] = field(default_factory=list)  # after so many bytes the next answers break off
    stalls: list[int] = field(default_factory=list)  # after so many bytes the next answers send nothing more
    pace: float = 0.0  # seconds between two tenths of a file
    tells_tokens: bool = False  # repeats in its error messages what the client sent, as a careless server would
    knows_ranges: bool = True
    flips: bool = False  # one bit of every file arrives changed
    missing_bytes: int = 0  # by which files are shorter than announced
    requests: list[Request] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)  # set at the end: stalled answers end

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]

    def ranges(self) -> list[str]:
        """The ranges that were asked for, in order; nothing for a request of a whole file."""
        return [
            request.headers.get("range", "")
            for request in self.requests
            if request.method == "GET" and request.path.startswith("/cdn/")
        ]

    def environment(self, home: Path) -> dict[str, str]:
        """Return what makes a process use this Hub, with a cache and a token file of its own."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_HOME": str(home),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "NO_PROXY": "127.0.0.1,localhost",
        }


@contextmanager
def serving(fake: FakeHub) -> Iterator[FakeHub]:
    """Serve on loopback inside."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(fake)) as listening:
        fake.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield fake
        finally:
            fake.released.set()
            listening.shutdown()
            thread.join()


def _handler_of(fake: FakeHub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            headers = {name.lower(): content for name, content in self.headers.items()}
            fake.requests.append(Request(self.command, path, headers))
            parts = path.strip("/").split("/")
            if fake.statuses:
                said = {"X-Error-Message": f"not with {headers.get('authorization')}"} if fake.tells_tokens else {}
                self.answer(fake.statuses.pop(0), said)
            elif parts[0] == "cdn":
                self.send_file(fake.repos["/".join(parts[1:3])]["/".join(parts[3:])])
            elif parts[:2] == ["api", "models"]:
                repo = "/".join(parts[2:4])
                if self.may_read(repo):
                    entries = [described(name, content) for name, content in fake.repos[repo].items()]
                    self.answer(200, {"Content-Type": "application/json"}, json.dumps(entries).encode())
            elif self.may_read("/".join(parts[:2])):
                self.lead_to("/".join(parts[:2]), "/".join(parts[4:]))

        do_HEAD = do_GET
        do_CONNECT = do_GET  # what a client asks of a proxy; `statuses` says what it answers

        def may_read(self, repo: str) -> bool:
            """Answer as the Hub does for a repository that this client may not read."""
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            if token == "invalid":
                self.answer(401, {"X-Error-Message": "Invalid credentials in Authorization header"})
            elif repo in fake.gated:
                self.answer(403 if token else 401, {"X-Error-Code": "GatedRepo"})
            elif repo in fake.forbidden:
                self.answer(403, {"X-Error-Message": "token lacks a scope"})
            elif repo in fake.disabled:
                self.answer(403, {"X-Error-Message": "Access to this resource is disabled."})
            elif repo not in fake.repos:
                self.answer(404 if token else 401, {"X-Error-Code": "RepoNotFound"})
            else:
                return True
            return False

        def lead_to(self, repo: str, name: str) -> None:
            """Answer with size and hash of a file, and where its bytes are."""
            files = fake.repos[repo]
            if name not in files:
                self.answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": fake.commit})
                return
            port = self.server.server_address[1]
            headers = {
                "Location": f"http://localhost:{port}/cdn/{repo}/{name}?signature=1",
                "X-Linked-Size": str(len(files[name])),
                "X-Linked-ETag": f'"{hashlib.sha256(files[name]).hexdigest()}"',
            }
            self.answer(302, headers | ({"X-Repo-Commit": fake.commit} if fake.commit else {}))

        def send_file(self, content: bytes) -> None:
            if fake.body_statuses:
                self.answer(fake.body_statuses.pop(0))
                return
            if fake.flips:
                content = content[:-1] + bytes([content[-1] ^ 1])
            content = content[: len(content) - fake.missing_bytes]
            begin = 0
            if fake.knows_ranges and "Range" in self.headers:
                begin = int(self.headers["Range"].removeprefix("bytes=").rstrip("-"))
            size = len(content)
            headers = {"Content-Range": f"bytes {begin}-{size - 1}/{size}"} if begin else {}
            body = content[begin:]
            stop = fake.cuts.pop(0) if fake.cuts else None
            stall = fake.stalls.pop(0) if fake.stalls else None
            end = stop if stop is not None else stall
            self.answer(206 if begin else 200, headers, body, end)
            if stall is not None:
                fake.released.wait(30)
            if end is not None:
                self.close_connection = True

        def answer(
            self, status: int, headers: dict[str, str] | None = None, body: bytes = b"", end: int | None = None
        ) -> None:
            """Answer; the body breaks off after `end` bytes of those that are announced."""
            self.send_response(status)
            for key, content in (headers or {}).items():
                self.send_header(key, content)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                body = body[:end]
                step = max(1, len(body) // 10 if fake.pace else len(body))
                for begin in range(0, len(body), step):
                    self.wfile.write(body[begin : begin + step])
                    self.wfile.flush()
                    if fake.pace:
                        fake.released.wait(fake.pace)

        def log_message(self, format: str, *args: object) -> None: ...

    return Handler


def described(name: str, content: bytes) -> dict[str, object]:
    """Return a file as the Hub lists it."""
    sha256 = hashlib.sha256(content).hexdigest()
    lfs = {"oid": sha256, "size": len(content), "pointerSize": 134}
    return {"type": "file", "path": name, "size": len(content), "oid": "0" * 40, "lfs": lfs}
