"""A drafter that knows the reply and errs on purpose, so that drafts are accepted and rejected whatever the text is.

Knows token ids alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.types import Proposal, Rule, SamplingParams, StopRule

_PERIOD = 3  # of as many tokens of a reply the last is drafted wrong


class ErringDrafter:
    """Drafts the tokens of a reply that is known, but for every third, in whose place it drafts another."""

    name = "erring"

    def __init__(self, known: Sequence[int], start: int, vocab_size: int) -> None:
        """start: where in the text the known reply begins."""
        self._start = start
        self._drafts = [
            (token + 1) % vocab_size if place % _PERIOD == _PERIOD - 1 else token for place, token in enumerate(known)
        ]

    def begin(self, tokens: Sequence[int]) -> None:
        pass

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        place = len(tokens) - self._start
        return Proposal.copied(self._drafts[place : place + size])
