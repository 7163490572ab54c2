"""Models from the Hugging Face Hub, through its own client and into its own cache.

Knows repositories, the cache and the client, not the catalogue. The client is imported on first use: it is slow to
load. While a command runs, the client goes on where a connection over HTTP broke; of a download that ended with its
command it keeps nothing, except parts of a split model that were complete.
"""

import contextlib
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speclocal.errors import DownloadError
from speclocal.models import files, records, splits
from speclocal.models.catalog import HubFile, HubRepo, ModelSpec
from speclocal.models.files import Progress
from speclocal.models.hub_errors import check_token, endpoint, translated
from speclocal.models.kinds import Kind, kind_by_name
from speclocal.models.repos import Chosen, choose, gguf_files, what_is_there

_SHA256 = re.compile(r"[0-9a-f]{64}")


def find(spec: ModelSpec, source: HubFile) -> Path | None:
    """Return the file, the first of a split model, if the Hub's cache on this disk holds all of it; asks nobody.

    A cached file lies in a blob named by its sha256, so another file under the same name is noticed for free.
    """
    paths = [_cached(source.repo, name) for name in splits.part_names(source.file)]
    present = [path for path in paths if path is not None]
    if len(present) < len(paths):
        return None
    blob = present[0].resolve()
    other_hash = spec.sha256 and _SHA256.fullmatch(blob.name) and blob.name != spec.sha256
    other_size = spec.size_bytes and sum(path.stat().st_size for path in present) != spec.size_bytes
    return None if other_hash or other_size else present[0]


def find_chosen(source: HubRepo) -> HubFile | None:
    """Return the file that is chosen among those of a repository on this disk, None if there is none to choose."""
    names = [str(path.relative_to(root).as_posix()) for root in _snapshot(source.repo) for path in root.rglob("*.gguf")]
    with contextlib.suppress(DownloadError):
        return choose(source, sorted(names)).file
    return None


def ask_chosen(source: HubRepo) -> Chosen:
    """Ask the Hub what a repository holds, and return the file to take. Raises DownloadError when there is none."""
    return choose(source, [file.name for file in gguf_files(source.repo)])


def fetch(spec: ModelSpec, source: HubFile, progress: Progress) -> Path:
    """Download the file, all parts of a split model, into the Hub's cache; return the path, of the first part.

    Every file is checked against the size and the sha256 the Hub gives for it and against the spec; what fails is
    removed again. HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE hold as for every program that uses the Hub.
    """
    import huggingface_hub
    from huggingface_hub import constants

    check_token(huggingface_hub.get_token())
    if (kind := kind_by_name(source.file)) is not Kind.MODEL:
        raise DownloadError(f"{source} is not a model that writes text: by its name it is {kind}", "name another file")
    here = {name: _cached(source.repo, name) for name in splits.part_names(source.file)}
    if not any(here.values()):
        files.check_room(Path(constants.HF_HUB_CACHE), spec.size_bytes)
    parts = [_ask(source.repo, name) for name in here]
    needed = [part.size_bytes or 0 for part in parts if here[part.name] is None]
    files.check_room(Path(constants.HF_HUB_CACHE), sum(needed))
    bar = _Bar(progress, parts)
    paths, fetched = [], []
    for part in parts:
        path = _download(source.repo, part, bar)
        paths.append(path)
        if path != here[part.name]:
            with _removed_unless_good(path):
                _verify(source.repo, part, path)
            records.remember(path)
            fetched.append(path)
    with _removed_unless_good(*fetched):
        blob = paths[0].resolve()
        sha256 = blob.name if _SHA256.fullmatch(blob.name) else spec.sha256 and files.sha256_of(blob)
        files.check_fetched(paths[0], spec.sha256, sha256, str(source))
    return paths[0]


@dataclass(frozen=True)
class _Part:
    """A file as the Hub describes it. sha256: None for one that the repository keeps in git itself."""

    name: str
    size_bytes: int | None
    sha256: str | None


