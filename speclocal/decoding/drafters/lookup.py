"""Prompt lookup: drafts by copying what followed the same tokens earlier in the text.

Knows the text so far, no second model. (Saxena 2023, "Prompt Lookup Decoding"; Yang et al. 2023, arXiv:2304.04487)
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.drafters.suffixes import Match, SuffixAutomaton
from speclocal.decoding.types import Proposal, Rule, SamplingParams, Worth


class LookupDrafter:
    """Copies from the latest place where the longest matching suffix went on as it most often did."""

    name = "lookup"

    def __init__(self, min_match: int = 2) -> None:
        self.min_match = min_match
        self._index = SuffixAutomaton()

    def begin(self, tokens: Sequence[int]) -> None:
        indexed = self._index.text.tolist()
        if indexed != tokens[: len(indexed)]:
            self._index = SuffixAutomaton()

    def match(self, tokens: Sequence[int]) -> Match | None:
        """Return the longest suffix of `tokens` that occurred before, if it is long enough to copy from."""
        for token in tokens[len(self._index) :]:
            self._index.append(token)
        match = self._index.longest_match()
        return match if match and match.length >= self.min_match else None

    def copy(self, match: Match, size: int) -> list[int]:
        """Return the `size` tokens that followed the earlier occurrence."""
        return self._index.copy_from(match.end, size)

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, worth: Worth) -> Proposal:
        match = self.match(tokens)
        if match is None or size <= 0:
            return Proposal()
        return Proposal.copied(self.copy(match, size))
