"""What a verification has found: parts of several kinds, when each of them holds, and whether it tested anything.

Knows findings, not how they came about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from speclocal.decoding.costs import Calibration
from speclocal.errors import SpeclocalError
from speclocal.jobs.cache_checks import BitCheck
from speclocal.jobs.forks import Cause, Fork
from speclocal.jobs.goodness import Fit


class Check(StrEnum):
    """What is checked, part by part."""

    GREEDY = "greedy"
    SEEDED = "seeded"
    DISTRIBUTION = "distribution"
    CACHE = "cache"
    WIDTHS = "widths"


@dataclass(frozen=True)
class ComparedReply:
    """A reply beside the one of plain decoding. mode: `erring` for the drafter that errs on purpose."""

    request: str
    mode: str
    num_tokens: int
    num_tested: int  # drafted tokens that were judged
    num_accepted: int  # of them, those that became part of the reply
    fork: Fork | None


@dataclass(frozen=True)
class TextPart:
    """The replies of every mode, greedy or with a seed."""

    name: Check
    strict: bool
    replies: tuple[ComparedReply, ...]

    @property
    def tested(self) -> bool:
        """Whether any draft was judged, where drafts are possible at all."""
        return not self.replies or any(reply.num_tested for reply in self.replies)

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

    @property
    def tells(self) -> bool:
        """Whether more than one outcome is expected, so that a wrong distribution could be told from the right one."""
        return self.two_tokens.num_cells > 1


@dataclass(frozen=True)
class DistributionPart:
    """Simulated replies under the ratio rule, and under every wrong rule if that was asked for; none without drafts.

    limit: the p-value below which a test fails.
    """

    samples: tuple[Sampled, ...]
    wrong: dict[str, tuple[Sampled, ...]]
    limit: float
    name: Check = field(default=Check.DISTRIBUTION, init=False)

    def fails(self, samples: Sequence[Sampled]) -> bool:
        return any(sampled.p_value < self.limit for sampled in samples)

    @property
    def tested(self) -> bool:
        """Whether the samples could tell a wrong rule from the right one, and did where wrong rules were tried."""
        telling = not self.samples or any(sampled.tells for sampled in self.samples)
        return telling and all(map(self.fails, self.wrong.values()))

    @property
    def holds(self) -> bool:
        return not self.fails(self.samples)


@dataclass(frozen=True)
class BitsPart:
    """Logits that had to come out again bit for bit. calibration: what is known of this build's widths, in part 5."""

    name: Check
    checks: tuple[BitCheck, ...]
    calibration: Calibration | None = None
    tested: bool = field(default=True, init=False)

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)


@dataclass(frozen=True)
class BrokenOff:
    """A part that could not be finished: what runs in it fails."""

    name: Check
    error: SpeclocalError
    holds: bool = field(default=False, init=False)
    tested: bool = field(default=True, init=False)


Part = TextPart | DistributionPart | BitsPart | BrokenOff
