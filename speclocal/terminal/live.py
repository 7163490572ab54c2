"""One live line at the bottom of the terminal, under text that is only ever appended.

Knows escape sequences, not what the line says. The last row is taken out of the scrolling region (DECSTBM, as apt does
for its progress bar), so the terminal itself wraps and scrolls the text and nothing of it is ever drawn twice.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from types import TracebackType
from typing import Self, TextIO

_INTERVAL = 0.1  # seconds between two drawings
_SMALLEST = 4  # rows a terminal must have to spare one


class LiveLine:
    """The line. Use it as a context manager: leaving it gives the row back, whatever happened."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._size = os.terminal_size((0, 0))
        self._drawn_at = -_INTERVAL
        self.enabled = self._out.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def show(self, text: str, *, now: bool = False) -> None:
        """Draw `text` on the last row, unless the last drawing is too recent."""
        if not self.enabled or (not now and time.monotonic() - self._drawn_at < _INTERVAL):
            return
        self._drawn_at = time.monotonic()
        size = shutil.get_terminal_size()
        if size.lines < _SMALLEST:
            return
        if size != self._size:
            self._reserve(size)
        self._write(f"\x1b7\x1b[{size.lines};1H\x1b[2K\x1b[2m{text[: size.columns - 1]}\x1b[0m\x1b8")

    def clear(self) -> None:
        """Give the last row back to the text. Safe to call twice."""
        if self._size.lines:
            self._write(f"\x1b7\x1b[r\x1b[{self._size.lines};1H\x1b[2K\x1b8")
            self._size = os.terminal_size((0, 0))

    def _reserve(self, size: os.terminal_size) -> None:
        """Shrink the scrolling region by one row, after scrolling the text out of that row."""
        self._write(f"\x1bD\x1b[A\x1b7\x1b[1;{size.lines - 1}r\x1b8")
        self._size = size

    def _write(self, sequence: str) -> None:
        self._out.write(sequence)
        self._out.flush()
