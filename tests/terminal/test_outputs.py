"""Files beside what is shown: refused before anything runs, and written whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from speclocal.errors import UsageError
from speclocal.terminal.outputs import check_outputs, write_whole


def test_places_that_can_be_written_are_fine(tmp_path: Path) -> None:
    """A new file, an old one, and options that were not given; inputs may be names of models."""
    (tmp_path / "old").write_text("before")
    check_outputs({"--a": str(tmp_path / "new"), "--b": str(tmp_path / "old"), "--c": ""}, ["", "smollm2-135m"])
    assert (tmp_path / "old").read_text() == "before"


def test_an_input_is_known_by_every_path_to_it(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_text("weights")
    (tmp_path / "link").symlink_to("model.gguf")
    for path in ("model.gguf", "link", "../" + tmp_path.name + "/model.gguf"):
        with pytest.raises(UsageError, match="would replace what is read"):
            check_outputs({"--save": str(tmp_path / path)}, [str(tmp_path / "model.gguf")])


def test_two_outputs_need_two_files(tmp_path: Path) -> None:
    """Also where neither is there yet."""
    with pytest.raises(UsageError, match="both write to"):
        check_outputs({"--save": str(tmp_path / "x"), "--csv": str(tmp_path / "." / "x")})


def test_a_file_is_replaced_in_one_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be finished leaves the old text, and nothing else."""
    path = tmp_path / "page.html"
    write_whole(path, "first")

    def full(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "second")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("page.html", "first")]


def test_names_that_are_no_text_are_written_by_their_numbers(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    write_whole(tmp_path / "rows.csv", f"{name}\n")
    assert (tmp_path / "rows.csv").read_text() == "caf\\udce9.md\n"


def test_permissions_and_other_names_of_a_file_stay(tmp_path: Path) -> None:
    """A private report stays private, and a file with two names stays one file."""
    private, other = tmp_path / "private", tmp_path / "other"
    private.write_text("before")
    private.chmod(0o600)
    write_whole(private, "after")
    assert private.stat().st_mode & 0o777 == 0o600
    other.hardlink_to(private)
    write_whole(other, "both")
    assert private.read_text() == "both"


def test_names_may_be_as_long_as_names_can_be(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "text")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


def test_devices_take_everything(tmp_path: Path) -> None:
    """What keeps nothing is no conflict, and stdout by its path is a pipe like any."""
    check_outputs({"--save": "/dev/null", "--csv": "/dev/null"}, ["/dev/null"])
    reading, writing = os.pipe()
    write_whole(Path(f"/dev/fd/{writing}"), "text")
    os.close(writing)
    assert os.read(reading, 99) == b"text"
    os.close(reading)


def test_a_name_of_a_model_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_outputs({"--save": "qwen2.5-0.5b"}, ["qwen2.5-0.5b"])


def test_a_link_to_nowhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere/rows.csv")
    with pytest.raises(UsageError, match="there is no directory"):
        check_outputs({"--csv": str(tmp_path / "link")})


def test_links_and_pipes_are_written_to(tmp_path: Path) -> None:
    """A link goes on pointing where it did, and a pipe gets the text."""
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", "text")
    assert ((tmp_path / "link").is_symlink(), (tmp_path / "real").read_text()) == (True, "text")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(tmp_path / "pipe", "text")
    assert os.read(reader, 99) == b"text"
    os.close(reader)
