"""The measurement of a model: done once, kept, found again, and never in the way of a reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny

from speclocal.decoding.costs import Calibration, Exactness
from speclocal.decoding.types import SamplingParams
from speclocal.jobs import calibration
from speclocal.jobs.calibration import calibration_of, confirmed_calibration
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

Measure = Callable[..., Calibration]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of its own for every test."""
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "measured"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny.write_llama(tmp_path / "model.gguf")


@pytest.fixture
def shares() -> list[float]:
    """How far measurements have come: empty as long as nothing is measured."""
    return []


@pytest.fixture
def measure(model: Path, shares: list[float]) -> Iterator[Measure]:
    """Return the calibration of the tiny model with as many threads as asked for."""
    opened: list[Weights] = []

    def measured(threads: int = 1, path: Path | None = None, **asked: bool) -> Calibration:
        opened.append(Weights(path or model, Placement(threads), "model"))
        return calibration_of(opened[-1], lambda name, share: shares.append(share), **asked)

    yield measured
    for weights in opened:
        weights.close()


def test_a_model_is_measured_once(measure: Measure, shares: list[float], cache: Path) -> None:
    """The first call measures, tells how far it is, and stores one file; the second reads it."""
    first = measure()
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(list(cache.iterdir())) == 1
    shares.clear()
    assert measure() == first
    assert shares == []


def test_what_is_measured_is_plausible(measure: Measure) -> None:
    """Every width has a positive time, and a width of one is exact."""
    found = measure()
    assert min(found.seconds) == 1
    assert all(seconds > 0 for seconds in found.seconds.values())
    assert found.read_seconds > 0
    assert all(1 in exactness.widths for exactness in found.exact)


def test_a_measurement_can_be_asked_for_anew(measure: Measure, shares: list[float], cache: Path) -> None:
    """`anew` measures again and replaces what was stored."""
    measure()
    shares.clear()
    again = measure(anew=True)
    assert shares[-1] == 1
    assert len(list(cache.iterdir())) == 1
    assert measure() == again


