"""llama.cpp's log: quiet unless asked, warnings and errors kept and quoted."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pytest
import tiny

from speclocal.llama import log

INFO, WARNING, ERROR, CONTINUED = 2, 3, 4, 5

LOAD = """
import sys
from pathlib import Path
from speclocal.llama import log
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

{first}
weights = Weights(Path(sys.argv[1]), Placement(1))
model = LlamaModel(weights, 256)
model.forward([3, 4], 1)
{last}
model.close()
weights.close()
"""


@pytest.fixture(autouse=True)
def _clean_log() -> Iterator[None]:
    log.forget()
    yield
    log.forget()
    log.show(False)


def native(level: int, line: str | bytes) -> None:
    """Say `line` as llama.cpp does."""
    data = line if isinstance(line, bytes) else line.encode()
    log._native_callback(level, data, ctypes.c_void_p(0))


def test_loading_and_running_is_quiet(run_python: Any, path_of: Any) -> None:
    """llama.cpp has hundreds of lines to say; none reaches the terminal."""
    done = run_python(LOAD.format(first="", last=""), path_of("llama"))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_verbose_prints_to_stderr(run_python: Any, path_of: Any) -> None:
    """With `show(True)` they all go to stderr, from the first line of loading on; stdout stays clean."""
    done = run_python(LOAD.format(first="log.show(True)", last=""), path_of("llama"))
    assert done.stdout == ""
    assert done.returncode == 0
    assert "general.architecture" in done.stderr
    assert "llama_context" in done.stderr


def test_verbose_can_be_turned_off(run_python: Any, path_of: Any) -> None:
    """`show(False)` is quiet again."""
    program = LOAD.format(first="log.show(True); log.show(False)", last="")
    assert run_python(program, path_of("llama")).stderr == ""


def test_errors_are_quoted_before_warnings() -> None:
    """The reason of a failure is its errors; warnings stand in where there are none."""
    native(WARNING, "the model is odd\n")
    assert log.reason() == "warning: the model is odd"
    native(ERROR, "the file is cut off\n")
    native(INFO, "hello\n")
    assert log.reason() == "the file is cut off"


def test_reason_is_short() -> None:
    """The last three errors, each once, on one line."""
    for line in ("one", "two", "three", "three", "four"):
        native(ERROR, f"{line}\n")
    assert log.reason() == "two; three; four"


def test_no_reason_is_an_empty_string() -> None:
    """Nothing kept, nothing quoted; `forget` makes it so."""
    assert log.reason() == ""
    native(ERROR, "bad\n")
    log.forget()
    assert log.reason() == ""


def test_information_is_not_kept() -> None:
    """Only warnings and errors explain a failure."""
    native(INFO, "loading\n")
    native(CONTINUED, ".....\n")
    native(ERROR, "\n")
    assert log.reason() == ""


def test_continued_line_has_the_level_of_its_start() -> None:
    """llama.cpp may say one line in parts."""
    native(ERROR, "first part\n")
    native(CONTINUED, "second part\n")
    assert log.reason() == "first part; second part"


def test_broken_text_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """A line that is not UTF-8 is kept as far as it can be read; nothing is raised into native code."""
    native(ERROR, b"bad \xff byte\n")
    assert log.reason() == "bad \ufffd byte"
    assert capsys.readouterr().err == ""


def test_closed_stderr_is_survived(monkeypatch: pytest.MonkeyPatch) -> None:
    """When stderr is gone, verbose output is lost and nothing else."""
    monkeypatch.setattr("sys.stderr", None)
    log.show(True)
    native(ERROR, "still kept\n")
    assert "still kept" in log.reason()


def test_real_failure_is_quoted(tmp_path: Any) -> None:
    """What llama.cpp says about a damaged file is what is quoted."""
    from speclocal.errors import ModelError
    from speclocal.llama.placement import Placement
    from speclocal.llama.weights import Weights

    path = tiny.cut_off(tmp_path / "cut.gguf", tiny.write_llama(tmp_path / "whole.gguf"))
    with pytest.raises(ModelError) as caught:
        Weights(path, Placement(1))
    assert log.reason() in caught.value.message
    assert "file bounds" in log.reason()
