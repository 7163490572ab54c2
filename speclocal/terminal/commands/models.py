"""`speclocal models`: the catalogue, and what is on this disk; `speclocal models rm` removes what was fetched."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import UsageError
from speclocal.terminal.app import MODELS, command, group_of
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@group_of("models", Options, MODELS)
def models(*, options: Options, view: "View") -> None:
    """List the models and pairs of the catalogue, and what is on this disk; `rm` removes one."""
    from speclocal.models.catalog import load_catalog
    from speclocal.models.listing import listing
    from speclocal.terminal.model_tables import listing_json, models_table, others_table, pairs_table

    catalog = load_catalog()
    listed = listing(catalog)
    if options.json:
        view.result(listing_json(listed))
        return
    view.tables(
        models_table(listed.models, catalog.default),
        pairs_table(listed.pairs),
        *([others_table(listed.elsewhere)] if listed.elsewhere else []),
    )


@command(Options, MODELS, models)
def rm(
    *,
    name: Annotated[str, typer.Argument(help="A name from `speclocal models`, a pair, or hf:user/repo:file.gguf.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    options: Options,
    view: "View",
) -> None:
    """Remove a model that speclocal fetched from this disk; asks first. Files of other programs stay."""
    from speclocal.models.catalog import load_catalog
    from speclocal.models.references import resolve
    from speclocal.models.removal import removable, remove
    from speclocal.terminal.words import removal, size

    reference = resolve(name, load_catalog())
    going = [removable(spec) for spec in (reference.target, reference.draft) if spec is not None]
    if not yes:
        if not view.can_ask:
            raise UsageError("there is nobody to ask whether to remove it", "give --yes")
        if not view.agrees(removal(going)):
            view.note("nothing is removed")
            return
    gone = [
        {"name": model.name, "size_bytes": model.num_bytes, "paths": list(map(str, model.paths))} for model in going
    ]
    for model in going:
        num_bytes = model.num_bytes
        remove(model)
        if not options.json:
            view.note(f"{model.name} is removed: {size(num_bytes)} are free again")
    if options.json:
        view.result({"removed": gone})