def test_threads_have_measurements_of_their_own(
    measure: Measure, shares: list[float], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another number of threads is another machine. Nothing is run here: many threads on few cores are slow."""

    def invented(
        model: LlamaModel, text: object, clock: object, progress: Callable[[float], None], **asked: bool
    ) -> Calibration:
        progress(1.0)
        return Calibration({1: float(model.weights.placement.threads)}, 1.0, (Exactness(512, (1,)),))

    monkeypatch.setattr(calibration, "calibrate", invented)
    for threads in (1, 2, 7):
        assert measure(threads).seconds == {1: threads}
    assert len(shares) == len(list(cache.iterdir())) == 3
    assert measure(2).seconds == {1: 2}
    assert len(shares) == 3


def test_a_changed_file_is_another_model(measure: Measure, shares: list[float], model: Path) -> None:
    """A file that was replaced is measured again."""
    measure()
    shares.clear()
    tiny.write_llama(model, seed=1)
    measure()
    assert shares[-1] == 1


def test_another_path_to_the_file_is_the_same_model(
    measure: Measure, shares: list[float], model: Path, tmp_path: Path
) -> None:
    """A link leads to what is known already."""
    measure()
    shares.clear()
    (tmp_path / "link.gguf").symlink_to(model)
    measure(path=tmp_path / "link.gguf")
    assert shares == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[]",
        lambda text: "null",
        lambda text: "\x00" * 10,
        lambda text: json.dumps({"key": json.loads(text)["key"]}),
        lambda text: json.dumps({**json.loads(text), "key": "other"}),
        lambda text: json.dumps({**json.loads(text), "calibration": {"seconds": {"1": "fast"}}}),
        # These three fail until _load refuses what cannot be a measurement: nothing, less than nothing, not a number.
        lambda text: json.dumps({**json.loads(text), "calibration": {"seconds": {}, "read_seconds": 1.0, "exact": []}}),
        lambda text: text.replace('"read_seconds": ', '"read_seconds": -'),
        lambda text: text.replace('"read_seconds": ', '"read_seconds": NaN, "was": '),
    ],
)
def test_a_damaged_measurement_is_done_again(
    measure: Measure, shares: list[float], cache: Path, damage: Callable[[str], str]
) -> None:
    """What cannot be used is measured anew and replaced by what can."""
    measure()
    file = next(cache.iterdir())
    file.write_text(damage(file.read_text()))
    shares.clear()
    again = measure()
    assert shares[-1] == 1
    assert again.seconds
    shares.clear()
    assert measure() == again
    assert shares == []


def test_bytes_that_are_no_text_are_ignored(measure: Measure, shares: list[float], cache: Path) -> None:
    """A file of binary rubbish is a damaged measurement like any other."""
    measure()
    next(cache.iterdir()).write_bytes(b"\xff\xfe\x00\xd8")
    shares.clear()
    measure()
    assert shares[-1] == 1


def test_a_cache_that_cannot_be_written_is_not_needed(
    measure: Measure, shares: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be stored the measurement is returned all the same, and made again next time."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "file"))
    assert measure().seconds
    shares.clear()
    assert measure().seconds
    assert shares[-1] == 1


def test_an_interrupted_measurement_leaves_nothing(measure: Measure, model: Path, cache: Path) -> None:
    """Ctrl-C in the middle stores nothing half, and the next call measures."""

    def interrupt(name: str, share: float) -> None:
        raise KeyboardInterrupt

    weights = Weights(model, Placement(1), "model")
    with pytest.raises(KeyboardInterrupt):
        calibration_of(weights, interrupt)
    weights.close()
    assert not cache.exists() or list(cache.iterdir()) == []
    assert measure().seconds


def test_a_model_with_a_short_context_is_measured_too(measure: Measure, tmp_path: Path) -> None:
    """A model that was trained on fewer tokens than a measurement reads still gets one."""
    assert measure(path=tiny.write_llama(tmp_path / "short.gguf", context=64)).seconds


def inflate(cache: Path, factor: float) -> None:
    """Let every stored measurement say that passes take so many times as long."""
    for path in cache.iterdir():
        stored = json.loads(path.read_text())
        seconds = stored["calibration"]["seconds"]
        stored["calibration"]["seconds"] = {width: factor * taken for width, taken in seconds.items()}
        path.write_text(json.dumps(stored))


@pytest.mark.parametrize(("factor", "anew"), [(100.0, True), (0.01, False), (1.0, False)])
def test_what_passes_disprove_is_measured_anew(
    measure: Measure, shares: list[float], cache: Path, model: Path, factor: float, anew: bool
) -> None:
    """Passes that are far faster prove that the measurement was disturbed; slower ones prove nothing."""
    before = measure()
    inflate(cache, factor)
    shares.clear()
    weights = Weights(model, Placement(1), "model")
    opened = LlamaModel(weights, 64)
    opened.forward([3, 4], 0)
    found = confirmed_calibration(opened, lambda name, share: shares.append(share))
    assert list(opened.cached) == [3, 4]
    opened.close()
    weights.close()
    assert bool(shares) == anew
    if anew:
        assert found.seconds[1] < 20 * before.seconds[1]
        assert found == measure()
    else:
        assert found.seconds[1] == pytest.approx(factor * before.seconds[1])


def test_a_model_that_is_gone_at_the_end_costs_nothing(model: Path) -> None:
    """A finished reply does not fail where the file of its model was deleted meanwhile."""
    with Session(ModelFile("model", model), None, Placement(1)) as session:
        prompt = session.vocab.tokenize("the cat sat on the mat")
        session.open_context(len(prompt), ReplySettings(max_tokens=9))
        for _ in session.reply(prompt, ReplySettings(max_tokens=9)):
            pass
        model.unlink()


def test_a_reply_that_disproves_a_calibration_removes_it(measure: Measure, cache: Path, model: Path) -> None:
    """The next session measures anew; a calibration that holds stays."""
    measure()
    for factor, kept in ((1.0, True), (100.0, False)):
        inflate(cache, factor)
        with Session(ModelFile("model", model), None, Placement(1)) as session:
            prompt = session.vocab.tokenize("the cat sat on the mat")
            session.open_context(len(prompt), ReplySettings(max_tokens=60))
            for _ in session.reply(prompt, ReplySettings(max_tokens=60, params=SamplingParams(1.0, top_k=0, top_p=1))):
                pass
        assert bool(list(cache.glob("*.calibration.json"))) == kept
