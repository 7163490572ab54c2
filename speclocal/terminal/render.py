"""All output of a command: the model's text on stdout, everything else on stderr.

Knows where things are shown, not how they come about. Model text, names and errors are data: markup in them is not
interpreted, and control characters are shown, not obeyed, on a terminal.
"""

from __future__ import annotations

import codecs
import json
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from types import TracebackType
from typing import Any, Self

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from speclocal.decoding.stats import Stats
from speclocal.decoding.types import Fate
from speclocal.errors import SpeclocalError
from speclocal.jobs.reply import Reading, Reply, Writing
from speclocal.jobs.summarize import PartProgress
from speclocal.terminal import signals, words
from speclocal.terminal.board import Board
from speclocal.terminal.console import console, rendered, say, tell
from speclocal.terminal.live import LiveLine
from speclocal.terminal.speed import Speedometer

_DRAFTED = "\x1b[32m"  # green
_PLAIN = "\x1b[0m"
_WIDE = 200  # columns of a table in a file
_PATIENCE = 1.0  # seconds to wait before saying what for
_UNSAFE = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}  # JSON allows these controls, terminals obey them


class View:
    """What a person sees of one command. Use it as a context manager: it gives the terminal back."""

    def __init__(self, *, quiet: bool = False) -> None:
        """quiet: show no text and no progress, only errors and what is asked for (`--json`)."""
        self._on_terminal = sys.stdout.isatty()
        self._quiet = quiet
        self._paper = console(stderr=False)
        if not self._on_terminal:
            self._paper.width = _WIDE
        self._coloured = self._on_terminal and self._paper.color_system is not None and not self._paper.no_color
        self._live = LiveLine()
        self._live.enabled &= not quiet
        self._board = Board()
        self._board.enabled &= not quiet
        self._fetching = ""
        self._speed = Speedometer()
        self._written = ""  # the last text on stdout

    def __enter__(self) -> Self:
        signals.prepare(self._clear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._clear()
        if self._written:
            self._end_line()

    def fetching(self, name: str, done: int, total: int | None) -> None:
        """Show how far a download is; where nothing can be redrawn, say once that it runs."""
        if self._fetching != name:
            self._fetching, self._speed = name, Speedometer()
            self.note(f"fetching {name}{f' ({words.size(total)})' if total else ''}; this happens once")
        self._speed.reached(done)
        self._live.show(words.fetching(name, done, total, self._speed.per_second), now=done == total)

    def measuring(self, name: str, share: float) -> None:
        """Show how far the measurement of a model is."""
        self._live.show(f"measuring {name} on this machine, once: {share:.0%}", now=True)

    def trying(self, name: str, task: str) -> None:
        """Show which task a model is tried on."""
        self._live.show(f"trying {name} on {task}", now=True)

    def taking_notes(self, progress: PartProgress) -> None:
        """Show how far the parts of a long text are."""
        self._live.show(words.part(progress))

    def hashing(self, name: str) -> None:
        """Show that the file of a model is read for its hash."""
        self._live.show(f"hashing {name}", now=True)

    def board(self, draw: Callable[[], RenderableType]) -> None:
        """Show rows that are drawn again and again, on a terminal; `draw` is asked for them only then."""
        self._live.clear()
        self._board.show(draw)

    def doing(self, what: str) -> None:
        """Show what is being done."""
        self._live.show(what, now=True)

    def note(self, text: str) -> None:
        """Say something beside the text, on a line of its own."""
        self._clear()
        say(text)

    def problem(self, error: SpeclocalError) -> None:
        """Say what went wrong where that does not end the command."""
        self._clear()
        tell(error)

    @property
    def can_ask(self) -> bool:
        """Whether there is somebody at a terminal to answer a question."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    def agrees(self, question: str) -> bool:
        """Ask a question beside the text; anything but a yes means no."""
        self._live.clear()
        sys.stderr.write(words.visible(question))
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Say what is waited for if what happens inside takes long."""
        timer = Timer(_PATIENCE, self._live.show, [f"waiting for {what}"], {"now": True})
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()

    def answer(self, reply: Reply, *, show_drafts: bool = False) -> None:
        """Show a reply while it grows, with `show_drafts` accepted tokens in colour; then the numbers."""
        self.stream(reply, show_drafts=show_drafts)
        if not self._quiet:
            for line in (words.summary(reply), *words.insight(reply)):
                say(line)

    def stream(self, reply: Reply, *, show_drafts: bool = False, live: Callable[[Stats], str] = words.live) -> None:
        """Show a reply while it grows, to the end of its line; below it the live line, in the words of `live`."""
        self._written = ""
        try:
            for event in reply:
                if isinstance(event, Reading):
                    self._live.show(f"reading the prompt: {event.done} of {event.total} tokens", now=True)
                else:
                    self._write(event, coloured=show_drafts and self._coloured)
                    self._live.show(live(reply.stats))
        finally:
            self._live.clear()
            if not self._quiet and (self._written or reply.finish_reason):
                self._end_line()

    def result(self, value: dict[str, Any]) -> None:
        """Print one JSON object."""
        unicode = codecs.lookup(sys.stdout.encoding).name == "utf-8"
        self._out(json.dumps(value, ensure_ascii=not unicode).translate(_UNSAFE) + "\n")

    def text(self, text: str) -> None:
        """Print text that was asked for."""
        self._clear()
        self._out(words.visible(text) if self._on_terminal else text)

    def sentences(self, lines: Sequence[str]) -> None:
        """Print sentences that were asked for, each on lines of its own; on a terminal they break between words."""
        for line in lines:
            wrapped = textwrap.wrap(line, self.columns, subsequent_indent="  ") if self._on_terminal else [line]
            self.text("\n".join(wrapped) + "\n")

    def line(self, text: Text) -> None:
        """Print a line of text in its styles; on a terminal of any width it wraps by itself."""
        self._clear()
        self._out(rendered(text, self._paper, soft_wrap=True))

    @property
    def at_keyboard(self) -> bool:
        """Whether a person sees what is shown, and can answer with a key."""
        return self._on_terminal and self._live.enabled and sys.stdin is not None and sys.stdin.isatty()

    @property
    def coloured(self) -> bool:
        """Whether styles show in colours."""
        return self._coloured

    @property
    def columns(self) -> int:
        """How wide a table can be."""
        return self._paper.width

    @property
    def rows(self) -> int:
        """How many lines are seen at once."""
        return self._paper.height

    def tables(self, *tables: Table) -> None:
        """Print tables, parted by empty lines; outside a terminal wide enough for their text, and not padded."""
        self._clear()
        for i, table in enumerate(tables):
            lines = rendered(table, self._paper).splitlines()
            self._out("\n" * bool(i) + "".join(f"{line.rstrip()}\n" for line in lines))

    def _write(self, event: Writing, *, coloured: bool) -> None:
        if self._quiet:
            return
        self._live.make_way()
        if not self._on_terminal:
            self._out("".join(piece for piece, _ in event.pieces))
            return
        for piece, fate in event.pieces:
            shown = words.visible(piece)
            self._out(shown, code=_DRAFTED if coloured and shown and fate is Fate.ACCEPTED else "")
            self._live.wrote(shown)

    def _clear(self) -> None:
        """Take away what is drawn below the text."""
        self._live.clear()
        self._board.clear()

    def _end_line(self) -> None:
        """Begin a new line, unless the last text ended with one."""
        if not self._written.endswith("\n"):
            self._out("\n")

    def _out(self, text: str, *, code: str = "") -> None:
        """Print text, in the colour of an escape code."""
        self._written = text or self._written
        sys.stdout.write(f"{code}{text}{_PLAIN}" if code else text)
        sys.stdout.flush()


def reply_json(reply: Reply, **about: object) -> dict[str, Any]:
    """Return a finished reply as plain values, with the names of the README's table."""
    stats = reply.stats
    names = (
        "tokens decode_seconds tokens_per_second prompt_seconds rounds drafted tested accepted acceptance_rate "
        "draft_utilisation tokens_per_round draft_seconds verify_seconds other_seconds prompt_reused rounds_by_drafter "
        "drafted_by_drafter"
    )
    return {
        "text": reply.text,
        "token_ids": reply.token_ids,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": stats.prompt_tokens,
        **about,
        "estimated_speedup": reply.estimated_speedup,
        "stats": {name: getattr(stats, name) for name in names.split()},
    }
