"""`speclocal trace`: one reply, round by round."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import UsageError
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import ReplyOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(ReplyOptions, MACHINE)
def trace(
    *,
    prompt: Annotated[str, typer.Argument(help="What to say to the model; text on stdin is added to it.")] = "",
    all_rounds: Annotated[bool, typer.Option("--all", help="Show all rounds at once, without key presses.")] = False,
    jsonl: Annotated[
        str, typer.Option("--jsonl", help="Write every round as a line of JSON; - for stdout.", metavar="FILE")
    ] = "",
    options: ReplyOptions,
    view: "View",
) -> None:
    """Show one reply round by round: what was drafted, how each token was judged, and what it cost."""
    from speclocal.jobs.generate import prompt_tokens
    from speclocal.terminal.opening import asked, chosen, opened
    from speclocal.terminal.outputs import STDOUT, check_outputs
    from speclocal.terminal.render import reply_json
    from speclocal.terminal.trace import trace, written

    if options.json and jsonl == STDOUT:
        raise UsageError("`--json` and `--jsonl -` both write to stdout", "leave one of them out")
    if jsonl != STDOUT:
        check_outputs({"--jsonl": jsonl}, [options.model, options.draft])
    settings, choice, text = options.settings(), chosen(options), asked(prompt, view)
    shown = not options.json and jsonl != STDOUT
    stepping = shown and not all_rounds and view.at_keyboard
    with opened(choice, options, view) as session, written(jsonl) as file:
        tokens = prompt_tokens(session, text, raw=options.raw)
        session.open_context(len(tokens), settings, options.ctx)
        reply = session.reply(tokens, settings)
        for note in session.notes:
            view.note(note)
        rounds = trace(reply, session.vocab, settings, view, shown=shown, stepping=stepping, file=file)
        if options.json:
            models = {"model": choice.target.name, "draft": choice.draft.name if choice.draft else None}
            about = {"mode": session.mode_used(settings), "seed": settings.seed, "rounds": rounds}
            view.result(reply_json(reply, **models, **about))
