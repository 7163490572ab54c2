"""Whole replies on real caches: every drafting mode writes the text of plain decoding, to the last slot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from fakes import FicklePlanner

from speclocal.decoding.acceptance import CoupledRule
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode, read, reading
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.types import Drafter, Planner, Round, SamplingParams
from speclocal.errors import LogitsError
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.vocab import compare_vocabularies
from speclocal.llama.weights import Weights

GREEDY = SamplingParams()
SAMPLED = SamplingParams(temperature=0.8)
TARGETS = ["llama", "llama, SentencePiece", "sliding window", "recurrent", "hybrid", "convolution", "delta net"]
DRAFT_LENGTHS = [1, 4, 40]
ENDLESS = 10_000


def prompt_of(model: LlamaModel, count: int) -> list[int]:
    """Return a text of `count` tokens that repeats itself, so that there is something to copy."""
    phrase = model.weights.vocab.tokenize("The cat and the tree. Return the cat, and the tree drafts tokens of a cat. ")
    return (phrase * (count // len(phrase) + 1))[:count]


def reply(
    target: LlamaModel, prompt: Sequence[int], planner: Planner, params: SamplingParams, budget: int = ENDLESS
) -> tuple[list[int], list[Round]]:
    """Return the whole text and its rounds, and check after each that the cache holds all tokens but the last."""
    tokens, rounds = list(prompt), []
    read(target, tokens[:-1])
    for round_ in decode(target, tokens, planner, CoupledRule(7), params, budget=budget):
        assert list(target.cached) == tokens[:-1]
        rounds.append(round_)
    return tokens, rounds


def drafters_for(name: str, open_model: Any) -> dict[str, Callable[[], Drafter]]:
    """Return makers of drafters, right and wrong ones, whose own caches are of the kind of the target's or another."""
    others = ["recurrent", "delta net"] if name == "llama" else ["llama"] if name == "recurrent" else []
    return {
        "lookup": LookupDrafter,
        "itself": lambda: ModelDrafter(open_model(name)),
        "a similar model": lambda: ModelDrafter(open_model(f"{name}, a little different")),
        **{other: lambda other=other: ModelDrafter(open_model(other)) for other in others},
    }


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "seeded"])
@pytest.mark.parametrize("name", TARGETS)
def test_every_mode_writes_the_plain_text_to_the_last_slot(name: str, params: SamplingParams, open_model: Any) -> None:
    """Greedy, and sampled with one seed, the text of every drafter and draft length is the one without drafts."""
    target = open_model(name)
    prompt = prompt_of(target, 30)
    plain, rounds = reply(target, prompt, FixedPlanner(NoDrafter(), 0), params)
    assert len(plain) == target.context_size + 1
    assert rounds[-1].finish == "context"
    assert len(rounds) == len(plain) - len(prompt)
    for mode, new_drafter in drafters_for(name, open_model).items():
        for length in DRAFT_LENGTHS:
            text, rounds = reply(target, prompt, FixedPlanner(new_drafter(), length), params)
            assert text == plain, (mode, length)
            assert rounds[-1].finish == "context", (mode, length)
            if mode == "a similar model":  # so that what is rejected has to be taken back, and some is accepted before
                assert any(0 < r.num_accepted < r.num_drafted for r in rounds) == (length > 1), length
    fickle = FicklePlanner([new_drafter() for new_drafter in drafters_for(name, open_model).values()], 12)
    assert reply(target, prompt, fickle, params)[0] == plain


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "seeded"])
def test_every_mode_of_the_default_model_writes_the_plain_text(params: SamplingParams, open_model: Any) -> None:
    """The same with real weights: off, lookup, and the model drafting for itself."""
    target = open_model("default")
    prompt = prompt_of(target, 200)
    plain, _ = reply(target, prompt, FixedPlanner(NoDrafter(), 0), params)
    assert len(plain) == target.context_size + 1
    for drafter in (LookupDrafter(), ModelDrafter(open_model("default"))):
        text, rounds = reply(target, prompt, FixedPlanner(drafter, 4), params)
        assert text == plain, drafter.name
        assert rounds[-1].finish == "context"
        assert sum(r.num_accepted for r in rounds) > 0, drafter.name


def test_model_drafting_for_itself_is_always_right(open_model: Any) -> None:
    """Greedy drafts of the same weights are all accepted: nothing of a round leaks into the next."""
    target, prompt = open_model("llama"), [5, 6, 7]
    _, rounds = reply(target, prompt, FixedPlanner(ModelDrafter(open_model("llama")), 4), GREEDY, budget=101)
    assert sum(r.num_drafted for r in rounds) == sum(r.num_accepted for r in rounds) == 80
    assert [len(r.tokens) for r in rounds] == [5] * 20 + [1]


