"""`speclocal generate`: answer a prompt."""

from typing import TYPE_CHECKING, Annotated

import typer

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
    from speclocal.terminal.opening import asked, chosen, opened, show

    settings, choice = options.settings(), chosen(options)
    text = asked(prompt, view)
    with opened(choice, options, view) as session:
        tokens = prompt_tokens(session, text, raw=options.raw)
        session.open_context(len(tokens), settings, options.ctx)
        show(session.reply(tokens, settings), session, choice, options, view)
