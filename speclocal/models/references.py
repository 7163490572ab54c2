"""What a person typed for a model, turned into specs: a name, a pair's name, a path or a file on the Hub.

Knows names and local files, not the network.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from speclocal.errors import UsageError
from speclocal.models import files
from speclocal.models.catalog import Catalog, LocalFile, ModelSpec, nearest, parse_hub_file

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
    hub_file = parse_hub_file(reference.removeprefix("hf:"))
    if hub_file is None:
        raise UsageError(
            f"`{reference}` does not name a file on the Hub",
            "write it as hf:user/repo:file.gguf, for example hf:Qwen/Qwen3-4B-GGUF:Qwen3-4B-Q4_K_M.gguf",
        )
    return ModelSpec(reference, Path(hub_file.file).name, (hub_file,))


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
    return ModelSpec(reference, path.name, (LocalFile(path),), size_bytes=path.stat().st_size)
