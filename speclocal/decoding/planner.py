"""Who drafts this round, and how many tokens.

Knows drafters and finished rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.types import Drafter, Plan, Round


class FixedPlanner:
    """The same drafter and the same length, round after round."""

    def __init__(self, drafter: Drafter, size: int) -> None:
        self.drafter = drafter
        self._plan = Plan(drafter, size)

    def begin(self, tokens: Sequence[int]) -> None:
        self.drafter.begin(tokens)

    def plan(self, tokens: Sequence[int], limit: int) -> Plan:
        return self._plan

    def observe(self, round_: Round) -> None:
        pass
