"""Removing models that speclocal fetched; never a file of another program or a person's own.

Knows whose a file is; who is asked first is the terminal's business.
"""

from dataclasses import dataclass
from pathlib import Path

from speclocal.errors import SpeclocalError, UsageError
from speclocal.models import elsewhere, files, hub, records, splits
from speclocal.models.catalog import LocalFile, ModelSpec
from speclocal.models.sources import find


@dataclass(frozen=True)
class Removable:
    """A model that speclocal fetched, and the files of it that would go."""

    name: str
    paths: tuple[Path, ...]

    @property
    def num_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.paths)


def removable(spec: ModelSpec) -> Removable:
    """Return what `models rm` would remove of a model. Raises UsageError where nothing is here, or it is not ours."""
    if any(isinstance(source, LocalFile) for source in spec.sources):
        raise UsageError(f"`{spec.name}` was not fetched by speclocal", _how_to_remove(spec))
    path = find(spec)
    if path is None:
        raise UsageError(f"`{spec.name}` is not on this disk", "`speclocal models` lists what is")
    paths = splits.parts(path)
    if not all(map(records.is_ours, paths)):
        raise UsageError(f"`{spec.name}` was not fetched by speclocal", elsewhere.how_to_remove(str(spec.sources[0])))
    return Removable(spec.name, paths)


def remove(model: Removable) -> None:
    """Remove the files of a model."""
    try:
        for path in model.paths:
            if path.is_relative_to(files.cache_dir()):
                path.unlink(missing_ok=True)
            else:
                hub.remove(path)
    except OSError as exc:
        raise SpeclocalError(f"{exc.filename} cannot be removed: {exc.strerror}") from exc


def _how_to_remove(spec: ModelSpec) -> str:
    if spec.name.startswith(elsewhere.PREFIXES):
        return elsewhere.how_to_remove(spec.name)
    return f"it is a file of your own: remove {spec.sources[0]} yourself"
