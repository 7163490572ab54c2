"""Models that other programs keep on this disk: Ollama, LM Studio, and whoever fills the Hub's cache.

Knows how these programs lay out their folders. Only reads: their files are used in place, never changed or removed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from speclocal.models.catalog import parse_hub_file
from speclocal.models.kinds import Kind, kind_by_name
from speclocal.models.splits import part_names

PREFIXES = OLLAMA, LM_STUDIO = ("ollama:", "lmstudio:")
_HUB = "hf:"

_OLLAMA_HOST, _OLLAMA_USER = "registry.ollama.ai", "library"  # left out of the names Ollama shows
_WEIGHTS = "application/vnd.ollama.image.model"
_CHANGES = "application/vnd.ollama.image.adapter"


@dataclass(frozen=True)
class Elsewhere:
    """A model of another program. name: by which `--model` takes it; path: its file, the first of a split model."""

    name: str
    path: Path


def models() -> tuple[Elsewhere, ...]:
    """Return the models of other programs on this disk, by name. What cannot be read is passed over."""
    found = {model.name: model for search in (_ollama, _lm_studio, _hub) for model in search()}
    return tuple(found[name] for name in sorted(found))


def spellings(reference: str) -> tuple[str, ...]:
    """Return the names that a reference may mean: Ollama's tag `latest` and the ending `.gguf` can be left out."""
    if reference.startswith(OLLAMA):
        return (reference, f"{reference}:latest")
    return (reference, f"{reference}.gguf")


def how_to_remove(name: str) -> str:
    """Return what to tell somebody who wants a model of another program gone."""
    if name.startswith(OLLAMA):
        return f"it belongs to Ollama: `ollama rm {name.removeprefix(OLLAMA)}` removes it"
    if name.startswith(LM_STUDIO):
        return "it belongs to LM Studio: remove it there"
    return "another program fetched it into the Hub's cache: `hf cache rm` removes it"


def _ollama() -> Iterator[Elsewhere]:
    for root in _ollama_folders():
        manifests = root / "manifests"
        for manifest in _files_below(manifests):
            parts = manifest.relative_to(manifests).parts
            if len(parts) < 3:
                continue
            *repo, tag = parts
            if repo[0] == _OLLAMA_HOST:
                repo = repo[2:] if repo[1] == _OLLAMA_USER else repo[1:]
            path = _ollama_weights(manifest, root / "blobs")
            if path is not None:
                yield Elsewhere(f"{OLLAMA}{'/'.join(repo)}:{tag}", path)


def _ollama_weights(manifest: Path, blobs: Path) -> Path | None:
    """Return the file a manifest names for the weights; None for what is in several files, or changed by an adapter."""
    try:
        layers = json.loads(manifest.read_bytes())["layers"]
        kinds = [layer["mediaType"] for layer in layers]
        if kinds.count(_WEIGHTS) != 1 or _CHANGES in kinds:
            return None
        path = blobs / str(layers[kinds.index(_WEIGHTS)]["digest"]).replace(":", "-")
        return path if path.parent == blobs and path.is_file() else None
    except (OSError, ValueError, KeyError, TypeError):  # not a manifest
        return None


def _ollama_folders() -> list[Path]:
    """Return where Ollama keeps models: where it is told to, at home, or, as a service of Linux, at its own home."""
    if told := os.environ.get("OLLAMA_MODELS"):
        return [Path(told).expanduser()]
    return [Path.home() / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def _lm_studio() -> Iterator[Elsewhere]:
    home = Path.home()
    roots = [home / ".lmstudio/models", home / ".cache/lm-studio/models"]
    with contextlib.suppress(OSError, ValueError):  # a person may have moved it
        roots.append(Path((home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip()) / "models")
    for root in dict.fromkeys(roots):
        for path in _ggufs_below(root):
            yield Elsewhere(f"{LM_STUDIO}{path.relative_to(root).as_posix()}", path)


def _hub() -> Iterator[Elsewhere]:
    """Yield what the cache holds of each repository's main branch: the files `hf:user/repo:file` finds there."""
    for folder in sorted(_hub_folder().glob("models--*--*")):
        repo = folder.name.removeprefix("models--").replace("--", "/")
        try:
            snapshot = folder / "snapshots" / (folder / "refs" / "main").read_text(encoding="utf-8").strip()
        except (OSError, ValueError):
            continue
        for path in _ggufs_below(snapshot):
            place = f"{repo}:{path.relative_to(snapshot).as_posix()}"
            yield Elsewhere(f"{_HUB}{place}" if parse_hub_file(place) else str(path), path)


def _hub_folder() -> Path:
    """Return the Hub's cache, as its own client finds it; the client itself is slow to load."""
    if told := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(told).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "huggingface" / "hub"


def _ggufs_below(root: Path) -> Iterator[Path]:
    """Yield the models below a folder, of a split model the first part."""
    for path in _files_below(root):
        first = part_names(path.name)[0] == path.name
        if path.suffix.lower() == ".gguf" and first and kind_by_name(path.name) is Kind.MODEL:
            yield path


def _files_below(root: Path) -> Iterator[Path]:
    """Yield the files below a folder, in order; what may not be read is passed over."""
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file():
                yield path
