"""A few rows at the bottom of the terminal that are drawn again and again while something runs, and then vanish.

Knows how often and where, not what is drawn. For text that grows there is live.py; this is for a table that fills in.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable

from rich.console import RenderableType
from rich.live import Live

from speclocal.llama import interrupts
from speclocal.terminal import streams
from speclocal.terminal.console import console
from speclocal.terminal.live import obeys_escape_codes

_INTERVAL = 0.25  # seconds between two drawings
_STOPS = [getattr(signal, name) for name in ("SIGTSTP",) if hasattr(signal, name)]
"""Ctrl-Z: its handler takes the rows away, which it cannot while they are drawn."""


class Board:
    """The rows. Clear it before anything else is written, and at the end, whatever happened."""

    def __init__(self) -> None:
        self.enabled = sys.stderr.isatty() and obeys_escape_codes()
        self._live: Live | None = None
        self._drawn_at = -_INTERVAL

    def show(self, draw: Callable[[], RenderableType]) -> None:
        """Draw what `draw` returns, unless the last drawing is too recent."""
        if not self.enabled or time.monotonic() - self._drawn_at < _INTERVAL:
            return
        try:
            with interrupts.held(*_STOPS):
                self._draw(draw())
        except OSError:  # the terminal is gone; the result may go elsewhere
            self.enabled, self._live = False, None
            streams.drop(sys.stderr)
        self._drawn_at = time.monotonic()

    def _draw(self, rows: RenderableType) -> None:
        if self._live is None:
            paper = console(stderr=True)
            paper.soft_wrap = False  # a row that the terminal wraps would not be found again
            self._live = Live(
                console=paper,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        self._live.update(rows, refresh=True)

    def clear(self) -> None:
        """Take the rows away. Safe to call twice."""
        live, self._live = self._live, None
        if live is not None:
            try:
                with interrupts.held(*_STOPS):
                    live.stop()
            except OSError:
                self.enabled = False
                streams.drop(sys.stderr)
