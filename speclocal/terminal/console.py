"""What is said on stderr, and how rich is set up to say it.

Knows how a line looks, not what it is about. Names and errors are data: markup in them is not interpreted, and control
characters are shown, not obeyed.
"""

from __future__ import annotations

import sys
from io import StringIO
from typing import Literal

from rich.console import Console, RenderableType
from rich.text import Text

from speclocal.errors import SpeclocalError
from speclocal.terminal import streams, words
from speclocal.terminal.live import obeys_escape_codes
from speclocal.terminal.secrets import redacted


def console(*, stderr: bool) -> Console:
    """Return a console that leaves wrapping to the terminal, and colours nothing that does not know colours."""
    colours: Literal["auto"] | None = "auto" if obeys_escape_codes() else None
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=stderr, color_system=colours)


def say(text: str) -> None:
    """Say something beside the text, on a line of its own."""
    _print(Text(words.visible(text), style="dim"))


def tell(error: SpeclocalError) -> None:
    """Say what went wrong and what to do. Errors may quote what a library said: no token gets through."""
    _print(Text("error: ", style="bold red") + Text(words.visible(redacted(error.message)), style="none"))
    if error.hint:
        _print(Text("\nhint: ", style="bold") + Text(words.visible(redacted(error.hint)), style="none"))


def rendered(what: RenderableType, out: Console, *, soft_wrap: bool | None = None) -> str:
    """Return what a console would print. soft_wrap: leave it to the terminal; None does as the console does."""
    out.file = sheet = StringIO()
    out.print(what, soft_wrap=soft_wrap)
    return sheet.getvalue()


def _print(line: Text) -> None:
    try:
        sys.stderr.write(rendered(line, console(stderr=True)))
        sys.stderr.flush()
    except OSError:  # where nobody can be told, the text and the exit code are what counts
        streams.drop(sys.stderr)
