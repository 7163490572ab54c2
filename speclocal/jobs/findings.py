"""What a verification has found: parts of several kinds, and when each of them holds.

Knows findings, not how they came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from speclocal.decoding.costs import Calibration
from speclocal.errors import SpeclocalError
from speclocal.jobs.cache_checks import BitCheck
from speclocal.jobs.forks import Cause, Fork
from speclocal.jobs.goodness import Fit
from speclocal.jobs.modes import Mode


@dataclass(frozen=True)
class ComparedReply:
    """A reply of one mode beside the one of plain decoding."""

    request: str
    mode: Mode
    num_tokens: int
    num_accepted: int  # of them, drafted tokens that were kept
    fork: Fork | None


@dataclass(frozen=True)
class TextPart:
    """The replies of every mode, greedy or with a seed."""

    name: str
    strict: bool
    replies: tuple[ComparedReply, ...]

    @property
    def forks(self) -> list[ComparedReply]:
        return [reply for reply in self.replies if reply.fork]

    @property
    def holds(self) -> bool:
        causes = {reply.fork.cause for reply in self.replies if reply.fork}
        return not causes if self.strict else Cause.BUG not in causes


@dataclass(frozen=True)
class Sampled:
    """Simulated replies at one place, tested against the target's distribution. acceptance: of the first token."""

    request: str
    position: int  # in the plain seeded reply to the request
    drafter: str
    acceptance: float
    one_token: Fit
    two_tokens: Fit

    @property
    def p_value(self) -> float:
        return min(self.one_token.p_value, self.two_tokens.p_value)


@dataclass(frozen=True)
class DistributionPart:
    """Simulated replies under the ratio rule, and under every wrong rule if that was asked for; none without drafts.

    limit: the p-value below which a test fails.
    """

    samples: tuple[Sampled, ...]
    wrong: dict[str, tuple[Sampled, ...]]
    limit: float
    name: str = "distribution"

    def fails(self, samples: Sequence[Sampled]) -> bool:
        return any(sampled.p_value < self.limit for sampled in samples)

    @property
    def holds(self) -> bool:
        return not self.fails(self.samples) and all(map(self.fails, self.wrong.values()))


@dataclass(frozen=True)
class BitsPart:
    """Logits that had to come out again bit for bit. calibration: what is known of this build's widths, in part 5."""

    name: str
    checks: tuple[BitCheck, ...]
    calibration: Calibration | None = None

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


@dataclass(frozen=True)
class BrokenOff:
    """A part that could not be finished: what runs in it fails."""

    name: str
    error: SpeclocalError
    holds: bool = field(default=False, init=False)


Part = TextPart | DistributionPart | BitsPart | BrokenOff
