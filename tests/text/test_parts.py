"""Parts of a text: nothing lost, nothing twice, none too large, and cut where a reader would cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclocal.text.parts import split

COUNTERS = {
    "characters": len,
    "bytes": lambda text: len(text.encode("utf-8", "replace")),
    "words and signs": lambda text: len(re.findall(r"\w{1,6}|\s+|[^\w\s]", text)),
}
PIECES = [
    "a",
    "word",
    " ",
    "  ",
    "\n",
    "\n\n",
    "\r\n",
    ". ",
    "# ",
    "def f():",
    "    ",
    "\f",
    "\u4f60\u3002",
    "\U0001f680",
]
TEXTS = st.text() | st.lists(st.sampled_from(PIECES), max_size=200).map("".join)


@pytest.mark.parametrize("counter", COUNTERS)
@given(text=TEXTS, size=st.integers(1, 60))
def test_joined_parts_are_the_text_and_each_fits(counter: str, text: str, size: int) -> None:
    """Every character is in exactly one part, no part is empty, and only a single character may be too large."""
    count = COUNTERS[counter]
    parts = split(text, size, count)
    assert "".join(parts) == text
    assert all(parts)
    assert all(count(part) <= size or len(part) == 1 for part in parts)


@given(text=TEXTS, size=st.integers(1, 60))
def test_parts_are_at_least_half_full(text: str, size: int) -> None:
    """A sensible place is looked for in the second half of what fits, so there are at most twice the parts needed."""
    *full, last = split(text, size, len) or [""]
    assert all(2 * len(part) >= size for part in full)
    assert last or not text


@given(words=st.lists(st.text("abc", min_size=1, max_size=5), min_size=1), size=st.integers(12, 40))
def test_words_are_whole(words: list[str], size: int) -> None:
    """Where words are short enough none is cut."""
    assert [word for part in split(" ".join(words), size, len) for word in part.split()] == words


def test_a_text_that_fits_is_one_part() -> None:
    """What fits is left alone, and of nothing there are no parts."""
    assert split("one. two. three", 15, len) == ["one. two. three"]
    assert split("", 15, len) == []


@pytest.mark.parametrize(
    ("text", "size", "parts"),
    [
        ("text one.\n\nmore\n\n## Next\n\nlast", 26, ["text one.\n\nmore\n\n", "## Next\n\nlast"]),
        ("some text, one.\n\nTitle\n=====\n\nmore words", 30, ["some text, one.\n\n", "Title\n=====\n\nmore words"]),
        ("it was late by now.\n\nCHAPTER II\nthe end", 32, ["it was late by now.\n\n", "CHAPTER II\nthe end"]),
        ("one one one\n\ntwo. Two two", 20, ["one one one\n\n", "two. Two two"]),
        ("def a():\n    x\n\n    y\n\ndef b():\n    z", 32, ["def a():\n    x\n\n    y\n\n", "def b():\n    z"]),
        ("class A:\n    x = 1\n    def b():\n        z", 33, ["class A:\n    x = 1\n", "    def b():\n        z"]),
        ("One two three. Four five six", 20, ["One two three. ", "Four five six"]),
        ("\u4f60\u597d\u4e16\u3002\u4f60\u597d\u4e16", 6, ["\u4f60\u597d\u4e16\u3002", "\u4f60\u597d\u4e16"]),
        ("row one, 1\nrow two, 2\nrow", 15, ["row one, 1\n", "row two, 2\nrow"]),
        ("some words here", 12, ["some words ", "here"]),
        ("unbreakable", 6, ["unbrea", "kable"]),
    ],
    ids=[
        *("heading", "underlined heading", "chapter", "paragraph", "function", "method"),
        *("sentence", "Chinese sentence", "line", "word", "hard"),
    ],
)  # fmt: skip
def test_the_best_place_is_taken(text: str, size: int, parts: list[str]) -> None:
    """A heading parts better than a paragraph, that better than a sentence, a line or a word."""
    assert split(text, size, len) == parts
