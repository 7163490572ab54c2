"""A long text becomes parts that fit, cut at sensible places; joined they are the text.

Knows characters and what a counter says of them, not tokens or models.
"""

import re
from collections.abc import Callable

_WINDOW = 8
"""Characters looked at for every token that a part may hold: hardly any text has so many in one."""

_PLACES = [
    re.compile(place, re.MULTILINE)
    for place in (
        r"^(?=#{1,6} |(?i:chapter|part|book|section|act|scene)\s+(?:\d+|[IVXLC]+)\b)"  # headings,
        r"|(?<=\n\n)(?=.+\n(?:===|---))|\f",  # underlined ones, and new pages
        r"\n[ \t]*\n(?=\S)",  # paragraphs, and functions at the margin
        r"^(?=[ \t]*(?:\w+ ){0,3}(?:def|class|function|func|fn|sub|struct|enum|interface|trait|impl|module)\b)",
        r"\n[ \t]*\n",
        r"[.!?\u2026][\"')\]\u201d\u2019\u00bb]*\s+(?=[\"'(\[\u201c\u2018\u00ab]*[^\W\d_a-z])"  # sentences,
        r"|[\u3002\uff01\uff1f]\s*",  # also of Chinese and Japanese
        r"\n",
        r"\s+",
    )
]
"""Where a text may be cut: at the ends of what these match, the best kind first."""


def split(text: str, size: int, count: Callable[[str], int]) -> list[str]:
    """Return the parts of a text, none of which counts more than `size`; joined they are the text.

    A part ends at the best place in its second half, and inside a word only where there is no place at all.
    A single character stays a part even if it counts more.
    """
    parts, start = [], 0
    while start < len(text):
        end = _end_of_part(text, start, size, count)
        parts.append(text[start:end])
        start = end
    return parts


def _end_of_part(text: str, start: int, size: int, count: Callable[[str], int]) -> int:
    """Return where the part that begins at `start` ends, which is after `start`."""
    end = _fitting_end(text, start, size, count)
    if end == len(text):
        return end
    middle = (start + end + 1) // 2
    cuts = (found.end() for place in _PLACES for found in reversed([*place.finditer(text, middle, end)]))
    return next((cut for cut in cuts if count(text[start:cut]) <= size), end)


def _fitting_end(text: str, start: int, size: int, count: Callable[[str], int]) -> int:
    """Return the end of about the longest part from `start` that fits, one character where none does."""
    length = min(len(text) - start, _WINDOW * size)
    while length > 1 and (counted := count(text[start : start + length])) > size:
        length -= max(1, length * (counted - size) // counted)
    return start + length
