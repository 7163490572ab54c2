"""What a person typed for a model, turned into specs: a name, a pair's name, a path, a file or a repository on the Hub,
or the name of a model that another program keeps on this disk.

Knows names and local files, not the network.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from speclocal.errors import DamagedModelError, UsageError
from speclocal.models import elsewhere, files, splits
from speclocal.models.catalog import (
    Catalog,
    HubFile,
    LocalFile,
    ModelSpec,
    nearest,
    parse_hub_file,
    parse_hub_repo,
)
from speclocal.models.checks import check_model
from speclocal.models.elsewhere import PREFIXES
from speclocal.models.kinds import Kind, kind_by_name

_FORMS = "give a name from `speclocal models`, a path to a .gguf file, or hf:user/repo:file.gguf"


@dataclass(frozen=True)
class Reference:
    """What a reference stands for. Only a pair brings a draft model with it."""

    target: ModelSpec
    draft: ModelSpec | None = None


def resolve(reference: str, catalog: Catalog) -> Reference:
    """Return the model or the pair that `reference` stands for; a path must lead to a GGUF file."""
    if reference.startswith("hf:"):
        return Reference(_on_hub(reference))
    if reference.startswith(PREFIXES):
        return Reference(_elsewhere(reference))
    separators = {os.sep, os.altsep or os.sep, "/"}
    if reference.lower().endswith(".gguf") or any(separator in reference for separator in separators):
        return Reference(_on_disk(reference))
    if reference in catalog.models:
        return Reference(catalog.models[reference])
    if reference in catalog.pairs:
        pair = catalog.pairs[reference]
        return Reference(catalog.models[pair.target], catalog.models[pair.draft])
    suggestion = nearest(reference, [*catalog.models, *catalog.pairs])
    raise UsageError(f"no model or pair is called `{reference}`", f"{suggestion} Or {_FORMS}" if suggestion else _FORMS)


def _on_hub(reference: str) -> ModelSpec:
    place = reference.removeprefix("hf:")
    if (hub_file := parse_hub_file(place)) is not None:
        if (kind := kind_by_name(hub_file.file)) is not Kind.MODEL:
            raise UsageError(f"`{reference}` is not a model that writes text: by its name it is {kind}", _FORMS)
        first = HubFile(hub_file.repo, splits.part_names(hub_file.file)[0])
        return ModelSpec(reference, Path(first.file).name, (first,))
    if (repo := parse_hub_repo(place)) is not None:
        return ModelSpec(reference, repo.repo, (repo,))
    raise UsageError(
        f"`{reference}` does not name a file on the Hub",
        "write it as hf:user/repo:file.gguf, for example hf:Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf",
    )


def _elsewhere(reference: str) -> ModelSpec:
    found = {model.name: model for model in elsewhere.models()}
    model = next((found[name] for name in elsewhere.spellings(reference) if name in found), None)
    if model is None:
        names = [name for name in found if name.startswith(reference.partition(":")[0])]
        there = f"{nearest(reference, names)} There are {', '.join(names)}".strip() if names else ""
        nothing = f"none was found of that program; {_FORMS}"
        raise UsageError(f"no model on this disk is called `{reference}`", there or nothing)
    try:
        return _checked(reference, model.path)
    except DamagedModelError as exc:  # Ollama's files have names that tell nobody anything
        raise DamagedModelError(Path(reference) if exc.path == model.path else exc.path, exc.reason, exc.hint) from None


def _on_disk(reference: str) -> ModelSpec:
    path = Path(reference).expanduser()
    try:
        if not path.exists():
            suggestion = nearest(path.name, [near.name for near in path.parent.glob("*.gguf")])
            raise UsageError(f"there is no file `{reference}`", f"{suggestion} {_FORMS}".strip())
        if not path.is_file():
            kind = "a directory" if path.is_dir() else "not a regular file"
            inside = ", ".join(sorted(near.name for near in path.glob("*.gguf")))
            raise UsageError(f"`{reference}` is {kind}", f"it holds {inside}" if inside else _FORMS)
        kind_instead = files.looks_like(path)
    except OSError as exc:
        raise UsageError(f"`{reference}` cannot be read: {exc.strerror}") from exc
    if kind_instead is not None:
        raise UsageError(f"`{reference}` is not a GGUF file but {kind_instead}", "download the .gguf file itself")
    return _checked(reference, path)


def _checked(reference: str, path: Path) -> ModelSpec:
    """Return the spec of a model on this disk, by its first part; raises ModelError for one that cannot be used."""
    check_model(path)
    first = splits.parts(path)[0]
    return ModelSpec(reference, first.name, (LocalFile(first),), size_bytes=splits.total_bytes(path))
