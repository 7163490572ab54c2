"""`speclocal chat`: talk with a model."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.terminal.app import ANSWER, command
from speclocal.terminal.options import ReplyOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(ReplyOptions, ANSWER)
def chat(
    *,
    system: Annotated[str, typer.Option("--system", help="What the model should keep to.", metavar="TEXT")] = "",
    options: ReplyOptions,
    view: "View",
) -> None:
    """Talk with a model; `/help` lists what else can be typed. Lines that are piped in are messages."""
    from speclocal.terminal import chat as talk

    talk.chat(system, options, view)
