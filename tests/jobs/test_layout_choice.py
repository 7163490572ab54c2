"""Which weight layout writes and which reads: planned from measured speeds, for the whole job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import tiny

from speclocal.decoding.costs import Speeds
from speclocal.jobs import layouts
from speclocal.jobs.layouts import open_reader, writing_layout
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

PLACEMENT = Placement(threads=1)
LONG = 2000  # tokens


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tiny.write_llama(tmp_path / "model.gguf")


@pytest.fixture
def weights(path: Path) -> Iterator[Weights]:
    loaded = Weights(path, PLACEMENT)
    yield loaded
    loaded.close()


@pytest.fixture
def know(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let speeds be known: (seconds to read, seconds to write) per token for each layout."""

    def known(**speeds: tuple[float, float]) -> None:
        by_layout = {Layout(name): Speeds(*pair) for name, pair in speeds.items()}
        monkeypatch.setattr(layouts, "known_speeds", lambda path, placement: by_layout.get(placement.layout))

    return known


def test_unknown_speeds_keep_the_default_layout(path: Path, know: Callable[..., None]) -> None:
    """Nothing measured, or one layout only: what llama.cpp does by default."""
    know()
    assert writing_layout(path, PLACEMENT) is Layout.REPACKED
    know(file=(0.1, 0.1))
    assert writing_layout(path, PLACEMENT) is Layout.REPACKED


@pytest.mark.parametrize(
    ("seconds", "chosen"),
    [((0.2, 0.1), Layout.REPACKED), ((0.1, 0.2), Layout.FILE), ((0.1, 2.0), Layout.REPACKED)],
)
def test_the_layout_that_writes_faster_writes(
    seconds: tuple[float, float], chosen: Layout, path: Path, know: Callable[..., None]
) -> None:
    """Tokens are written one by one: the faster layout for that is taken, unless nobody can believe the difference."""
    know(file=(1.0, seconds[0]), repacked=(1.0, seconds[1]))
    assert writing_layout(path, PLACEMENT) is chosen


def test_a_long_prompt_is_read_in_the_faster_layout(weights: Weights, know: Callable[..., None]) -> None:
    """Reading 2,000 tokens 2 ms faster each saves 4 s: worth a second copy of the weights."""
    know(repacked=(0.006, 0.02), file=(0.004, 0.03))
    reader = open_reader(weights, LONG, None)
    assert reader is not None
    assert reader.placement.layout is Layout.FILE
    reader.close()


@pytest.mark.parametrize(
    ("repacked", "file", "num_tokens"),
    [(0.006, 0.004, 100), (0.004, 0.006, LONG), (0.0041, 0.004, LONG), (0.006, None, LONG), (None, 0.004, LONG)],
)
def test_where_it_does_not_pay_nothing_is_loaded(
    repacked: float | None, file: float | None, num_tokens: int, weights: Weights, know: Callable[..., None]
) -> None:
    """A short prompt, a slower layout, a small gain, or speeds nobody measured: one layout does everything."""
    speeds = {"repacked": repacked, "file": file}
    know(**{name: (seconds, 0.02) for name, seconds in speeds.items() if seconds})
    assert open_reader(weights, num_tokens, None) is None


def test_a_second_copy_must_fit_the_memory(
    weights: Weights, know: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where memory is short the faster layout is done without."""
    know(repacked=(0.006, 0.02), file=(0.004, 0.03))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    assert open_reader(weights, LONG, None) is None


def test_speeds_are_measured_where_that_is_allowed(
    weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a listener for progress both layouts are measured once; the choice itself may fall either way."""
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    told: list[float] = []
    reader = open_reader(weights, LONG, lambda name, share: told.append(share))
    assert told
    told.clear()
    again = open_reader(weights, LONG, lambda name, share: told.append(share))
    assert not told
    for opened in (reader, again):
        if opened is not None:
            opened.close()
