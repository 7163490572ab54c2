"""Forks: arithmetic is told from bugs by passes of the same widths over the text alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from fakes import GREEDY, MODES, FakeModel, run

from speclocal.decoding.acceptance import CoupledRule
from speclocal.decoding.loop import read
from speclocal.decoding.types import Distribution, Fate, Logits, Round, Rule, SamplingParams, Verdict, tokens_of
from speclocal.jobs.forks import Cause, Fork, fork_of, passes_of

PROMPTS = [[0], [3, 3, 3], [5, 0, 4, 4, 1, 5, 0], [0, 1, 2, 3, 4, 5, 0, 1, 2, 0, 1]]
WARM = SamplingParams(temperature=0.9)
LENGTH = 30
DRAFTED = ("similar model", "lookup of 1", "wild", "all in turn")


class Inexact(FakeModel):
    """Logits that also depend on how many rows the pass has, and on the bits that earlier passes left in the cache."""

    def __init__(self, blur: float = 0.6) -> None:
        super().__init__(max_rows=16)
        self.blur = blur
        self.bits: list[int] = []  # for every cached token, the width of its pass

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        logits = super().forward(tokens, num_rows)
        self.bits = [*self.bits[: len(self.cached) - len(tokens)], *[len(tokens)] * len(tokens)]
        for row in range(num_rows):
            end = len(self.cached) - num_rows + row + 1
            blur = np.random.default_rng([len(tokens), row, *self.bits[max(0, end - 8) : end]])
            logits[row] += self.blur * blur.normal(size=self.vocab_size).astype(np.float32)
        return logits


class SkipsRollback(Inexact):
    """Keeps in its cache what was rejected, if it is not too much."""

    def rollback(self, length: int) -> None:
        if length == 0 or len(self.cached) - length > 3:
            super().rollback(length)


class LosesRollback(FakeModel):
    """Says that the rejected tokens are gone, and still sees one of them."""

    ghost: int | None = None

    def rollback(self, length: int) -> None:
        self.ghost = self.cached[length] if 0 < length < len(self.cached) else None
        super().rollback(length)

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        logits = super().forward(tokens, num_rows)
        if self.ghost is not None and num_rows:
            logits[:, self.ghost] += 2
        return logits


class Believes(CoupledRule):
    """Keeps whatever is drafted."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        return Verdict(drafted, Fate.ACCEPTED, drafted)


def forks(
    make: Callable[[], FakeModel], params: SamplingParams = GREEDY, rule: Rule | None = None, mode: str = DRAFTED[0]
) -> list[Fork | None]:
    """Return the fork of every prompt's reply, drafted in `mode` and judged by `rule`."""
    found = []
    for seed, prompt in enumerate(PROMPTS):
        right = CoupledRule(seed)
        plain, _ = decoded(make(), prompt, "off", right, params)
        other, rounds = decoded(make(), prompt, mode, rule or right, params)
        target = make()
        read(target, prompt[:-1])
        found.append(fork_of(target, prompt, plain, other, passes_of(rounds), right, params))
    return found


def decoded(
    target: FakeModel, prompt: list[int], mode: str, rule: Rule, params: SamplingParams
) -> tuple[list[int], list[Round]]:
    tokens = list(prompt)
    rounds = list(run(target, tokens, MODES[mode](4), rule, params, budget=LENGTH))
    return tokens[len(prompt) :], rounds


@pytest.mark.parametrize("mode", DRAFTED)
@pytest.mark.parametrize("params", [GREEDY, WARM], ids=["greedy", "warm"])
def test_equal_replies_do_not_fork(mode: str, params: SamplingParams) -> None:
    """Where all widths give the same bits there is nothing to explain."""
    assert forks(FakeModel, params, mode=mode) == [None] * len(PROMPTS)


@pytest.mark.parametrize("mode", DRAFTED)
@pytest.mark.parametrize("params", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_fork_by_widths_is_arithmetic(mode: str, params: SamplingParams) -> None:
    """Where the bits depend on the widths, replies fork, and every fork is explained by them."""
    found = [fork for fork in forks(Inexact, params, mode=mode) if fork]
    assert found
    for fork in found:
        assert fork.cause is Cause.ARITHMETIC
        assert fork.plain_token != fork.other_token
        assert max(fork.widths) > 1
        assert fork.moved is not None
        assert fork.gap is not None
        assert 0 <= fork.gap < 2 * fork.moved or params is WARM


def test_a_fork_tells_place_tokens_and_widths() -> None:
    """The position is where the replies part, and the widths end with the pass that emitted its token."""
    prompt = PROMPTS[2]
    plain, _ = decoded(Inexact(), prompt, "off", CoupledRule(2), GREEDY)
    other, rounds = decoded(Inexact(), prompt, DRAFTED[0], CoupledRule(2), GREEDY)
    fork = forks(Inexact)[2]
    assert fork
    assert plain[: fork.position] == other[: fork.position]
    assert (plain[fork.position], other[fork.position]) == (fork.plain_token, fork.other_token)
    before = len(fork.widths) - 1
    assert fork.widths == tuple(each.width for each in passes_of(rounds)[: before + 1])
    assert rounds[before].position - len(prompt) <= fork.position
    assert fork.position < rounds[before].position - len(prompt) + len(rounds[before].verdicts)


@pytest.mark.parametrize("params", [GREEDY, WARM], ids=["greedy", "warm"])
@pytest.mark.parametrize("make", [FakeModel, Inexact])
def test_a_fork_by_a_wrong_rule_is_a_bug(make: Callable[[], FakeModel], params: SamplingParams) -> None:
    """Tokens that the target did not choose are not explained by widths, on exact arithmetic or not."""
    found = forks(make, params, Believes(0))
    assert all(fork and fork.cause is Cause.BUG for fork in found)


@pytest.mark.parametrize("make", [SkipsRollback, LosesRollback])
def test_a_fork_by_a_broken_rollback_is_a_bug(make: Callable[[], FakeModel]) -> None:
    """A cache that keeps or sees rejected tokens is found out, though the same cache is asked for the explanation."""
    found = [fork for mode in DRAFTED for fork in forks(make, mode=mode) if fork]
    assert found
    assert all(fork.cause is Cause.BUG for fork in found)


def test_a_reply_that_ends_early_is_a_bug() -> None:
    """Widths decide which token comes next, not that none does."""
    prompt, rule = PROMPTS[1], CoupledRule(0)
    plain, rounds = decoded(FakeModel(), prompt, "off", rule, GREEDY)
    target = FakeModel()
    read(target, prompt[:-1])
    fork = fork_of(target, prompt, plain, tokens_of(rounds[:-2]), passes_of(rounds[:-2]), rule, GREEDY)
    assert fork
    assert (fork.position, fork.other_token, fork.cause) == (LENGTH - 2, None, Cause.BUG)
    assert (fork.plain_token, fork.widths) == (plain[-2], (1,) * (LENGTH - 2))
    assert target.cached == prompt[:-1]
