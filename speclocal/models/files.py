"""Model files on this disk: where fetched ones are kept, and whether a file is what it should be.

Knows bytes and directories, not where a file came from.
"""

import hashlib
import os
import shutil
from pathlib import Path
from typing import Protocol

import platformdirs

from speclocal.errors import DownloadError, ModelError
from speclocal.models.checks import check_model

_HEADS = (
    (b"version https://git-lfs", "a git-lfs pointer: the file itself was not fetched (`git lfs pull` does)"),
    (b"<!doctype html", "an HTML page: a download saved the page around the file"),
    (b"<html", "an HTML page: a download saved the page around the file"),
    (b"pk\x03\x04", "a zip archive"),
)


class Progress(Protocol):
    """Is told how much of a file has arrived; the total may be unknown. Calls may come from any thread."""

    def __call__(self, done_bytes: int, total_bytes: int | None, /) -> None: ...


def cache_dir() -> Path:
    """Return the directory speclocal keeps its own downloads in: SPECLOCAL_CACHE, or the user's cache."""
    override = os.environ.get("SPECLOCAL_CACHE")
    return Path(override).expanduser() if override else platformdirs.user_cache_path("speclocal")


def offline() -> bool:
    """Return whether HF_HUB_OFFLINE forbids downloads, by the Hub's own rule; here it means any download."""
    said = os.environ.get("HF_HUB_OFFLINE") or os.environ.get("TRANSFORMERS_OFFLINE", "")
    return said.upper() in ("1", "ON", "YES", "TRUE")


def looks_like(path: Path) -> str | None:
    """Return what a file is instead of a GGUF, or None if it is one."""
    with path.open("rb") as file:
        head = file.read(256)
    if head.startswith(b"GGUF"):
        return None
    if not head:
        return "empty"
    start = head.lstrip().lower()
    seen = f"something else: it starts with the bytes {head[:4].hex(' ')}"
    return next((kind for mark, kind in _HEADS if start.startswith(mark)), seen)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_fetched(path: Path, expected_sha256: str | None, actual_sha256: str | None, source: str) -> None:
    """Raise unless a fetched file is the one that was asked for, and a model that can be used."""
    kind = looks_like(path)
    if kind is not None:
        raise DownloadError(f"the file from {source} is not a GGUF but {kind}")
    if expected_sha256 is not None and actual_sha256 != expected_sha256:
        raise DownloadError(
            f"the file from {source} is not the one in the catalogue: "
            f"its sha256 is {actual_sha256}, not {expected_sha256}",
            "try again; if it stays so, the file was changed at its source: check it, then update models.toml",
        )
    try:
        check_model(path)
    except ModelError as exc:
        raise DownloadError(f"the file from {source} cannot be used: {exc.message}", exc.hint) from exc


def check_room(directory: Path, needed_bytes: int | None) -> None:
    """Raise unless the disk that holds `directory`, which need not exist yet, has `needed_bytes` free."""
    if needed_bytes is None:
        return
    existing = next(parent for parent in (directory, *directory.absolute().parents) if parent.exists())
    free_bytes = shutil.disk_usage(existing).free
    if free_bytes < needed_bytes:
        raise DownloadError(
            f"{directory} has {free_bytes / 1e9:.2f} GB free, and {needed_bytes / 1e9:.2f} GB are needed",
            "free some space, or set SPECLOCAL_CACHE (packages) or HF_HOME (the Hub) to a larger disk",
        )


def cannot_write(directory: Path, error: OSError) -> DownloadError:
    """Return the error for a download that could not be put into `directory`."""
    return DownloadError(
        f"cannot write to {directory}: {error.strerror or error}",
        "free some space there, or set SPECLOCAL_CACHE (packages) or HF_HOME (the Hub) to another directory",
    )
