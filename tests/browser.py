"""A browser that opens a page and tells what the page asked for and complained about.

Knows Chromium and its DevTools protocol over a pipe, not what is on the page.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_SECONDS = 60


def find_chromium() -> str | None:
    """Return where Chromium is, None where it is not, or is a stub that asks for something else to be installed."""
    paths = [path for name in NAMES if (path := shutil.which(name))]
    return next(
        (path for path in paths if not subprocess.run([path, "--version"], capture_output=True).returncode), None
    )


@dataclass(frozen=True)
class Visit:
    """What happened while a page was open. width: of its content; broken: pictures that cannot be shown."""

    requests: list[str]  # besides that for the page itself, and data within it
    complaints: list[str]
    text: str
    width: int
    broken: int
    scripts: int


class Browser:
    """A headless Chromium without a profile or a network. Use it as a context manager: it ends the browser."""

    def __init__(self, chromium: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        (commands, self._out), (self._in, answers) = os.pipe(), os.pipe()
        read_end, write_end = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (commands, answers))

        def connect() -> None:  # Chromium takes commands from file 3, and answers in file 4
            os.dup2(read_end, 3)
            os.dup2(write_end, 4)

        flags = (
            "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --disable-dev-shm-usage --remote-debugging-pipe"
        )
        profile = f"--user-data-dir={self._profile.name}"
        self._process = subprocess.Popen(
            [chromium, *flags.split(), profile],
            preexec_fn=connect,
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (commands, answers, read_end, write_end):
            os.close(end)
        self._buffer = b""
        self._number = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def visit(self, page: Path, width: int = 1100) -> Visit:
        """Open a page in a window of so many pixels, and wait until it is loaded."""
        events: list[dict[str, Any]] = []
        target = self._ask("Target.createTarget", {"url": "about:blank"}, events)["targetId"]
        attached = self._ask("Target.attachToTarget", {"targetId": target, "flatten": True}, events)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._ask(f"{domain}.enable", {}, events)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._ask("Emulation.setDeviceMetricsOverride", size, events)
        self._ask("Page.navigate", {"url": page.as_uri()}, events)
        while not any(event["method"] == "Page.loadEventFired" for event in events):
            events.append(self._receive())
        asked = """JSON.stringify({
            text: document.body.innerText,
            width: document.documentElement.scrollWidth,
            broken: [...document.images].filter(image => !image.naturalWidth).length,
            scripts: document.scripts.length,
        })"""
        answer = self._ask("Runtime.evaluate", {"expression": asked}, events)
        self._session = None
        urls = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
        complaints = [
            json.dumps(event["params"])
            for event in events
            if event["method"] in ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
        ]
        return Visit(
            requests=[url for url in urls if url != page.as_uri() and not url.startswith("data:")],
            complaints=complaints,
            **json.loads(answer["result"]["value"]),
        )

    def _ask(self, method: str, params: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
        """Give a command and return its result; what happens meanwhile is added to `events`."""
        self._number += 1
        session = {"sessionId": self._session} if self._session else {}
        command = json.dumps({"id": self._number, "method": method, "params": params, **session})
        os.write(self._out, command.encode() + b"\0")
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                result: dict[str, Any] = message["result"]
                return result
            if "method" in message:
                events.append(message)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"Chromium says nothing for {_SECONDS} s"
            data = os.read(self._in, 1 << 16)
            assert data, "Chromium ended"
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        received: dict[str, Any] = json.loads(message)
        return received
