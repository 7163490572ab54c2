"""What `verify` says: forks are told with their cause, and only what must hold decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speclocal.errors import ModelError
from speclocal.jobs.cache_checks import BitCheck
from speclocal.jobs.findings import BitsPart, BrokenOff, ComparedReply, DistributionPart, Part, Sampled, TextPart
from speclocal.jobs.forks import Cause, Fork
from speclocal.jobs.goodness import Fit
from speclocal.jobs.modes import Mode
from speclocal.terminal.verify_words import conclusion, parts_json, sentences

FORK = Fork(16, 0, 1, 0.0312, 0.12, (1, 9, 2), Cause.ARITHMETIC)
BUG = replace(FORK, cause=Cause.BUG)
GOOD, BAD = Fit(4000, 12, 0.4, 0.01, 0.01), Fit(4000, 12, 1e-30, 0.1, 0.01)


class Words:
    """A vocabulary of two tokens, one of which would clear a screen."""

    def shown(self, token: int) -> str:
        return (" river\n", "\x1b[2J")[token]


VOCAB: Words = Words()


def texts(fork: Fork | None, *, strict: bool = False) -> TextPart:
    replies = (ComparedReply("chat", Mode.LOOKUP, 32, 5, None), ComparedReply("chat", Mode.AUTO, 30, 7, fork))
    return TextPart("greedy", strict, replies)


def samples(*fits: Fit, wrong: tuple[Fit, ...] = ()) -> DistributionPart:
    def sampled(test: Fit) -> Sampled:
        return Sampled("chat", 3, "`small`", 0.5, GOOD, test)

    caught = {"a mistake": tuple(map(sampled, wrong))} if wrong else {}
    return DistributionPart(tuple(map(sampled, fits)), caught, limit=1e-7)


@pytest.mark.parametrize(
    ("part", "holds"),
    [
        (texts(None), True),
        (texts(FORK), True),
        (texts(FORK, strict=True), False),
        (texts(BUG), False),
        (texts(None, strict=True), True),
        (samples(GOOD, GOOD), True),
        (samples(GOOD, BAD), False),
        (samples(GOOD, wrong=(GOOD, BAD)), True),
        (samples(GOOD, wrong=(GOOD, GOOD)), False),
        (BitsPart("cache", (BitCheck("again", True, 0.0),)), True),
        (BitsPart("cache", (BitCheck("again", True, 0.0), BitCheck("dropped", False, 0.5))), False),
        (BrokenOff("cache", ModelError("a pass failed")), False),
    ],
)
def test_a_part_holds_or_does_not(part: Part, holds: bool) -> None:
    """Forks by arithmetic fail only where widths are exact; a wrong rule that is not caught fails, too."""
    heading, *told = sentences(1, part, VOCAB)  # type: ignore[arg-type]
    assert part.holds is holds
    assert heading.endswith(": holds" if holds else ": DOES NOT HOLD")
    assert told
    assert parts_json([part], VOCAB)[0]["holds"] is holds  # type: ignore[arg-type]


def test_the_replies_of_a_mode_are_counted() -> None:
    """Per mode: how many replies are the same, and how many of their tokens were drafted; then the forks."""
    _, lookup, auto, fork = sentences(1, texts(FORK), VOCAB)  # type: ignore[arg-type]
    assert lookup == "  lookup: 1 of 1 replies the same; 5 of their 32 tokens were drafted"
    assert auto == "  auto: 0 of 1 replies the same; 7 of their 30 tokens were drafted"
    assert fork.startswith("  auto, chat: forks at token 17: ")


def test_the_conclusion_names_what_failed() -> None:
    """All is well, or well but for arithmetic, or not: then which parts."""
    good: list[Part] = [texts(None), samples(GOOD)]
    assert conclusion(good) == "exact here: all parts hold, and no reply differs from plain decoding"
    assert conclusion([texts(FORK), *good]) == "exact here, but for 1 fork by arithmetic; `--strict` avoids them"
    assert conclusion([*good, samples(BAD)]) == "NOT exact here: 3 (distribution)"
    assert conclusion([texts(BUG), *good]) == "NOT exact here: 1 (greedy)"


def test_json_tells_the_texts_of_a_fork() -> None:
    """Programs get the cause by name, and the tokens with their texts."""
    (value,) = parts_json([texts(FORK)], VOCAB)  # type: ignore[arg-type]
    fork = value["replies"][1]["fork"]
    assert (fork["cause"], fork["plain_text"], fork["other_text"]) == ("arithmetic", " river\n", "\x1b[2J")
    assert fork["widths"] == (1, 9, 2)
