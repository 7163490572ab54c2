"""Prompt lookup: drafts by copying what followed the same tokens earlier in the text.

Knows the text so far, no second model. (Saxena 2023, "Prompt Lookup Decoding"; Yang et al. 2023, arXiv:2304.04487)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from speclocal.decoding.drafters.suffixes import Match, SuffixAutomaton
from speclocal.decoding.types import Proposal, Rule, SamplingParams, StopRule


class LookupDrafter:
    """Copies from the latest place where the longest matching suffix went on as it most often did.

    A copy with changes (an edited file, a quotation) breaks off and goes on a few tokens further in the same place.
    So the drafter remembers where it copied from, and of several weak matches prefers one close after that.
    """

    name = "lookup"

    _CLEAR = 4  # tokens of an undisputed match that show where the text is being copied from
    _WINDOW = (-4, 24)  # tokens around that place where the copy may go on
    _PATIENCE = 16  # tokens that may differ before the place is forgotten

    def __init__(self, min_match: int = 2) -> None:
        self.min_match = min_match
        self._index = SuffixAutomaton()
        self._match: Match | None = None  # of the end of the indexed text
        self._source: int | None = None  # where the next token stands if the copy goes on
        self._num_differing = 0

    def begin(self, tokens: Sequence[int]) -> None:
        indexed = self._index.text.tolist()
        if indexed != tokens[: len(indexed)]:
            self._index = SuffixAutomaton()
            self._source = self._match = None

    def match(self, tokens: Sequence[int]) -> Match | None:
        """Return the longest suffix of `tokens` that occurred before, if it is long enough to copy from."""
        for token in tokens[len(self._index) :]:
            self._follow(token)
            self._index.append(token)
            self._match = self._index.longest_match()
            if self._match and self._match.length >= self._CLEAR and not self._match.disputed:
                self._source, self._num_differing = self._match.end, 0
        match = self._match and self._nearby(self._match)
        return match if match and match.length >= self.min_match else None

    def match_ahead(self, drafted: Sequence[int]) -> Match | None:
        """Return the longest end of the text and `drafted` that occurred in the text `match` was last asked about."""
        return self._index.longest_match(drafted)

    def copy(self, match: Match, size: int) -> list[int]:
        """Return the `size` tokens that followed the earlier occurrence."""
        return self._index.copy_from(match.end, size)

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        match = self.match(tokens)
        if match is None or size <= 0:
            return Proposal()
        return Proposal.copied(self.copy(match, size))

    def _follow(self, token: int) -> None:
        """Move on in the place that is copied from, whether the token agrees or not."""
        if self._source is None:
            return
        differs = token != self._index.text[self._source]
        self._num_differing = self._num_differing + 1 if differs else 0
        self._source = self._source + 1 if self._num_differing <= self._PATIENCE else None

    def _nearby(self, match: Match) -> Match:
        """Return the match in the place that is copied from, where the text's last token stands there; else `match`."""
        source = self._source
        if source is None or source == match.end:
            return match
        text, last = self._index.text, len(self._index) - 1
        first = max(0, source + self._WINDOW[0])
        window = text[first : min(last, source + self._WINDOW[1])]
        places = [first + i for i, token in enumerate(window) if token == text[last]]
        if not places:
            return match

        def length(place: int) -> int:
            longest = min(place + 1, match.length)
            return next((n for n in range(1, longest) if text[place - n] != text[last - n]), longest)

        best = max(places, key=lambda place: (length(place), -abs(place + 1 - source)))
        if not match.disputed and text[best + 1] != text[match.end]:
            return match
        return replace(match, length=length(best), end=best + 1, near=True)
