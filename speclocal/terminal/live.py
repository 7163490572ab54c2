"""One live line at the bottom of the terminal, under text that is only ever appended.

Knows escape sequences, not what the line says. The last row is taken out of the scrolling region (DECSTBM, as apt does
for its progress bar), so the terminal itself wraps and scrolls the text and nothing of it is ever drawn twice.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

from rich.cells import cell_len, set_cell_size

from speclocal.terminal import streams, words

_INTERVAL = 0.1  # seconds between two drawings
_SMALLEST = 4  # rows a terminal must have to spare one
_TAB = 8
_NONE = os.terminal_size((0, 0))


def obeys_escape_codes() -> bool:
    """Return whether the terminal, by its name, is more than paper."""
    return os.environ.get("TERM", "").lower() not in ("", "dumb", "unknown")


class LiveLine:
    """The line. Tell it what is written above it, and clear it at the end, whatever happened."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._reserved = _NONE  # the size of the terminal when its last row was taken
        self._drawn_at = -_INTERVAL
        self._column = 0  # how many columns of its row the text fills; a full row wraps with the next character
        self.enabled = self._out.isatty() and obeys_escape_codes()

    def show(self, text: str, *, now: bool = False) -> None:
        """Draw `text` on the last row, unless the last drawing is too recent."""
        if not self.enabled or (not now and time.monotonic() - self._drawn_at < _INTERVAL):
            return
        self._drawn_at = time.monotonic()
        size = self._size()
        if size.lines < _SMALLEST or self._column >= size.columns:  # coming back, the cursor forgets that a row is full
            return
        if size != self._reserved:
            self.clear()
            self._reserve(size)
        self._write(f"\x1b7\x1b[{size.lines};1H\x1b[2K\x1b[2m{_fitting(text, size.columns - 1)}\x1b[0m\x1b8")

    def make_way(self) -> None:
        """Get out of the way of text that is about to be written, if the terminal has another size by now."""
        if self._reserved != _NONE and self._size() != self._reserved:
            self.clear()

    def wrote(self, text: str) -> None:
        """Take notice of text that was written above the line, as it is shown."""
        if not self.enabled:
            return
        columns = self._size().columns
        for char in text:
            if char == "\n":
                self._column = 0
            elif char == "\t":
                self._column = min((self._column // _TAB + 1) * _TAB, columns - 1)
            elif width := cell_len(char):
                self._column = self._column + width if self._column + width <= columns else width

    def clear(self) -> None:
        """Give the last row back to the text. Safe to call twice."""
        if self._reserved == _NONE:
            return
        if self._size() == self._reserved:
            self._write(f"\x1b7\x1b[r\x1b[{self._reserved.lines};1H\x1b[2K\x1b8")
        else:  # the line went where the terminal took it, below the text; on a full row that would cost a character
            self._write("\x1b7\x1b[r\x1b8" + ("\x1b[J" if self._column < self._reserved.columns else ""))
        self._reserved = _NONE

    def _reserve(self, size: os.terminal_size) -> None:
        """Shrink the scrolling region by one row, after scrolling the text out of that row."""
        self._write(f"\x1bD\x1b[A\x1b7\x1b[1;{size.lines - 1}r\x1b8")
        self._reserved = size

    def _size(self) -> os.terminal_size:
        """Return the size of the terminal that the line stands on; stdout may be something else."""
        try:
            return os.get_terminal_size(self._out.fileno())
        except OSError:  # it is gone
            return _NONE

    def _write(self, sequence: str) -> None:
        try:
            self._out.write(sequence)
            self._out.flush()
        except OSError:  # the terminal is gone; the text may go elsewhere
            self.enabled = False
            streams.drop(self._out)


def _fitting(text: str, columns: int) -> str:
    """Return `text` in one row of at most so many columns."""
    text = words.on_one_line(text)
    return text if cell_len(text) <= columns else set_cell_size(text, columns)
