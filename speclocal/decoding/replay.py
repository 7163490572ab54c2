"""Recorded replies, replayed: what a reply would have taken under any plan, in milliseconds and without a model.

Knows token ids and seconds; where replies are recorded and costs are measured is others' business.

The real loop, planner and drafters run. Only the models are played: they say what the trace says, and take the time
that passes were measured to take. Greedy text does not depend on the plan, so one recorded reply serves all plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.costs import Calibration, PassCosts
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode
from speclocal.decoding.stats import Stats
from speclocal.decoding.types import Logits, Planner, Proposal, Rule, SamplingParams, StopRule

ALL = 1 << 30
"""More tokens than any pass has."""


@dataclass(frozen=True)
class Trace:
    """A greedy reply, and the draft model's likeliest token and its probability for every emitted token.

    Without a draft model `draft` is empty. Ids are below `vocab_size`, which `compact` makes small.
    """

    name: str
    prompt: list[int]
    emitted: list[int]
    draft: list[int]
    confidence: list[float]
    vocab_size: int

    @classmethod
    def compact(cls, raw: Mapping[str, Any]) -> Trace:
        """Return a trace with its ids numbered by first use: rows of logits are then short, and plans the same."""
        known: dict[int, int] = {}
        prompt, emitted, draft = (
            [known.setdefault(t, len(known)) for t in raw[k]] for k in ("prompt", "emitted", "draft")
        )
        return cls(raw["name"], prompt, emitted, draft, raw["confidence"], len(known) + 1)

    @property
    def agreement(self) -> float | None:
        """The share of emitted tokens that the draft model guesses, given all tokens before; None without one."""
        pairs = list(zip(self.draft, self.emitted, strict=False))
        return sum(guess == token for guess, token in pairs) / len(pairs) if pairs else None


@dataclass(frozen=True)
class Machine:
    """What passes of a target and of a draft model really take, whatever a planner expects.

    num_droppable: how many tokens of a pass the target drops at no cost; a rejection of more means to go back and read
    again what was accepted. Of the draft model it is taken to be all.
    """

    name: str
    target: Calibration
    draft: Calibration
    num_droppable: int = ALL


class Clock:
    """Time that passes only when a played model says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Played:
    """A model that always says what the trace says, whatever draft it is shown, and takes the curve's time."""

    max_pass = 512
    max_rows = 128

    def __init__(
        self,
        trace: Trace,
        says: Sequence[int],
        confidence: Sequence[float],
        costs: Calibration,
        clock: Clock,
        num_droppable: int = ALL,
    ) -> None:
        self.vocab_size = trace.vocab_size
        self.context_size = len(trace.prompt) + len(trace.emitted) + 2 * self.max_rows
        self.cached: list[int] = []
        self.start = 0  # where in the text the cache begins
        self._says = says
        self._confidence = confidence
        self._num_before = len(trace.prompt)
        self._costs = PassCosts(costs)
        self._clock = clock
        self._num_droppable = num_droppable
        self._pass_start = 0  # how much the cache held before the last pass

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        self._clock.now += self._costs.seconds(len(tokens))
        self._pass_start = len(self.cached)
        self.cached.extend(tokens)
        rows = np.zeros((num_rows, self.vocab_size), dtype=np.float32)
        for i in range(num_rows):
            index = self.start + len(self.cached) - num_rows + i + 1 - self._num_before
            if 0 <= index < len(self._says):
                sure = min(max(self._confidence[index], 1e-3), 1 - 1e-6)
                rows[i, self._says[index]] = math.log(sure / (1 - sure) * (self.vocab_size - 1))
        return rows

    def nearest(self, length: int) -> int:
        return length

    def rollback(self, length: int) -> None:
        if len(self.cached) - length > self._num_droppable:
            self._clock.now += self._costs.rollback_seconds + self._costs.seconds(max(0, length - self._pass_start))
        del self.cached[length:]

    def has_guess(self, position: int) -> bool:
        """Return whether the trace says what comes at this place of the text."""
        return position - self._num_before < len(self._says)


class PlayedDrafter(ModelDrafter):
    """A draft model that tells its player where in the text its cache begins, and drafts where the trace has guesses.

    A trace without guesses to its end is that of a draft model that lacks an id of the text, or has a full context.
    """

    def __init__(self, played: Played, tail: int | None) -> None:
        super().__init__(played, tail=tail)
        self._played = played

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        if not self._played.has_guess(len(tokens)):
            return Proposal()
        return super().propose(tokens, size, params, rule, stop)

    def _catch_up(self, tokens: Sequence[int], start: int, agreed: int) -> Logits:
        self._played.start = start
        return super()._catch_up(tokens, start, agreed)


MakePlanner = Callable[[Callable[[int | None], ModelDrafter]], Planner]
"""Returns the planner of a replay, given a function from a tail (see ModelDrafter) to the played draft model."""


def replay(trace: Trace, machine: Machine, make: MakePlanner, *, draft_has_read: bool = False) -> Stats:
    """Return what a reply takes on a machine under the planner that `make` returns.

    draft_has_read: whether the draft model read the prompt beforehand, as the target did.
    """
    clock = Clock()
    target = Played(trace, trace.emitted, [0.99] * len(trace.emitted), machine.target, clock, machine.num_droppable)
    draft = Played(trace, trace.draft, trace.confidence, machine.draft, clock)
    tokens = list(trace.prompt)
    target.cached = tokens[:-1]
    if draft_has_read:
        draft.cached = tokens[:-1]
    stats = Stats(prompt_tokens=len(tokens))
    planner = make(lambda tail: PlayedDrafter(draft, tail))
    for round_ in decode(
        target, tokens, planner, RatioRule(0), SamplingParams(), budget=len(trace.emitted), clock=clock
    ):
        stats.add(round_)
    stats.decode_seconds = clock.now
    if tokens != trace.prompt + trace.emitted:
        raise AssertionError("greedy text must not depend on the plan")
    return stats
