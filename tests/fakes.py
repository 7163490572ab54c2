"""What the tests of the core share: a model without weights, drafters without sense, and what to compare them with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
from scipy.stats import chisquare

from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode, read
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.sampling import distribution
from speclocal.decoding.types import (
    Distribution,
    Drafter,
    Finish,
    Logits,
    Plan,
    Planner,
    Proposal,
    Round,
    Rule,
    SamplingParams,
    StopRule,
)
from speclocal.errors import ContextError

_MAX_VOCAB = 16
GREEDY = SamplingParams()


class FakeModel:
    """Logits from the last two tokens, a list as KV cache, and no patience with misuse.

    seed: which language it speaks. sharpness: how sure it is. noise: how far it strays from another model of the same
    seed, in units of its own logits. A smaller vocabulary is cut from a larger one. Returned logits turn to NaN at the
    next pass, as those of llama.cpp turn to something else. `widths` records the tokens of every pass.
    can_rollback: False for a cache that can only return to where its last pass over several tokens began or ended.
    """

    def __init__(
        self,
        *,
        vocab_size: int = 6,
        seed: int = 0,
        sharpness: float = 2.0,
        noise: float = 0.0,
        context_size: int = 64,
        max_pass: int = 16,
        max_rows: int = 16,
        can_rollback: bool = True,
    ) -> None:
        self.vocab_size = vocab_size
        self.context_size = context_size
        self.max_pass = max_pass
        self.max_rows = max_rows
        self.can_rollback = can_rollback
        self.cached: list[int] = []
        self.widths: list[int] = []
        self._places = [0]
        self._language = (seed, sharpness, noise)
        self._returned = np.empty((0, vocab_size), dtype=np.float32)

    def speak(self, seed: int) -> None:
        """Speak another language from here on."""
        self._language = (seed, *self._language[1:])

    def logits_after(self, tokens: Sequence[int]) -> Logits:
        """Return what this model says after `tokens`, without touching the cache."""
        before = tokens[-2] if len(tokens) > 1 else _MAX_VOCAB
        return _table_row(*self._language, before, tokens[-1])[: self.vocab_size]

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        self._returned.fill(np.nan)
        if not 0 < len(tokens) <= self.max_pass or not 0 <= num_rows <= min(len(tokens), self.max_rows):
            raise ValueError(f"a pass of {len(tokens)} tokens and {num_rows} rows")
        if len(self.cached) + len(tokens) > self.context_size:
            raise ContextError(f"{len(self.cached) + len(tokens)} tokens do not fit {self.context_size}")
        if not all(0 <= token < self.vocab_size for token in tokens):
            raise ValueError(f"no such token: {list(tokens)}")
        self._read(tokens)
        ends = range(len(self.cached) - num_rows + 1, len(self.cached) + 1)
        rows = [self.logits_after(self.cached[max(0, end - 2) : end]) for end in ends]
        self._returned = np.array(rows, dtype=np.float32).reshape(num_rows, self.vocab_size)
        return self._returned

    def nearest(self, length: int) -> int:
        length = min(length, len(self.cached))
        if self.can_rollback or length == len(self.cached):
            return length
        return max(place for place in self._places if place <= length)

    def rollback(self, length: int) -> None:
        if not 0 <= length <= len(self.cached):
            raise ValueError(f"cannot roll back to {length} of {len(self.cached)} tokens")
        nearest, kept = self.nearest(length), self.cached[:length]
        del self.cached[nearest:]
        self._places = [place for place in self._places if place <= nearest]
        if nearest < length:
            self._read(kept[nearest:])

    def _read(self, tokens: Sequence[int]) -> None:
        start = len(self.cached)
        self.widths.append(len(tokens))
        self.cached.extend(tokens)
        if len(tokens) > 1:
            self._places = [0, start, len(self.cached)]


@cache
def _table_row(seed: int, sharpness: float, noise: float, before: int, last: int) -> Logits:
    row = np.random.default_rng([seed, before, last]).normal(size=_MAX_VOCAB)
    row += noise * np.random.default_rng([seed + 1, before, last, int(noise * 1000)]).normal(size=_MAX_VOCAB)
    row = (row * sharpness).astype(np.float32)
    row.flags.writeable = False
    return row


class WildDrafter:
    """Proposes random tokens and claims odd distributions for them, with the token inside or outside."""

    name = "wild"

    def __init__(self, vocab_size: int = 6) -> None:
        self.vocab_size = vocab_size

    def begin(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        rng = np.random.default_rng([size, len(tokens), tokens[-1]])
        drafted = rng.integers(self.vocab_size, size=rng.integers(size + 1)).tolist()
        return Proposal(tuple(drafted), tuple(self._odd_distribution(rng) for _ in drafted))

    def _odd_distribution(self, rng: np.random.Generator) -> Distribution:
        num_ids = rng.integers(1, self.vocab_size + 1)
        ids = np.sort(rng.choice(self.vocab_size, num_ids, replace=False)).astype(np.int64)
        return Distribution(ids, rng.dirichlet(np.full(num_ids, 0.3)).clip(1e-300))


class DieDrafter:
    """Throws the same die for every token, whatever the text."""

    name = "die"

    def __init__(self, q: Distribution) -> None:
        self.q = q

    def begin(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        start = len(tokens)
        drafted = tuple(rule.draft(self.q, start + i, start) for i in range(size))
        return Proposal(drafted, (self.q,) * size)


class GreedyDrafter(ModelDrafter):
    """Drafts the most likely token of a model, and says so: q is one-hot, at every temperature."""

    name = "greedy"

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        return super().propose(tokens, size, GREEDY, rule, stop)


class FicklePlanner:
    """Another drafter and another length in every round, for no reason."""

    def __init__(self, drafters: Sequence[Drafter], longest: int) -> None:
        self.drafters = drafters
        self.longest = longest

    def begin(self, tokens: Sequence[int]) -> None:
        for drafter in self.drafters:
            drafter.begin(tokens)

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        rng = np.random.default_rng([self.longest, len(tokens)])
        return Plan(self.drafters[rng.integers(len(self.drafters))], int(rng.integers(self.longest + 1)))

    def observe(self, round_: Round) -> None:
        pass


DRAFTERS: dict[str, Callable[[], Drafter]] = {
    "off": NoDrafter,
    "lookup of 1": lambda: LookupDrafter(1),
    "lookup of 2": lambda: LookupDrafter(2),
    "lookup of 3": lambda: LookupDrafter(3),
    "similar model": lambda: ModelDrafter(FakeModel(noise=0.5)),
    "other model": lambda: ModelDrafter(FakeModel(seed=9)),
    "itself": lambda: ModelDrafter(FakeModel()),
    "greedy model": lambda: GreedyDrafter(FakeModel(noise=0.5)),
    "smaller vocabulary": lambda: ModelDrafter(FakeModel(vocab_size=4)),
    "larger vocabulary": lambda: ModelDrafter(FakeModel(vocab_size=9), num_shared=6),
    "smaller context": lambda: ModelDrafter(FakeModel(noise=0.2, context_size=9)),
    "small passes": lambda: ModelDrafter(FakeModel(noise=0.2, max_pass=2, max_rows=1)),
    "no rollback": lambda: ModelDrafter(FakeModel(noise=0.5, can_rollback=False)),
    "wild": WildDrafter,
}
"""Everyone who drafts for `FakeModel()`, by name; each call makes a new one."""

MODES: dict[str, Callable[[int], Planner]] = {
    **{name: lambda size, make=make: FixedPlanner(make(), size) for name, make in DRAFTERS.items()},
    "all in turn": lambda size: FicklePlanner([make() for make in DRAFTERS.values()], size),
}
"""Every way to plan a reply of `FakeModel()`, by name; each call takes the longest draft and makes a new planner."""


def run(
    target: FakeModel,
    tokens: list[int],
    planner: Planner,
    rule: Rule,
    params: SamplingParams = GREEDY,
    budget: int = 12,
    ends: Callable[[int], Finish | None] = lambda token: None,
) -> Iterator[Round]:
    """Read all of `tokens` but the last, then continue them a round at a time."""
    read(target, tokens[:-1])
    return decode(target, tokens, planner, rule, params, budget=budget, ends=ends)


def reply(
    planner: Planner, rule: Rule, prompt: Sequence[int], params: SamplingParams = GREEDY, budget: int = 12
) -> list[int]:
    """Return what a new `FakeModel()` says after `prompt`."""
    tokens = list(prompt)
    for _ in run(FakeModel(), tokens, planner, rule, params, budget):
        pass
    return tokens[len(prompt) :]


def plain_greedy(prompt: Sequence[int], budget: int = 12) -> list[int]:
    """Return the most likely tokens after `prompt` one by one, with nothing of the core but the fake model."""
    model, tokens = FakeModel(), list(prompt)
    for _ in range(budget):
        tokens.append(int(model.logits_after(tokens).argmax()))
    return tokens[len(prompt) :]


def enumerate_replies(
    model: FakeModel, prompt: Sequence[int], params: SamplingParams, length: int
) -> dict[tuple[int, ...], float]:
    """Return the probability of every text of `length` tokens after `prompt`."""
    replies = {(): 1.0}
    for _ in range(length):
        longer = {}
        for start, chance in replies.items():
            tokens = [*prompt, *start]
            p = distribution(model.logits_after(tokens), tokens, params)
            for token, prob in zip(p.ids.tolist(), p.probs.tolist(), strict=True):
                longer[*start, token] = chance * prob
        replies = longer
    return replies


def chi_square(observed: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> float:
    """Return how often samples that follow `chances` look at least as bad as `observed`.

    Cells are pooled, rarest first, until at least 8 are expected in each. An impossible outcome gives 0.
    """
    if not observed.keys() <= chances.keys():
        return 0.0
    num_samples = observed.total()
    counts, expected = [0], [0.0]
    for cell, chance in sorted(chances.items(), key=lambda item: item[1]):
        if expected[-1] >= 8:
            counts.append(0)
            expected.append(0.0)
        counts[-1] += observed[cell]
        expected[-1] += chance * num_samples
    return float(chisquare(counts, expected).pvalue)