def _ask(repo: str, name: str) -> _Part:
    """Ask the Hub for the size and the hash of a file. Unlike the download it fails at once, without another try."""
    from huggingface_hub import errors, get_hf_file_metadata, hf_hub_url

    try:
        said = get_hf_file_metadata(hf_hub_url(repo, name, endpoint=endpoint()), endpoint=endpoint())
        if said.commit_hash is None or said.etag is None:
            raise errors.FileMetadataError("an answer without the headers of a Hub")
    except errors.RemoteEntryNotFoundError as exc:
        raise DownloadError(f"{repo} has no file {name}", what_is_there(HubFile(repo, name))) from exc
    except Exception as exc:  # httpx's or requests' errors, by version: all of them mean no file
        raise translated(exc, repo, name) from exc
    return _Part(name, said.size, said.etag if _SHA256.fullmatch(said.etag) else None)


def _download(repo: str, part: _Part, bar: "_Bar") -> Path:
    import huggingface_hub

    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its warnings would reach the terminal
    try:
        path = huggingface_hub.hf_hub_download(repo, part.name, endpoint=endpoint(), tqdm_class=bar.of(part))
    except Exception as exc:
        raise translated(exc, repo, part.name) from exc
    bar.finished(part)
    return Path(path)


def _verify(repo: str, part: _Part, path: Path) -> None:
    """Raise unless a file has the size and the hash the Hub gives for it. The client checks the size alone."""
    if part.size_bytes is not None and path.stat().st_size != part.size_bytes:
        raise DownloadError(f"hf:{repo}:{part.name} arrived with another size than the Hub gives for it", "try again")
    if part.sha256 is not None and (actual := files.sha256_of(path)) != part.sha256:
        raise DownloadError(
            f"hf:{repo}:{part.name} arrived damaged: its sha256 is {actual}, the Hub gives {part.sha256}",
            "try again; if it stays so, a proxy or a mirror changes files on their way",
        )


@contextlib.contextmanager
def _removed_unless_good(*paths: Path) -> Iterator[None]:
    """Remove files that were just fetched when they prove bad, or when somebody interrupts the check."""
    try:
        yield
    except BaseException:
        for path in paths:
            remove(path)
        raise


def remove(path: Path) -> None:
    """Remove a file from the Hub's cache: the name in the snapshot, and the blob unless another name leads to it."""
    records.forget(path)
    blob = path.resolve()
    path.unlink(missing_ok=True)
    repo = next((parent for parent in path.parents if parent.name.startswith("models--")), None)
    if repo is not None and blob.parent == (repo / "blobs").resolve():
        names = (repo / "snapshots").rglob("*")
        if not any(name.is_symlink() and name.resolve() == blob for name in names):
            blob.unlink(missing_ok=True)


def _cached(repo: str, name: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(repo, name)
    return Path(cached) if isinstance(cached, str) else None


def _snapshot(repo: str) -> Iterator[Path]:
    """Yield the folder in which the cache holds the files of a repository's main branch, if there is one."""
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"
    with contextlib.suppress(OSError):
        yield folder / "snapshots" / (folder / "refs" / "main").read_text(encoding="utf-8").strip()


class _Bar:
    """One progress over several files."""

    def __init__(self, progress: Progress, parts: list[_Part]) -> None:
        sizes = [part.size_bytes for part in parts]
        self._progress = progress
        self._total = None if None in sizes else sum(size or 0 for size in sizes)
        self._before = 0  # bytes of the files that are complete

    def of(self, part: _Part) -> type[Any]:
        """Return a progress bar class for the Hub's client that draws nothing and reports to the progress."""
        from huggingface_hub.utils.tqdm import tqdm

        report = self._report

        class Bar(tqdm):
            def __init__(self, *args: Any, **options: Any) -> None:
                super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]

            def update(self, n: float | None = 1) -> None:
                self.n += n or 0
                report(int(self.n), self.total)

            # The client counts a second time what crosses the network compressed; only file bytes are of interest.
            def update_transfer(self, n: float) -> None: ...

            def set_transfer_postfix_str(self, *args: Any, **options: Any) -> None: ...

        return Bar

    def finished(self, part: _Part) -> None:
        self._before += part.size_bytes or 0
        if self._total is not None:
            self._progress(self._before, self._total)

    def _report(self, done_bytes: int, total_bytes: int | None) -> None:
        self._progress(self._before + done_bytes, self._total if self._total is not None else total_bytes)
