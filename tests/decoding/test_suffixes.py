"""The suffix automaton against a search through the whole text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from speclocal.decoding.drafters.suffixes import Match, SuffixAutomaton


def automaton(text: list[int]) -> SuffixAutomaton:
    index = SuffixAutomaton()
    for token in text:
        index.append(token)
    return index


def slow_match(text: list[int]) -> Match | None:
    """Return what `longest_match` promises, by looking everywhere."""
    for length in range(len(text) - 1, 0, -1):
        suffix = text[-length:]
        followed = [i + length for i in range(len(text) - length) if text[i : i + length] == suffix]
        if followed:
            counts = {text[end]: sum(text[end] == text[other] for other in followed) for end in followed}
            end = max(followed, key=lambda end: (counts[text[end]], end))
            return Match(length, end, counts[text[end]], len(followed))
    return None


@given(st.integers(1, 5).flatmap(lambda size: st.lists(st.integers(0, size - 1), max_size=30)))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_match_is_the_longest_and_its_counts_are_exact(text: list[int]) -> None:
    """Length, most frequent continuation, its latest place and both counts equal a search, after every token."""
    index = SuffixAutomaton()
    for i, token in enumerate(text):
        index.append(token)
        assert index.longest_match() == slow_match(text[: i + 1])


@given(
    st.integers(1, 4).flatmap(
        lambda size: st.tuples(
            st.lists(st.integers(0, size - 1), max_size=25), st.lists(st.integers(0, size), min_size=1, max_size=6)
        )
    )
)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_match_ahead_is_that_of_the_longer_text(both: tuple[list[int], list[int]]) -> None:
    """With tokens thought to follow: the longest end of both that occurred in the text and was followed there."""
    text, ahead = both
    index = automaton(text)
    match = index.longest_match(ahead)
    longer = text + ahead
    lengths = [
        length
        for length in range(1, len(longer) + 1)
        for start in range(len(text) - length)
        if text[start : start + length] == longer[len(longer) - length :]
    ]
    assert (match.length if match else 0) == max(lengths, default=0)
    if match:
        assert text[match.end - match.length : match.end] == longer[len(longer) - match.length :]
    assert index.text.tolist() == text


@pytest.mark.parametrize("num_letters", [2, 3, 20])
def test_match_is_exact_in_longer_texts(num_letters: int) -> None:
    """The same in 150 random tokens, and where a long passage comes back."""
    text = np.random.default_rng(num_letters).integers(num_letters, size=150).tolist()
    text += text[40:70]
    index = SuffixAutomaton()
    for i, token in enumerate(text):
        index.append(token)
        if i % 7 == 0 or i > 170:
            assert index.longest_match() == slow_match(text[: i + 1])


def test_one_repeated_token_still_matches() -> None:
    """Where a token belongs to more classes than are counted, length and place stay exact."""
    match = automaton([5] * 500).longest_match()
    assert match is not None
    assert (match.length, match.end) == (499, 499)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ([], None),
        ([1], None),
        ([1, 2, 3], None),
        ([1, 1], Match(length=1, end=1, num_followed=1, num_seen=1)),
        ([1, 2, 3, 1, 2], Match(length=2, end=2, num_followed=1, num_seen=1)),
        ([7, 1, 7, 2, 7, 1, 7, 1, 7, 9, 7], Match(length=1, end=7, num_followed=3, num_seen=5)),
        ([7, 1, 7, 2, 7], Match(length=1, end=3, num_followed=1, num_seen=2)),
    ],
)
def test_match_by_hand(text: list[int], expected: Match | None) -> None:
    """The most frequent continuation wins, then the latest; a text without repetition has no match."""
    assert automaton(text).longest_match() == expected


@pytest.mark.parametrize(
    ("position", "size", "copied"),
    [
        (0, 0, []),
        (0, 2, [1, 2]),
        (1, 3, [2, 3, 4]),
        (2, 5, [3, 4, 3, 4, 3]),
        (3, 4, [4, 4, 4, 4]),
        (0, 9, [1, 2, 3, 4, 1, 2, 3, 4, 1]),
    ],
)
def test_copy_that_reaches_the_end_goes_on_with_itself(position: int, size: int, copied: list[int]) -> None:
    """A copy is the text, and after its end the copied part once more."""
    assert automaton([1, 2, 3, 4]).copy_from(position, size) == copied


def test_automaton_is_small() -> None:
    """At most two states a token."""
    text = np.random.default_rng(0).integers(2, size=1000).tolist()
    index = automaton(text)
    assert len(index) == 1000
    assert len(index._link) <= 2 * len(text)
