"""The same text in other token ids.

Knows ids and what they stand for, not where they come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from typing import Protocol

from speclocal.decoding.loop import common_prefix

_FIRST_CONTROL = 256  # the first after all bytes


class Spelling(Protocol):
    """What must be known of a vocabulary to compare texts by their ids."""

    @property
    def control_tokens(self) -> Mapping[str, int]: ...

    def piece(self, token: int, /) -> bytes:
        """Return the bytes a token stands for."""


def respelled(text: Sequence[int], known: Sequence[int], vocab: Spelling) -> list[int]:
    """Return `text` in the ids of `known`, as far as both say the same.

    A model may write a text in other ids than it is tokenized to. What it wrote is in its cache, so that is what the
    next turn begins with:

        known     <|im_start|> assistant \\n He llo <|im_end|>
        text      <|im_start|> assistant \\n Hello <|im_end|> \\n <|im_start|> user \\n
        returned  <|im_start|> assistant \\n He llo <|im_end|> \\n <|im_start|> user \\n
    """
    controls = frozenset(vocab.control_tokens.values())

    def spelled(tokens: Sequence[int]) -> list[Sequence[int]]:
        """Return the bytes of every token; for one that controls, or stands for nothing, a number of its own."""
        pieces = [b"" if token in controls else vocab.piece(token) for token in tokens]
        return [piece or (_FIRST_CONTROL + token,) for piece, token in zip(pieces, tokens, strict=True)]

    of_known, of_text = spelled(known), spelled(text)
    agreed = common_prefix(list(chain.from_iterable(of_known)), list(chain.from_iterable(of_text)))
    ends_known, ends_text = _ends(of_known), _ends(of_text)
    place = max(end for end in ends_known.keys() & ends_text.keys() if end <= agreed)
    return [*known[: ends_known[place]], *text[ends_text[place] :]]


def _ends(pieces: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return how many pieces end at every place where one does, the beginning included."""
    return {end: count for count, end in enumerate(accumulate(map(len, pieces), initial=0))}
