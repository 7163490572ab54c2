"""What `verify` says: forks are told with their cause, and only what must hold decides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speclocal.decoding.costs import Calibration, Exactness
from speclocal.errors import ModelError
from speclocal.jobs.cache_checks import BitCheck
from speclocal.jobs.findings import BitsPart, BrokenOff, Check, ComparedReply, DistributionPart, Part, Sampled, TextPart
from speclocal.jobs.forks import Cause, Fork
from speclocal.jobs.goodness import Fit
from speclocal.terminal.verify_words import conclusion, parts_json, sentences

FORK = Fork(16, 0, 1, 0.0312, 0.12, (1, 9, 2), Cause.ARITHMETIC)
BUG = replace(FORK, cause=Cause.BUG)
CERTAIN = Fit(4000, 1, 1.0, 0.0, 0.0)
GOOD, BAD = Fit(4000, 12, 0.4, 0.01, 0.01), Fit(4000, 12, 1e-30, 0.1, 0.01)


class Words:
    """A vocabulary of two tokens, one of which would clear a screen."""

    def shown(self, token: int) -> str:
        return (" river\n", "\x1b[2J")[token]


VOCAB: Words = Words()


def texts(fork: Fork | None, *, strict: bool = False) -> TextPart:
    replies = (ComparedReply("chat", "lookup", 32, 6, 5, None), ComparedReply("chat", "erring", 30, 9, 7, fork))
    return TextPart(Check.GREEDY, strict, replies)


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
        (BitsPart(Check.CACHE, (BitCheck("again", True, 0.0),)), True),
        (BitsPart(Check.CACHE, (BitCheck("again", True, 0.0), BitCheck("dropped", False, 0.5))), False),
        (BrokenOff(Check.CACHE, ModelError("a pass failed")), False),
    ],
)
def test_a_part_holds_or_does_not(part: Part, holds: bool) -> None:
    """Forks by arithmetic fail only where widths are exact."""
    heading, *told = sentences(1, part, VOCAB)  # type: ignore[arg-type]
    assert part.holds is holds
    assert heading.endswith(": holds" if holds else ": DOES NOT HOLD")
    assert told
    assert parts_json([part], VOCAB)[0]["holds"] is holds  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "part",
    [
        TextPart(Check.GREEDY, False, (ComparedReply("chat", "lookup", 32, 0, 0, None),)),
        samples(CERTAIN),
        samples(GOOD, wrong=(GOOD, GOOD)),
    ],
    ids=["no drafts", "one outcome", "wrong rules that are not caught"],
)
def test_a_part_that_tested_nothing_says_so(part: Part) -> None:
    """It does not fail, but what it would have shown is not claimed."""
    heading, *told = sentences(1, part, VOCAB)  # type: ignore[arg-type]
    assert (part.holds, part.tested) == (True, False)
    assert heading.endswith(": NOT TESTED")
    assert any("`-n`" in line or "`--temperature`" in line for line in told)
    assert "as far as it was tested" in conclusion([part])


def test_exactness_that_ends_with_the_context_is_said_to() -> None:
    """The conclusion speaks of replies as long as these where longer contexts have fewer exact widths."""

    def widths(deep: tuple[int, ...]) -> Part:
        exact = (Exactness(40, (1, 2, 3)), Exactness(524, deep))
        return BitsPart(Check.WIDTHS, (), Calibration({1: 0.01}, 0.001, exact))

    assert "at 524 tokens of context fewer widths" in conclusion([texts(None), widths((1,))])
    assert "524" not in conclusion([texts(None), widths((1, 2, 3))])


def test_the_replies_of_a_mode_are_counted() -> None:
    """Per mode: how many replies are the same, and how many of their tokens were drafted; then the forks."""
    _, lookup, erring, fork = sentences(1, texts(FORK), VOCAB)  # type: ignore[arg-type]
    assert lookup == "  lookup: 1 of 1 replies the same; 5 of their 32 tokens were drafted, 1 draft rejected"
    assert erring == (
        "  erring (plain decoding's tokens as drafts, every third of them wrong): 0 of 1 replies the same; 7 of their "
        "30 tokens were drafted, 2 drafts rejected"
    )
    assert fork.startswith("  erring, chat: forks at token 17: ")


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
