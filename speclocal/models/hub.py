"""Models from the Hugging Face Hub, through its own client and into its own cache.

Knows the Hub and how it says no, not the catalogue. The client is imported on first use: it is slow to load.
"""

import errno
import logging
import os
import re
from pathlib import Path
from typing import Any

from speclocal.errors import DownloadError
from speclocal.models import files
from speclocal.models.catalog import HubFile, ModelSpec, nearest
from speclocal.models.files import Progress


def find(spec: ModelSpec, source: HubFile) -> Path | None:
    """Return the file if the Hub's cache on this disk holds it, without asking the Hub.

    A cached file lies in a blob named by its sha256, so another file under the same name is noticed for free.
    """
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(source.repo, source.file)
    if not isinstance(cached, str):
        return None
    blob = Path(cached).resolve()
    other_hash = spec.sha256 and re.fullmatch(r"[0-9a-f]{64}", blob.name) and blob.name != spec.sha256
    other_size = spec.size_bytes and blob.stat().st_size != spec.size_bytes
    return None if other_hash or other_size else Path(cached)


def fetch(spec: ModelSpec, source: HubFile, progress: Progress) -> Path:
    """Download the file into the Hub's cache and return its path, checked against the spec.

    HF_ENDPOINT, HF_TOKEN, HF_HOME and HF_HUB_OFFLINE hold as they do for every program that uses the Hub.
    """
    import huggingface_hub
    from huggingface_hub import constants

    _check_token(huggingface_hub.get_token())
    files.check_room(Path(constants.HF_HUB_CACHE), spec.size_bytes)
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # its warnings would reach the terminal
    try:
        downloaded = huggingface_hub.hf_hub_download(
            source.repo, source.file, endpoint=_endpoint(), tqdm_class=_bar_class(progress)
        )
    except Exception as exc:  # httpx's or requests' errors, by version: all of them mean no file
        raise _translated(exc, source) from exc
    path = Path(downloaded)
    files.check_fetched(path, spec.sha256, spec.sha256 and files.sha256_of(path), str(source))
    return path


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _check_token(token: str | None) -> None:
    """Raise for a token no header can carry: the HTTP library would print it in its own error."""
    if token is not None and not (token.isascii() and token.isprintable()):
        raise DownloadError("the Hub token has characters no token has", "set HF_TOKEN again, or run `hf auth login`")


def _bar_class(progress: Progress) -> type[Any]:
    """Return a progress bar class for the Hub's client that draws nothing and reports to `progress`."""
    from huggingface_hub.utils.tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": True})  # type: ignore[no-untyped-call]

        def update(self, n: float | None = 1) -> None:
            self.n += n or 0
            progress(int(self.n), self.total)

        # The client counts a second time what crosses the network compressed; only file bytes are of interest.
        def update_transfer(self, n: float) -> None: ...

        def set_transfer_postfix_str(self, *args: Any, **options: Any) -> None: ...

    return Bar


def _translated(error: Exception, source: HubFile) -> DownloadError:
    """Return what an error of the Hub's client means, and the way out. The only place that knows them."""
    from huggingface_hub import constants, errors

    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # it only says that the cache could not help either
    status = error.response.status_code if isinstance(error, errors.HfHubHTTPError) else None

    if isinstance(error, errors.GatedRepoError):
        page = f"{_endpoint() or constants.ENDPOINT}/{source.repo}"
        return DownloadError(
            f"{source.repo} is gated: its owner gives access to accounts that accept the terms",
            f"accept them at {page}, then set HF_TOKEN or run `hf auth login`",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return DownloadError(
            f"the Hub has no repository {source.repo}, or it is private",
            "check the spelling; for a private repository set HF_TOKEN or run `hf auth login`",
        )
    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return DownloadError(f"{source.repo} has no file {source.file}", _what_is_there(source))
    if isinstance(error, errors.OfflineModeIsEnabled):
        return DownloadError(
            f"{source} is not on this disk, and HF_HUB_OFFLINE forbids to download it", "unset HF_HUB_OFFLINE"
        )
    if status == 401:
        return DownloadError("the Hub refuses the token", "set a valid HF_TOKEN, run `hf auth login`, or unset it")
    if status == 403:
        return DownloadError(
            f"the Hub refuses access to {source.repo}", "use a token that may read this repository (HF_TOKEN)"
        )
    if status is not None:
        return DownloadError(f"the Hub answers with status {status} for {source}", "try again later")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT):
        return files.cannot_write(Path(constants.HF_HUB_CACHE), error)
    if isinstance(error, errors.FileMetadataError):
        return DownloadError(
            f"what answers for {source} is not a Hub", "check HF_ENDPOINT, the proxy settings and the firewall"
        )
    if isinstance(error, errors.HFValidationError):
        return DownloadError(f"{source.repo} is not a repository name: {error}")
    return DownloadError(
        f"the Hub cannot be reached for {source} ({type(error).__name__})",
        "check the connection, the proxy settings and HF_ENDPOINT, then try again",
    )


def _what_is_there(source: HubFile) -> str:
    """Return a hint that lists the GGUF files of a repository; vague if the Hub does not tell."""
    from huggingface_hub import HfApi

    try:
        present = HfApi(endpoint=_endpoint()).list_repo_files(source.repo)
    except Exception:  # only a hint: the error it goes with matters more
        return "check the file's name on the repository's page"
    ggufs = [name for name in present if name.endswith(".gguf")]
    if not ggufs:
        return "the repository holds no .gguf file"
    return f"{nearest(source.file, ggufs)} The repository holds {', '.join(ggufs)}".strip()
