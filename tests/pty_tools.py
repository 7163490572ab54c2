"""A terminal for a program: what it writes is kept, as bytes and as the screen that a person would see.

Knows pexpect and pyte, not speclocal.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import pexpect
import pyte


class Terminal:
    """A program in a pseudo-terminal. Use it as a context manager: it ends the program."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        rows: int = 24,
        env: Mapping[str, str],
        cwd: str | None = None,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000)
        self.written = b""
        self._stream = pyte.ByteStream(self.screen)
        self._child = pexpect.spawn(
            command[0], list(command[1:]), dimensions=(rows, columns), env=dict(env), cwd=cwd, timeout=60
        )
        self._child.delaybeforesend = None
        self.screen.write_process_input = self._child.send  # answers where the cursor is

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._child.close(force=True)

    def wait_for(self, seen: Callable[[], bool], seconds: float = 60) -> None:
        """Show what the program writes until `seen` holds."""
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, f"not seen in {seconds} s; the screen:\n{self.text}"
            assert self._take(), f"not seen before the end; the screen:\n{self.text}"

    def end(self) -> int:
        """Show all that the program writes, and return its exit code."""
        while self._take():
            pass
        self._child.wait()
        code: int | None = self._child.exitstatus
        return code if code is not None else -self._child.signalstatus

    def press(self, control: str) -> None:
        """Press a key with Ctrl."""
        self._child.sendcontrol(control)

    def type(self, text: str) -> None:
        """Type a text, or paste it: whatever a terminal sends."""
        self._child.send(text)

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows what is typed, as a shell expects it to."""
        return bool(self._child.getecho())

    @property
    def row(self) -> str:
        """The row in which the cursor is."""
        return self.rows[self.screen.cursor.y]

    def kill(self, signal: int) -> None:
        """Send the program a signal."""
        self._child.kill(signal)

    def resize(self, columns: int, rows: int) -> None:
        """Give the terminal another size, and forget what scrolled away."""
        self._child.setwinsize(rows, columns)
        self.screen.resize(rows, columns)

    @property
    def rows(self) -> list[str]:
        """What stands on the screen, without spaces at the ends."""
        return [row.rstrip() for row in self.screen.display]

    @property
    def lines(self) -> list[str]:
        """All that a person can scroll through, without empty lines at the end."""
        gone = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        lines = [line.rstrip() for line in (*gone, *self.screen.display)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def whole(self) -> bool:
        """Whether the screen is as a program finds it: all rows scroll, and nothing is coloured."""
        return self.screen.margins is None and self.screen.cursor.attrs == pyte.screens.Char(" ")

    def _take(self) -> bool:
        """Show a little more; return whether there may be more to come."""
        try:
            new = self._child.read_nonblocking(4096, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.written += new
        self._stream.feed(new)
        return True


def wrapped(text: str, columns: int) -> list[str]:
    """Return the lines a terminal makes of a text of narrow characters, without spaces at their ends."""
    return [
        line[start : start + columns].rstrip()
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), columns)
    ]
