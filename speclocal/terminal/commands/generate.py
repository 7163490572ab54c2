"""`speclocal generate`: answer a prompt."""

import sys
from io import BytesIO
from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import UsageError
from speclocal.terminal.app import ANSWER, command
from speclocal.terminal.options import ReplyOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(ReplyOptions, ANSWER)
def generate(
    *,
    prompt: Annotated[str, typer.Argument(help="What to say to the model; text on stdin is added to it.")] = "",
    options: ReplyOptions,
    view: "View",
) -> None:
    """Answer a prompt."""
    from speclocal.jobs.generate import prompt_tokens
    from speclocal.terminal.opening import chosen, opened, show

    settings, choice = options.settings(), chosen(options)
    text = "\n\n".join(part for part in (prompt, _piped(view)) if part.strip())
    if not text:
        raise UsageError("there is no prompt", 'give one: `speclocal generate "..."`, or pipe text into it')
    with opened(choice, options, view) as session:
        tokens = prompt_tokens(session, text, raw=options.raw)
        session.open_context(len(tokens), settings, options.ctx)
        show(session.reply(tokens, settings), session, choice, options, view)


def _piped(view: "View") -> str:
    """Return what is piped in as text; nothing at a terminal, or from a blank pipe."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    from speclocal.text.documents import MAX_BYTES, read_document

    with view.waiting("standard input"):
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not data.strip():
        return ""
    document = read_document("-", stdin=BytesIO(data), keep_html=True)
    for note in document.notes:
        view.note(note)
    return document.text
