"""All output of a command: the model's text on stdout, everything else on stderr.

Knows where things are shown, not how they come about. Model text, names and errors are data: markup in them is not
interpreted, and control characters are shown, not obeyed, on a terminal.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.text import Text

from speclocal.decoding.types import Fate
from speclocal.errors import SpeclocalError
from speclocal.jobs.reply import Reading, Reply, Writing
from speclocal.terminal import words
from speclocal.terminal.live import LiveLine

_DRAFTED = "\x1b[32m"  # green
_PLAIN = "\x1b[0m"


class View:
    """What a person sees of one command. Use it as a context manager: it gives the terminal back."""

    def __init__(self, *, show_drafts: bool = False, quiet: bool = False) -> None:
        """quiet: show no text and no progress, only errors and what is asked for (`--json`)."""
        self._on_terminal = sys.stdout.isatty()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
        self._quiet = quiet
        self._coloured = show_drafts and self._on_terminal and not self._console.no_color
        self._live = LiveLine()
        self._live.enabled &= not quiet
        self._fetching = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.clear()

    def fetching(self, name: str, done: int, total: int | None) -> None:
        """Show how far a download is; where nothing can be redrawn, say once that it runs."""
        of = f" of {words.size(total)}" if total else ""
        if self._fetching != name:
            self._fetching = name
            self.note(f"fetching {name}{f' ({words.size(total)})' if total else ''}; this happens once")
        self._live.show(f"fetching {name}: {words.size(done)}{of}", now=done == total)

    def measuring(self, name: str, share: float) -> None:
        """Show how far the measurement of a model is."""
        self._live.show(f"measuring {name} on this machine, once: {share:.0%}", now=True)

    def note(self, text: str) -> None:
        """Say something beside the text, on a line of its own."""
        self._live.clear()
        self._console.print(Text(words.visible(text), style="dim"))

    def error(self, error: SpeclocalError) -> None:
        """Say what went wrong and what to do."""
        self._live.clear()
        self._console.print(Text("error: ", style="bold red") + Text(words.visible(error.message), style="none"))
        if error.hint:
            self._console.print(Text("\nhint: ", style="bold") + Text(words.visible(error.hint), style="none"))

    def answer(self, reply: Reply) -> None:
        """Show a reply while it grows, then one line of numbers."""
        written = ""
        for event in reply:
            if isinstance(event, Reading):
                self._live.show(f"reading the prompt: {event.done} of {event.total} tokens", now=True)
            else:
                written = self._write(event) or written
                self._live.show(words.live(reply.stats))
        self._live.clear()
        if not self._quiet:
            if not written.endswith("\n"):
                self._out("\n")
            self._console.print(Text(words.summary(reply.stats), style="dim"))

    def result(self, value: dict[str, Any]) -> None:
        """Print one JSON object."""
        self._out(json.dumps(value, ensure_ascii=False) + "\n")

    def text(self, text: str) -> None:
        """Print text that was asked for."""
        self._out(words.visible(text) if self._on_terminal else text)

    def _write(self, event: Writing) -> str:
        text = "".join(piece for piece, _ in event.pieces)
        if self._quiet:
            return text
        if not self._on_terminal:
            self._out(text)
        elif not self._coloured:
            self._out(words.visible(text))
        else:
            for piece, fate in event.pieces:
                shown = words.visible(piece)
                self._out(f"{_DRAFTED}{shown}{_PLAIN}" if fate is Fate.ACCEPTED and shown else shown)
        return text

    def _out(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def reply_json(reply: Reply, **about: object) -> dict[str, Any]:
    """Return a finished reply as plain values, with the names of the README's table."""
    stats = reply.stats
    names = (
        "tokens decode_seconds tokens_per_second prompt_seconds rounds drafted tested accepted acceptance_rate "
        "draft_utilisation tokens_per_round draft_seconds verify_seconds other_seconds prompt_reused rounds_by_drafter"
    )
    return {
        "text": reply.text,
        "token_ids": reply.token_ids,
        "finish_reason": reply.finish_reason,
        "prompt_tokens": stats.prompt_tokens,
        **about,
        "stats": {name: getattr(stats, name) for name in names.split()},
    }
