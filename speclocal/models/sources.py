"""From a spec to a file on disk: found if it is here, fetched from its sources in order if not.

Knows which source answers for what; how each one works is in wheels.py and hub.py.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import assert_never

from speclocal.errors import DownloadError
from speclocal.models import hub, wheels
from speclocal.models.catalog import Catalog, HubFile, LocalFile, ModelSpec, PairSpec, Source, Wheels
from speclocal.models.files import Progress


def find(spec: ModelSpec) -> Path | None:
    """Return the model's file if it is on this disk. Makes no network request."""
    return next((path for source in spec.sources if (path := _find_in(source, spec)) is not None), None)


def fetch(spec: ModelSpec, progress: Progress | None = None) -> Path:
    """Return the model's file, downloaded from the first source that has it unless it is on this disk."""
    if (path := find(spec)) is not None:
        return path
    failures: dict[Source, DownloadError] = {}
    for source in spec.sources:
        try:
            return _fetch_from(source, spec, progress or _ignore)
        except DownloadError as exc:
            failures[source] = exc
    raise _summary(spec, failures)


def _find_in(source: Source, spec: ModelSpec) -> Path | None:
    match source:
        case LocalFile(path):
            return path if path.is_file() else None
        case Wheels():
            return wheels.find(spec, source)
        case HubFile():
            return hub.find(spec, source)
        case _:
            assert_never(source)


def _fetch_from(source: Source, spec: ModelSpec, progress: Progress) -> Path:
    match source:
        case LocalFile(path):
            raise DownloadError(f"{path} is gone", "it was there when the command started; put it back")
        case Wheels():
            return wheels.fetch(spec, source, progress)
        case HubFile():
            return hub.fetch(spec, source, progress)
        case _:
            assert_never(source)


def _ignore(done_bytes: int, total_bytes: int | None, /) -> None:
    """Be the progress nobody asked for."""


def _summary(spec: ModelSpec, failures: dict[Source, DownloadError]) -> DownloadError:
    """Return one error that names every source tried; a single failure speaks for itself."""
    first, *others = failures.values()
    if not others:
        return first
    tried = "; ".join(f"{source}: {failure.message}" for source, failure in failures.items())
    hints = dict.fromkeys(failure.hint for failure in failures.values() if failure.hint)
    return DownloadError(f"{spec.name} cannot be downloaded. Tried {tried}", "; or ".join(hints))


@dataclass(frozen=True)
class ListedModel:
    """A model of the catalogue, and its file if that is on this disk."""

    spec: ModelSpec
    path: Path | None


@dataclass(frozen=True)
class ListedPair:
    """A pair of the catalogue, and whether both its files are on this disk."""

    spec: PairSpec
    complete: bool


@dataclass(frozen=True)
class Listing:
    models: tuple[ListedModel, ...]
    pairs: tuple[ListedPair, ...]


def listing(catalog: Catalog) -> Listing:
    """Return every model and pair of the catalogue with what is on this disk. Makes no network request."""
    models = tuple(ListedModel(spec, find(spec)) for spec in catalog.models.values())
    present = {model.spec.name for model in models if model.path is not None}
    pairs = tuple(ListedPair(pair, {pair.target, pair.draft} <= present) for pair in catalog.pairs.values())
    return Listing(models, pairs)