def test_similar_model_is_partly_right(open_model: Any) -> None:
    """Weights with a little noise draft tokens of which some are kept and some are not: both paths are walked."""
    target, prompt = open_model("llama"), [5, 6, 7]
    drafter = ModelDrafter(open_model("llama, a little different"))
    _, rounds = reply(target, prompt, FixedPlanner(drafter, 4), GREEDY, budget=100)
    accepted, tested = sum(r.num_accepted for r in rounds), sum(r.num_tested for r in rounds)
    assert 0.2 * tested < accepted < tested


@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "seeded"])
def test_drafter_with_a_padded_vocabulary_changes_nothing(
    params: SamplingParams, open_model: Any, tmp_path: Path
) -> None:
    """Two sizes of one vocabulary: the drafter's extra ids are never proposed, the text is the plain one."""
    target = open_model("llama")
    prompt = prompt_of(target, 30)
    plain, _ = reply(target, prompt, FixedPlanner(NoDrafter(), 0), params, budget=60)
    weights = Weights(tiny.write_llama(tmp_path / "padded.gguf", tiny.bpe().padded(384)), Placement(1))
    model = LlamaModel(weights, 256)
    assert compare_vocabularies(weights.vocab, target.weights.vocab).fits
    assert model.vocab_size == 384
    drafter = ModelDrafter(model, num_shared=target.vocab_size)
    text, rounds = reply(target, prompt, FixedPlanner(drafter, 4), params, budget=60)
    model.close()
    weights.close()
    assert text == plain
    assert all(token < target.vocab_size for r in rounds for token in r.proposal.tokens)
    assert sum(r.num_accepted for r in rounds) > 0


def test_drafter_with_a_smaller_context_changes_nothing(open_model: Any) -> None:
    """The text outgrows the drafter's context; what it then knows of the text makes its guesses worse, not the text."""
    target, drafting = open_model("llama", 512), open_model("llama", 256)
    plain, _ = reply(target, [5, 6, 7], FixedPlanner(NoDrafter(), 0), GREEDY)
    text, rounds = reply(target, [5, 6, 7], FixedPlanner(ModelDrafter(drafting), 4), GREEDY)
    assert text == plain
    assert all(r.num_accepted == r.num_drafted for r in rounds if r.position < 250)


@pytest.mark.parametrize("name", TARGETS)
def test_next_turn_continues_the_cache(name: str, open_model: Any) -> None:
    """A prompt that begins with the whole last text is read from where the cache ends, whatever the kind of cache."""
    target = open_model(name)
    text, _ = reply(target, prompt_of(target, 30), FixedPlanner(NoDrafter(), 0), GREEDY, budget=20)
    assert next(reading(target, [*text, 5, 6, 7])) == len(text) - 1


def test_sliding_window_rolls_back_further_than_its_window(open_model: Any) -> None:
    """The cache keeps what the window no longer sees, so a far rollback equals a run that never went on."""
    used, fresh = open_model("sliding window"), open_model("sliding window")
    prompt = prompt_of(used, 200)
    for start in range(0, 200, 40):
        used.forward(prompt[start : start + 40], 0)
    fresh.forward(prompt[:40], 0)
    used.rollback(40)
    assert np.array_equal(used.forward([5, 6, 7], 3), fresh.forward([5, 6, 7], 3))


@pytest.mark.parametrize("name", TARGETS)
def test_stopping_after_any_round_leaves_a_usable_cache(name: str, open_model: Any) -> None:
    """A consumer that walks away, as Ctrl-C does, can read the next prompt into the same cache."""
    target, fresh = open_model(name), open_model(name)
    for stop in (1, 2, 5):
        tokens = prompt_of(target, 30)
        read(target, tokens[:-1])
        rounds = decode(target, tokens, FixedPlanner(LookupDrafter(), 6), CoupledRule(7), GREEDY, budget=50)
        for _ in range(stop):
            next(rounds)
        rounds.close()
        assert list(target.cached) == tokens[:-1]
    for model in (target, fresh):
        read(model, tokens)
    assert np.allclose(target.forward([5], 1), fresh.forward([5], 1), atol=1e-4)


def test_broken_weights_are_one_clear_error(tmp_path: Path) -> None:
    """Weights that are not numbers load, and the first round says so; the cache is still tokens[:-1]."""
    data = bytearray(tiny.write_llama(tmp_path / "broken.gguf").read_bytes())
    data[-4096:] = b"\xff" * 4096
    path = tmp_path / "nan.gguf"
    path.write_bytes(data)
    weights = Weights(path, Placement(1))
    target = LlamaModel(weights, 256)
    tokens = [5, 6, 7]
    read(target, tokens[:-1])
    with pytest.raises(LogitsError):
        next(decode(target, tokens, FixedPlanner(NoDrafter(), 0), CoupledRule(7), GREEDY, budget=5))
    assert list(target.cached) == tokens[:-1]
    target.close()
    weights.close()
