"""`speclocal pull`: fetch a model before it is needed."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import DamagedModelError
from speclocal.terminal.app import MODELS, command
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from pathlib import Path

    from speclocal.models.catalog import ModelSpec
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
    from speclocal.models import splits
    from speclocal.models.catalog import load_catalog
    from speclocal.models.references import resolve
    from speclocal.models.sources import find

    reference = resolve(name, load_catalog())
    pulled = []
    for spec in filter(None, (reference.target, reference.draft)):
        here = find(spec)
        model, path = (spec, _checked(spec, here, view)) if here else _fetched(spec, view)
        pulled.append(
            {
                "name": model.name,
                "path": str(path),
                "size_bytes": splits.total_bytes(path),
                "fetched": here is None,
            }
        )
        if not options.json:
            view.text(f"{path}\n")
    if options.json:
        view.result({"models": pulled})


def _checked(spec: "ModelSpec", path: "Path", view: "View") -> "Path":
    """Return the path of a model that is on this disk already, unless it is damaged."""
    from speclocal.models.checks import check_model

    try:
        check_model(path)
    except DamagedModelError as exc:
        hint = f"remove it with `speclocal models rm {spec.name}`, then pull it again"
        raise DamagedModelError(exc.path, exc.reason, hint) from exc
    view.note(f"{spec.name} is on this disk")
    return path


def _fetched(spec: "ModelSpec", view: "View") -> tuple["ModelSpec", "Path"]:
    """Fetch a model, and return it with its file chosen where it named only a repository."""
    from functools import partial

    from speclocal.models import splits
    from speclocal.models.sources import fetch, settle
    from speclocal.terminal import words

    settled, choice = settle(spec)
    if choice is not None:
        view.note(words.chosen(choice))
    begin = time.monotonic()
    path = fetch(settled, partial(view.fetching, settled.name))
    view.note(words.fetched(settled.name, splits.total_bytes(path), time.monotonic() - begin))
    return settled, path
