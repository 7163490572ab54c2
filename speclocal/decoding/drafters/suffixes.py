"""Every earlier occurrence of every suffix of a growing text.

Knows a text of token ids, not what it is used for.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

_MAX_CLIMB = 32
"""How many suffix classes one token updates at most; a text of one repeated token has as many as it is long."""


@dataclass(frozen=True)
class Match:
    """An earlier occurrence of the end of the text, and what followed it."""

    length: int  # tokens of the text's end that occurred before, as many as possible
    end: int  # index of the token that followed the occurrence
    num_followed: int  # how often this end of the text was followed by that token
    num_seen: int  # how often this end of the text was followed by anything
    near: bool = False  # the occurrence stands where the text was copied from just before

    @property
    def disputed(self) -> bool:
        """Whether this end of the text was also followed by other tokens."""
        return self.num_followed < self.num_seen


class SuffixAutomaton:
    """The smallest automaton that reads exactly the substrings of a text, grown token by token.

    A state stands for a class of substrings that end at the same places; `link` leads to the next shorter class, so
    the states from `last` along the links are the suffixes of the text. Appending costs constant amortized time and at
    most two states. (Blumer et al. 1985, doi:10.1016/0304-3975(85)90157-4; for drafting: Hu et al. 2024,
    arXiv:2411.10666)

    Every state also counts its occurrences and remembers the latest, for the evidence in a `Match`.
    """

    def __init__(self) -> None:
        self.text = array("i")
        self._next: list[dict[int, int]] = [{}]  # state -> token -> state
        self._link = array("i", [-1])
        self._length = array("i", [0])  # of the longest substring of the state
        self._latest = array("i", [-1])  # where it ended most recently
        self._count = array("i", [0])
        self._last = 0

    def __len__(self) -> int:
        return len(self.text)

    def append(self, token: int) -> None:
        """Grow the text by one token."""
        position = len(self.text)
        self.text.append(token)
        state = self._add_state(self._length[self._last] + 1, {})
        parent = self._last
        while parent >= 0 and token not in self._next[parent]:
            self._next[parent][token] = state
            parent = self._link[parent]
        self._link[state] = 0 if parent < 0 else self._shortest_fit(parent, token)
        self._last = state

        for _ in range(_MAX_CLIMB):
            if state <= 0:
                break
            self._latest[state] = position
            self._count[state] += 1
            state = self._link[state]

    def longest_match(self, ahead: Sequence[int] = ()) -> Match | None:
        """Return the longest end of the text that occurred before, with its most frequent continuation.

        Of equally frequent continuations the most recent wins. ahead: tokens that are thought to follow the text; the
        match is then one of their end, and the text stays as it is.
        """
        state = self._link[self._last]
        length = self._length[state] if state > 0 else 0
        for token in ahead:
            while state > 0 and token not in self._next[state]:
                state = self._link[state]
                length = self._length[state]
            state = self._next[max(state, 0)].get(token, 0)
            length = length + 1 if state else 0
        while state > 0 and not self._next[state]:  # occurred only where the text ends
            state = self._link[state]
            length = self._length[state]
        if state <= 0:
            return None
        followers = self._next[state].values()
        best = max(followers, key=lambda child: (self._count[child], self._latest[child]))
        return Match(
            length=length,
            end=self._latest[best],
            num_followed=self._count[best],
            num_seen=sum(self._count[child] for child in followers),
        )

    def copy_from(self, position: int, size: int) -> list[int]:
        """Return `size` tokens of the text from `position` on; a copy that reaches the end goes on with itself."""
        copied = self.text[position : position + size].tolist()
        period = len(copied)
        while len(copied) < size:
            copied.append(copied[-period])
        return copied

    def _shortest_fit(self, parent: int, token: int) -> int:
        """Return the state of the longest earlier suffix + token, splitting a class that also holds longer strings."""
        child = self._next[parent][token]
        if self._length[child] == self._length[parent] + 1:
            return child
        split = self._add_state(self._length[parent] + 1, self._next[child].copy())
        self._link[split] = self._link[child]
        self._count[split] = self._count[child]
        self._link[child] = split
        while parent >= 0 and self._next[parent].get(token) == child:
            self._next[parent][token] = split
            parent = self._link[parent]
        return split

    def _add_state(self, length: int, followers: dict[int, int]) -> int:
        self._next.append(followers)
        self._link.append(-1)
        self._length.append(length)
        self._latest.append(-1)
        self._count.append(0)
        return len(self._next) - 1
