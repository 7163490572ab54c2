"""Checks of the cache and of exact widths: they hold on real caches, and notice caches and widths that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny

from speclocal.decoding.costs import Calibration, Exactness
from speclocal.decoding.types import Logits
from speclocal.jobs.cache_checks import check_cache, check_widths
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

TEXT = [(7 * i) % 50 + 5 for i in range(40)]
CALIBRATION = Calibration({1: 1.0}, 1.0, (Exactness(141, (1, 2, 5, 8)),))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weights]:
    path = tmp_path_factory.mktemp("models") / "model.gguf"
    tiny.write_llama(path)
    loaded = Weights(path, Placement(1))
    yield loaded
    loaded.close()


@pytest.fixture
def model(weights: Weights) -> Iterator[LlamaModel]:
    opened = LlamaModel(weights, 64)
    yield opened
    opened.close()


def test_a_real_cache_forgets_what_it_drops(model: LlamaModel) -> None:
    """Dropping all, dropping other tokens before every pass, and putting the cache back: the same bits each time."""
    checks = check_cache(model, TEXT)
    assert [(check.holds, check.largest_difference) for check in checks] == [(True, 0.0)] * 3


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "llama"])
def test_caches_of_every_kind_forget_what_they_drop(kind: str, tmp_path: Path) -> None:
    """Also those that go back to a checkpoint. That of a sliding window is not put back: it is the window alone."""
    weights = Weights(tiny.KINDS[kind](tmp_path / "model.gguf"), Placement(1))
    opened = LlamaModel(weights, 64)
    checks = check_cache(opened, TEXT)
    opened.close()
    weights.close()
    assert [check.holds for check in checks] == [True] * (2 if kind == "sliding window" else 3)


def test_a_cache_that_keeps_a_dropped_token_is_noticed(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one token too few is dropped, the logits differ, and by how much is told."""
    right = LlamaModel.rollback

    def one_too_few(self: LlamaModel, length: int) -> None:
        right(self, length and min(length + 1, len(self.cached)))

    assert all(check.holds for check in check_cache(model, TEXT))
    model.rollback(0)
    monkeypatch.setattr(LlamaModel, "rollback", one_too_few)
    dropped_all, dropped_others, _ = check_cache(model, TEXT)
    assert not dropped_all.holds
    assert not dropped_others.holds
    assert dropped_all.largest_difference > 0


def test_a_cache_that_is_put_back_wrong_is_noticed(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot of another text fails that check alone."""
    right = LlamaModel.snapshot

    def of_another_text(self: LlamaModel) -> object:
        held = list(self.cached)
        self.rollback(0)
        self.forward(held[::-1], 0)
        state = right(self)
        self.rollback(0)
        self.forward(held, 0)
        return state

    monkeypatch.setattr(LlamaModel, "snapshot", of_another_text)
    assert [check.holds for check in check_cache(model, TEXT)] == [True, True, False]


def test_exact_widths_are_confirmed(model: LlamaModel) -> None:
    """Every width that the calibration calls exact is run once."""
    checks = check_widths(model, TEXT, CALIBRATION)
    assert [check.what for check in checks] == [f"a pass over {width}" for width in (1, 2, 5, 8)]
    assert all(check.holds for check in checks)


def test_a_width_that_is_not_exact_is_noticed(model: LlamaModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bit in one row of passes over 5 tokens is enough."""
    right = LlamaModel.forward

    def inexact(self: LlamaModel, tokens: list[int], num_rows: int) -> Logits:
        logits = right(self, tokens, num_rows).copy()
        if len(tokens) == 5 and num_rows:
            logits.view("u4")[2, 3] ^= 1
        return logits

    monkeypatch.setattr(LlamaModel, "forward", inexact)
    assert [check.holds for check in check_widths(model, TEXT, CALIBRATION)] == [True, True, False, True]
