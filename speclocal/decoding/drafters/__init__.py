"""Who guesses: nobody, the text itself, or a smaller model."""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.types import NOBODY, Proposal, Rule, SamplingParams, StopRule


class NoDrafter:
    """Guesses nothing: plain decoding is the empty proposal."""

    name = NOBODY

    def begin(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        return Proposal()
