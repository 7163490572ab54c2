"""`speclocal export`: the command with which a server serves the same models."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.jobs.modes import MAX_DRAFT_TOKENS, Server
from speclocal.terminal.app import MODELS, command
from speclocal.terminal.options import ModelOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(ModelOptions, MODELS)
def export(
    *,
    to: Annotated[Server, typer.Option("--to", help="The server.")],
    num_draft_tokens: Annotated[
        int | None,
        typer.Option("--num-draft-tokens", "-g", min=1, max=MAX_DRAFT_TOKENS, help="Fix the draft length."),
    ] = None,
    ctx: Annotated[int, typer.Option("--ctx", min=1, max=2**24, help="Context in tokens.")] = 4096,
    options: ModelOptions,
    view: "View",
) -> None:
    """Print the command that serves the same models with llama-server or vLLM, and say what changes there."""
    import shlex
    from dataclasses import asdict

    from speclocal.jobs import export as job
    from speclocal.jobs.generate import choose_models

    places = job.Places(options.placement(), options.draft_placement(), ctx)
    made = job.export(choose_models(options.model, options.draft), to, places, num_draft_tokens)
    if options.json:
        view.result({"to": to, **asdict(made), "command": shlex.join(made.words)})
        return
    view.text(f"{shlex.join(made.words)}\n")
    for note in made.notes:
        view.note(note)
