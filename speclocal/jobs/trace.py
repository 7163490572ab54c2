"""What became of every drafted token of a round, and why.

Knows finished rounds; nothing is judged here again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from speclocal.decoding.types import Fate, Round, Verdict
from speclocal.jobs.reply import Reading, Writing


class DraftFate(StrEnum):
    """What became of a drafted token."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNTESTED = "untested"  # it stood after a rejected token, or after the end of the reply


@dataclass(frozen=True)
class DraftedToken:
    """A drafted token, and what it was judged by; None where that did not come about.

    threshold: min(1, p/q) under the ratio rule, which keeps the token if `draw` is below. The coupled rule has neither:
    it keeps the token if it is the target's own choice, which is what is emitted in any case.
    """

    token: int
    q: float
    fate: DraftFate
    emitted: int | None = None  # in its place
    p: float | None = None
    threshold: float | None = None
    draw: float | None = None


def drafted_tokens(round_: Round) -> list[DraftedToken]:
    """Return what became of the draft, token by token."""
    proposal = round_.proposal
    verdicts: Iterable[Verdict | None] = round_.verdicts[: round_.num_tested]
    found = []
    for token, q, verdict in zip_longest(proposal.tokens, proposal.distributions, verdicts):
        prob = q.prob(token)
        if verdict is None:
            found.append(DraftedToken(token, prob, DraftFate.UNTESTED))
            continue
        fate = DraftFate.ACCEPTED if verdict.fate is Fate.ACCEPTED else DraftFate.REJECTED
        threshold = None
        if verdict.draw is not None and verdict.p is not None:
            threshold = min(1.0, verdict.p / prob) if prob else 1.0
        found.append(DraftedToken(token, prob, fate, verdict.token, verdict.p, threshold, verdict.draw))
    return found


def rounds_of(events: Iterable[Reading | Writing]) -> Iterator[Round]:
    """Yield every round of a reply once; text that was held back to the end comes in an event of its own."""
    last = None
    for event in events:
        if isinstance(event, Writing) and event.round is not last:
            last = event.round
            yield last
