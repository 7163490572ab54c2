"""What a tour of speculative decoding shows: numbers of the user's own models, and the figures that follow from them.

Knows numbers, not how they were measured (explain.py) or how they are shown. Every value that a person can change has
one place here, and all figures follow it. Letters as in decoding/theory.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from speclocal.decoding.costs import Calibration, PassCosts
from speclocal.decoding.types import Floats
from speclocal.jobs.prediction import Prediction, predict
from speclocal.jobs.trace import DraftedToken

_USUAL_ALPHA = 0.7
"""The acceptance rate of the textbook's examples, where nothing was drafted that could be measured."""
REPLY_TOKENS = 256
LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Draft lengths whose speedups are shown."""
BATCHES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class MeasuredModel:
    """A model as its passes see it. kv_bytes: of every token of context."""

    name: str
    weight_bytes: int
    num_weights: int
    kv_bytes: float
    calibration: Calibration

    @property
    def token_seconds(self) -> float:
        """The time of a pass over one token."""
        return self.calibration.seconds[1]

    @property
    def bytes_per_second(self) -> float:
        """What passes over one token reach, counting the weights alone."""
        return self.weight_bytes / self.token_seconds

    @property
    def operations_per_second(self) -> float:
        """What reading a text reaches: a multiplication and an addition for every weight and token."""
        return 2 * self.num_weights / self.calibration.read_seconds

    def operations_per_byte(self, width: int) -> float:
        """Return the arithmetic of a pass over `width` tokens for every byte of weights it reads."""
        return 2 * self.num_weights * width / self.weight_bytes

    def verify_ratio(self, width: int) -> float:
        """Return the cost of a pass over `width` tokens relative to one."""
        return PassCosts(self.calibration).seconds(width) / self.token_seconds


@dataclass(frozen=True)
class ShownRound:
    """A real round. texts: of the drafted tokens. own: the token that the target added, None where the reply ends
    before that. corrected: it replaces a drafted one that was rejected."""

    drafted: tuple[DraftedToken, ...]
    texts: tuple[str, ...]
    own: str | None
    corrected: bool
    num_emitted: int


@dataclass(frozen=True)
class Drafts:
    """What was drafted for one reply, and what became of it."""

    drafter: str
    length: int
    tokens: int
    rounds: int
    drafted: int
    tested: int
    accepted: int
    draft_seconds: float
    shown: ShownRound | None  # None where nothing was drafted


@dataclass(frozen=True)
class Simulation:
    """The ratio rule at one real position, applied many times. Arrays are [K], likeliest in p first.

    before: the text that the position continues. guesser: who q is of.
    """

    before: str
    guesser: str
    texts: tuple[str, ...]
    p: Floats
    q: Floats
    counts: Floats
    num_draws: int
    num_accepted: int

    @property
    def output(self) -> Floats:
        return self.counts / self.num_draws

    @property
    def largest_gap(self) -> float:
        """Between the share of a token in the output and its chance in p."""
        return float(np.abs(self.output - self.p).max())

    @property
    def gap_deviation(self) -> float:
        """The standard deviation of the share of that token, if the output follows p."""
        worst = int(np.abs(self.output - self.p).argmax())
        p = float(self.p[worst])
        return float(np.sqrt(p * (1 - p) / self.num_draws))

    @property
    def gap_of_q(self) -> float:
        """What the gap would be if drafts were taken unseen."""
        return float(np.abs(self.q - self.p).max())

    @property
    def acceptance(self) -> float:
        """The chance that a draft is accepted here: sum(min(p, q))."""
        return float(np.minimum(self.p, self.q).sum())

    @property
    def acceptance_deviation(self) -> float:
        """The standard deviation of the share that is accepted, for that chance."""
        return float(np.sqrt(self.acceptance * (1 - self.acceptance) / self.num_draws))


@dataclass(frozen=True)
class Given:
    """What a person wants to see other figures for; None leaves what was measured, or is usual."""

    alpha: float | None = None
    gamma: int | None = None
    cost_ratio: float | None = None
    tokens: int | None = None
    bandwidth: float | None = None  # bytes per second
    batch: int | None = None


@dataclass(frozen=True)
class Explanation:
    """All that the tour shows. memory_bytes_per_second: what a plain read reaches; None where it is no ceiling."""

    prompt: str
    prompt_tokens: int
    temperature: float
    target: MeasuredModel
    draft: MeasuredModel | None
    threads: int
    memory_bytes_per_second: float | None
    drafts: Drafts
    simulation: Simulation
    given: Given

    @property
    def alpha(self) -> float:
        measured = self.drafts.accepted / self.drafts.tested if self.drafts.tested else _USUAL_ALPHA
        return measured if self.given.alpha is None else self.given.alpha

    @property
    def gamma(self) -> int:
        return self.given.gamma or self.drafts.length

    @property
    def cost_ratio(self) -> float:
        """The seconds of a drafted token over those of a pass over one token."""
        if self.given.cost_ratio is not None:
            return self.given.cost_ratio
        if self.draft is not None:
            return self.draft.token_seconds / self.target.token_seconds
        seconds = self.drafts.draft_seconds / self.drafts.drafted if self.drafts.drafted else 0.0
        return seconds / self.target.token_seconds

    @property
    def tokens(self) -> int:
        return self.given.tokens or REPLY_TOKENS

    @property
    def batch(self) -> int:
        return self.given.batch or 1

    @property
    def share_of_memory(self) -> float:
        """How much of what memory can give a pass over one token takes."""
        return self.target.bytes_per_second / self.bandwidth

    @property
    def bandwidth(self) -> float:
        """Bytes per second that set the ceiling: what is given, or the most that was seen."""
        seen = max(self.memory_bytes_per_second or 0.0, self.target.bytes_per_second)
        return self.given.bandwidth or seen

    @property
    def context_bytes(self) -> float:
        """The cache at the end of the reply."""
        return self.target.kv_bytes * (self.prompt_tokens + self.tokens)

    @property
    def ceiling(self) -> float:
        """Tokens per second that plain decoding cannot pass with this bandwidth."""
        return self.bandwidth / self.target.weight_bytes

    @property
    def busy_width(self) -> float:
        """Tokens in a pass from which on it waits for arithmetic and no longer for memory."""
        return self.target.operations_per_second / self.bandwidth / self.target.operations_per_byte(1)

    def textbook(self, gamma: int) -> Prediction:
        """Return what drafts are worth if wide passes cost no more than narrow ones."""
        return predict(self.alpha, gamma, self.cost_ratio)

    def measured(self, gamma: int) -> Prediction:
        """Return what drafts are worth with the measured curve."""
        return predict(self.alpha, gamma, self.cost_ratio, self.target.verify_ratio)

    def in_batch(self, batch: int) -> Prediction:
        """Return what drafts are worth when `batch` replies are written at once.

        Every pass then has `batch` times the rows, and its costs are relative to a pass over `batch` tokens.
        """
        plain = self.target.verify_ratio(batch)
        drafting = self.draft.verify_ratio(batch) if self.draft else batch
        return predict(
            self.alpha,
            self.gamma,
            self.cost_ratio * drafting / plain,
            lambda width: self.target.verify_ratio(batch * width) / plain,
        )

    def plain_values(self) -> dict[str, Any]:
        """Return what was measured, and the figures that follow, for programs."""
        names = "alpha gamma cost_ratio tokens batch bandwidth context_bytes ceiling busy_width"
        simulation = self.simulation
        return {
            **asdict(self),
            "simulation": {
                **asdict(simulation),
                **{name: getattr(simulation, name).tolist() for name in ("p", "q", "output")},
                "counts": [int(count) for count in simulation.counts],
                **{name: getattr(simulation, name) for name in ("largest_gap", "gap_deviation", "acceptance")},
            },
            "figures": {name: getattr(self, name) for name in names.split()},
            "textbook": asdict(self.textbook(self.gamma)),
            "measured": asdict(self.measured(self.gamma)),
            "in_batch": asdict(self.in_batch(self.batch)),
        }
