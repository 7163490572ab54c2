"""The next prompt begins with the ids that are in the cache, and says what it should."""

from __future__ import annotations

from itertools import product, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclocal.jobs.spelling import respelled

TEXTS = ("", *("".join(letters) for size in (1, 2, 3) for letters in product("ab", repeat=size)))


class Vocab:
    """Ids that are all texts over a and b of up to three letters, and two control tokens, one with a text."""

    def __init__(self) -> None:
        self.control_tokens = {"<end>": 100, "<b>": 101}

    def piece(self, token: int) -> bytes:
        return b"b" if token == 101 else b"" if token == 100 else TEXTS[token].encode()

    def ids(self, *texts: str) -> list[int]:
        return [self.control_tokens.get(text) or TEXTS.index(text) for text in texts]


vocab = Vocab()
tokens = st.lists(st.sampled_from([*range(1, len(TEXTS)), 100, 101]), max_size=12)


@pytest.mark.parametrize(
    ("text", "known", "returned"),
    [
        ("aab <end> a", "aa b <end>", "aa b <end> a"),
        ("aab a", "aa bb", "aab a"),  # they agree in the middle of a token only
        ("a aab", "a aa", "a aab"),
        ("ab ab", "a b abb", "a b ab"),
        ("aa <end>", "a a <end> b", "a a <end>"),  # what is known goes on
        ("aa <end> b", "a a", "a a <end> b"),
        ("b a", "<b> a", "b a"),  # a control token is not the text it looks like
        ("a <end> b", "a <b> b", "a <end> b"),
        ("a b", "", "a b"),
        ("", "a b", ""),
    ],
)
def test_the_longest_common_text_keeps_its_known_ids(text: str, known: str, returned: str) -> None:
    """Tables of a text, of what is known, and of what comes out."""
    assert respelled(vocab.ids(*text.split()), vocab.ids(*known.split()), vocab) == vocab.ids(*returned.split())


@given(tokens, tokens, tokens)
def test_respelling_says_the_same(common: list[int], text: list[int], known: list[int]) -> None:
    """Whatever is known, the text stays what it is, control tokens and all, and keeps what was the same already."""
    text, known = common + text, common + known
    found = respelled(text, known, vocab)
    assert spelled(found) == spelled(text)
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(text, known, strict=False))))
    assert found[:shared] == known[:shared]


def spelled(ids: list[int]) -> list[int | bytes]:
    """Return the letters and control tokens of ids."""
    return [unit for i in ids for unit in ([i] if i in (100, 101) else [bytes([b]) for b in vocab.piece(i)])]
