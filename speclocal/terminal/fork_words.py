"""Where a reply leaves plain decoding, in words.

Knows forks, found just now or recorded, and the texts of their tokens; how they are found is forks.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from speclocal.jobs.comparison import ForkRecord
from speclocal.jobs.forks import Cause, Fork
from speclocal.terminal import words

_MANY = 10  # runs of equal widths that are listed
_WHY = {
    Cause.ARITHMETIC: "arithmetic, since plain passes of the same widths write the same",
    Cause.BUG: "A BUG, since plain passes of the same widths write something else: please report it",
}


def fork_words(fork: Fork | ForkRecord, plain: str, other: str, *, greedy: bool) -> str:
    """Return where a reply forks, and why.

    plain, other: the texts of both tokens. greedy: the two largest logits decide between them.
    """
    told = [
        f"forks at token {fork.position + 1}: plain writes {_shown(fork.plain_token, plain)}, "
        f"this mode {_shown(fork.other_token, other)}"
    ]
    if fork.gap is not None and greedy:
        told.append(f"the top two logits are {words.number(fork.gap)} apart there")
    if fork.moved is not None:
        told.append(f"these passes move logits by up to {words.number(fork.moved)}")
    runs = [f"{width} x{count}" if count > 1 else str(width) for width, count in _runs(fork.widths)]
    told.append(f"widths {', '.join(['...'] * (len(runs) > _MANY) + runs[-_MANY:])}")
    told.append(_WHY[Cause(fork.cause)])
    return "; ".join(told)


def _shown(token: int | None, text: str) -> str:
    """Return a token's text between backticks, on one line; None is the end of a reply."""
    return "nothing more" if token is None else f"`{words.on_one_line(text)}`"


def _runs(widths: Sequence[int]) -> list[tuple[int, int]]:
    """Return every width with the number of passes in a row that have it."""
    return [(width, len(list(run))) for width, run in groupby(widths)]
