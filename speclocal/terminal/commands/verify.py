"""`speclocal verify`: is speculation exact here?"""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.jobs.modes import MAX_SEED
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import ModelOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(ModelOptions, MACHINE)
def verify(
    *,
    max_tokens: Annotated[int, typer.Option("--max-tokens", "-n", min=2, max=1024, help="Length of replies.")] = 32,
    temperature: Annotated[
        float, typer.Option("--temperature", "-t", min=0.01, max=100, help="Of seeded replies, and of p and q.")
    ] = 0.8,
    seed: Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Of seeded replies and draws.")] = 1,
    strict: Annotated[bool, typer.Option("--strict", help="Reply as `--strict` does: then no reply may fork.")] = False,
    wrong_rules: Annotated[
        bool, typer.Option("--wrong-rules", help="Show that rules with a mistake are caught, too.")
    ] = False,
    options: ModelOptions,
    view: "View",
) -> None:
    """Check that drafting leaves the model's answers as they are, in five parts; exit code 1 if it does not."""
    from speclocal.jobs.findings import Part
    from speclocal.jobs.verify import Verification, VerifySettings
    from speclocal.terminal.opening import chosen, opened
    from speclocal.terminal.verify_words import conclusion, parts_json, sentences

    settings, choice = VerifySettings(max_tokens, temperature, seed, strict, wrong_rules), chosen(options)
    parts: list[Part] = []
    with opened(choice, options, view) as session:
        for part in Verification(session, settings, view.doing, view.measuring).parts():
            parts.append(part)
            if not options.json:
                view.sentences(sentences(len(parts), part, session.vocab))
        for note in session.notes:
            view.note(note)
        if options.json:
            models = {"model": choice.target.name, "draft": choice.draft.name if choice.draft else None}
            holds = all(part.holds for part in parts)
            view.result({**models, "holds": holds, "parts": parts_json(parts, session.vocab)})
        else:
            view.sentences([conclusion(parts)])
    if not all(part.holds for part in parts):
        raise typer.Exit(1)
