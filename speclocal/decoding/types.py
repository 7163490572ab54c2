"""The words of the core: distributions, proposals, verdicts, rounds, and who plays which part.

Knows token ids and probabilities, not text, files or llama.cpp.

Shapes: V is the size of a vocabulary, K the number of tokens a distribution can emit, g the length of a draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from speclocal.errors import UsageError

Logits = NDArray[np.float32]
Floats = NDArray[np.float64]
Ids = NDArray[np.int64]

_CERTAIN = np.ones(1)
_CERTAIN.flags.writeable = False


@dataclass(frozen=True)
class SamplingParams:
    """How logits become a distribution. The defaults give greedy decoding: temperature 0."""

    temperature: float = 0.0
    top_k: int = 40  # 0 keeps every token
    top_p: float = 0.95  # 1 keeps every token
    min_p: float = 0.0  # 0 keeps every token
    repeat_penalty: float = 1.0  # 1 leaves the logits alone

    def __post_init__(self) -> None:
        for name, valid, wanted in (
            ("temperature", 0 <= self.temperature < float("inf"), "0 or more"),
            ("top_k", self.top_k >= 0, "0 or more"),
            ("top_p", 0 <= self.top_p <= 1, "between 0 and 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repeat_penalty", 0.01 <= self.repeat_penalty <= 100, "between 0.01 and 100"),
        ):
            if not valid:
                raise UsageError(f"{name} is {getattr(self, name)}", f"give a value that is {wanted}")


@dataclass(frozen=True)
class Distribution:
    """Probabilities over the tokens that can be emitted; every other token has probability zero.

    ids: [K], ascending and unique. probs: [K], positive, with sum 1.
    """

    ids: Ids
    probs: Floats

    @classmethod
    def one_hot(cls, token: int) -> Distribution:
        """Return the distribution that always emits `token`: greedy decoding, or a copied token."""
        return cls(np.array([token], dtype=np.int64), _CERTAIN)

    def prob(self, token: int) -> float:
        """Return the probability of `token`."""
        index = int(self.ids.searchsorted(token))
        return float(self.probs[index]) if index < self.ids.size and self.ids[index] == token else 0.0

    def probs_of(self, ids: Ids) -> Floats:
        """Return the probability of every id: [N] to [N]."""
        places = np.minimum(self.ids.searchsorted(ids), self.ids.size - 1)
        return np.where(self.ids[places] == ids, self.probs[places], 0.0)

    def draw(self, u: float) -> int:
        """Return the token whose slice of [0, 1) holds `u`."""
        if self.ids.size == 1:
            return int(self.ids[0])
        edges = self.probs.cumsum()
        index = int(edges.searchsorted(u * edges[-1], side="right"))
        return int(self.ids[min(index, self.ids.size - 1)])


@dataclass(frozen=True)
class Proposal:
    """A draft: tokens, each with the distribution it was really drawn from (the drafter's q)."""

    tokens: tuple[int, ...] = ()
    distributions: tuple[Distribution, ...] = ()

    @classmethod
    def copied(cls, tokens: Sequence[int]) -> Proposal:
        """Return a draft that was certain of every token."""
        return cls(tuple(tokens), tuple(Distribution.one_hot(token) for token in tokens))


class Fate(Enum):
    """Where an emitted token comes from."""

    ACCEPTED = "accepted"  # drafted, and kept by the rule
    CORRECTION = "correction"  # the target's replacement for a rejected draft token
    OWN = "own"  # the target's next token where nothing was drafted: plain decoding, or the bonus after a draft


class Finish(StrEnum):
    """Why a reply ends."""

    EOS = "eos"  # the model ended it
    STOP = "stop"  # a stop string came up
    LENGTH = "length"  # it has as many tokens as were asked for
    CONTEXT = "context"  # the target's cache is full


@dataclass(frozen=True)
class Verdict:
    """One emitted token, and why. p and q are what the drafted token had; None where nothing was drafted."""

    token: int
    fate: Fate
    drafted: int | None = None
    p: float | None = None
    q: float | None = None
    draw: float | None = None  # the rule's random number, where it uses one


NOBODY = "off"
"""The drafter of a round without a draft: it is plain decoding, whoever was asked."""


@dataclass(frozen=True)
class Round:
    """One target pass: what was drafted, what was emitted, and the time it took."""

    position: int  # index of the first emitted token in the whole text
    drafter: str
    proposal: Proposal
    verdicts: tuple[Verdict, ...]  # one per emitted token
    draft_seconds: float
    verify_seconds: float
    seconds: float  # all of it
    finish: Finish | None = None  # where this round ended the reply

    @property
    def tokens(self) -> list[int]:
        return [verdict.token for verdict in self.verdicts]

    @property
    def drafted_by(self) -> str:
        return self.drafter if self.num_drafted else NOBODY

    @property
    def num_drafted(self) -> int:
        return len(self.proposal.tokens)

    @property
    def num_tested(self) -> int:
        return sum(verdict.drafted is not None for verdict in self.verdicts)

    @property
    def num_accepted(self) -> int:
        return sum(verdict.fate is Fate.ACCEPTED for verdict in self.verdicts)


def tokens_of(rounds: Iterable[Round]) -> list[int]:
    """Return what rounds emitted, in one list."""
    return [token for round_ in rounds for token in round_.tokens]


class Model(Protocol):
    """A language model with one sequence in its KV cache."""

    vocab_size: int
    context_size: int  # most tokens the cache holds
    max_pass: int  # most tokens in one forward pass
    max_rows: int  # most rows of logits from one pass

    @property
    def cached(self) -> Sequence[int]:
        """The tokens in the KV cache."""

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        """Append `tokens` to the cache in one pass and return the logits after the last `num_rows` of them.

        Returns [num_rows, V], valid until the next pass.
        """

    def rollback(self, length: int) -> None:
        """Go back to the first `length` tokens of the cache; tokens after `nearest(length)` are read again."""

    def nearest(self, length: int) -> int:
        """Return the last place up to `length` that a rollback comes to without reading anything.

        That is `length` itself where tokens can simply be dropped, as keys and values can.
        """


class Rule(Protocol):
    """Decides over drafted tokens so that what is emitted follows the target's distribution."""

    def draft(self, q: Distribution, position: int, start: int) -> int:
        """Draw the drafter's token for `position`, in the round whose first token stands at `start`."""

    def judge(self, p: Distribution, q: Distribution, drafted: int, position: int) -> Verdict:
        """Accept `drafted`, which was drawn from q, or replace it."""

    def choose(self, p: Distribution, position: int) -> int:
        """Draw the target's own token."""


class StopRule(Protocol):
    """Tells a drafter that pays for every token when to stop.

    Asked before a token is drawn, never after: a token that is drawn is always judged, or its absence would say
    something about it and bias what is emitted.
    """

    def wants_step(self, drafted: Sequence[int]) -> bool:
        """Return whether one more token after those already drafted is worth a step of the drafter."""

    def wants_token(self, index: int, logits: Logits) -> bool:
        """Return whether that token, to be drawn from the drafter's `logits` [V], is worth a place in the pass."""


class NeverStop:
    """Draft on, whatever it costs: the answer of every fixed draft length."""

    def wants_step(self, drafted: Sequence[int]) -> bool:
        return True

    def wants_token(self, index: int, logits: Logits) -> bool:
        return True


class Drafter(Protocol):
    """Guesses the next tokens."""

    name: str

    def begin(self, tokens: Sequence[int]) -> None:
        """Take notice of a reply that continues `tokens`; from here to the next `begin` the text only grows."""

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        """Guess up to `size` tokens that follow `tokens`."""


@dataclass(frozen=True)
class Plan:
    """Who drafts this round, how many tokens at most, and when to stop early."""

    drafter: Drafter
    size: int
    stop: StopRule = field(default_factory=NeverStop)


class Planner(Protocol):
    """Chooses a plan for every round."""

    def begin(self, tokens: Sequence[int]) -> None:
        """Take notice of a reply that continues `tokens`."""

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        """Return the plan of the next round; no more than `limit` tokens can be used."""

    def observe(self, round_: Round) -> None:
        """Learn from a finished round."""
