"""What happened in a reply, counted.

Knows rounds and seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from speclocal.decoding.types import Round


@dataclass
class Stats:
    """The counts and times of a reply. Rates are None where nothing was counted.

    tested: drafted tokens the rule judged; accepted: those it kept. decode_seconds is the wall time from the end of
    prompt processing to the last token, everything included.
    """

    prompt_tokens: int = 0
    prompt_reused: int = 0  # prompt tokens that were in the cache, or kept on disk
    prompt_seconds: float = 0.0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    decode_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    rounds_by_drafter: dict[str, int] = field(default_factory=dict)
    drafted_by_drafter: dict[str, int] = field(default_factory=dict)

    def add(self, round_: Round) -> None:
        """Count a round. The wall time of the reply is the caller's to set."""
        self.rounds += 1
        self.tokens += len(round_.verdicts)
        self.drafted += round_.num_drafted
        self.tested += round_.num_tested
        self.accepted += round_.num_accepted
        self.draft_seconds += round_.draft_seconds
        self.verify_seconds += round_.verify_seconds
        drafter = round_.drafted_by
        self.rounds_by_drafter[drafter] = self.rounds_by_drafter.get(drafter, 0) + 1
        self.drafted_by_drafter[drafter] = self.drafted_by_drafter.get(drafter, 0) + round_.num_drafted

    @property
    def other_seconds(self) -> float:
        return max(0.0, self.decode_seconds - self.draft_seconds - self.verify_seconds)

    @property
    def tokens_per_second(self) -> float | None:
        return _ratio(self.tokens, self.decode_seconds)

    @property
    def acceptance_rate(self) -> float | None:
        return _ratio(self.accepted, self.tested)

    @property
    def draft_utilisation(self) -> float | None:
        return _ratio(self.accepted, self.drafted)

    @property
    def tokens_per_round(self) -> float | None:
        return _ratio(self.tokens, self.rounds)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
