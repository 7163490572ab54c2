"""`speclocal cache`: what is kept of earlier runs."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.terminal.app import MODELS, command
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(Options, MODELS)
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Delete it, too.")] = False,
    options: Options,
    view: "View",
) -> None:
    """Show what is kept of earlier runs: processed prompts, and notes on parts of long texts."""
    from speclocal.jobs.store import NOTES, PROMPTS
    from speclocal.terminal.tables import stores_json, stores_table

    stores = [PROMPTS, NOTES]
    if options.json:
        view.result(stores_json(stores))
    else:
        view.tables(stores_table(stores))
    if clear:
        for store in stores:
            store.clear()
        view.note("all of this is deleted")
