"""`speclocal pull`: fetch a model before it is needed."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.terminal.app import MODELS, command
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(Options, MODELS)
def pull(
    *,
    name: Annotated[
        str, typer.Argument(help="Name, pair, hf:user/repo:file.gguf, or hf:user/repo to have a file chosen.")
    ],
    options: Options,
    view: "View",
) -> None:
    """Fetch a model, or both of a pair, check it and print where it is."""
    import time
    from functools import partial

    from speclocal.models import splits
    from speclocal.models.catalog import load_catalog
    from speclocal.models.references import resolve
    from speclocal.models.sources import fetch, find, settle
    from speclocal.terminal.words import chosen, fetched

    reference = resolve(name, load_catalog())
    pulled = []
    for spec in (reference.target, reference.draft):
        if spec is None:
            continue
        here = find(spec)
        if here is None:
            spec, choice = settle(spec)
            if choice is not None and not options.json:
                view.note(chosen(choice))
        begin = time.monotonic()
        path = here or fetch(spec, partial(view.fetching, spec.name))
        num_bytes = splits.total_bytes(path)
        if not options.json:
            view.note(
                f"{spec.name} is on this disk" if here else fetched(spec.name, num_bytes, time.monotonic() - begin)
            )
            view.text(f"{path}\n")
        pulled.append({"name": spec.name, "path": str(path), "size_bytes": num_bytes, "fetched": here is None})
    if options.json:
        view.result({"models": pulled})
