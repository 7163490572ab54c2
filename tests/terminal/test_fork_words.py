"""What is said of a fork: position, both tokens, gap, difference, widths and cause."""

from __future__ import annotations

from dataclasses import replace

from comparisons import comparison

from speclocal.jobs.forks import Cause, Fork
from speclocal.terminal.fork_words import fork_words

FORK = Fork(16, 0, 1, 0.0312, 0.12, (1, 9, 2), Cause.ARITHMETIC)


def test_a_fork_by_arithmetic_is_explained() -> None:
    """Texts of tokens are shown, not obeyed."""
    assert fork_words(FORK, " river\n", "\x1b[2J", greedy=True) == (
        "forks at token 17: plain writes ` river\u240a`, this mode `\u241b[2J`; "
        "the top two logits are 0.0312 apart there; "
        "these passes move logits by up to 0.120; widths 1, 9, 2; "
        "arithmetic, since plain passes of the same widths write the same"
    )


def test_a_fork_by_a_bug_is_called_one() -> None:
    """With a seed the gap of the logits does not decide, and is not told; of many runs of widths the last ones are."""
    fork = replace(FORK, cause=Cause.BUG, other_token=None, widths=(*range(1, 21), 1, 1, 1), moved=None)
    assert fork_words(fork, " river\n", "", greedy=False) == (
        "forks at token 17: plain writes ` river\u240a`, this mode nothing more; "
        "widths ..., 12, 13, 14, 15, 16, 17, 18, 19, 20, 1 x3; "
        "A BUG, since plain passes of the same widths write something else: please report it"
    )


def test_a_recorded_fork_reads_alike() -> None:
    (record,) = comparison({"chat-bread": {"off": [1.0], "lookup": [0.5]}}).forks
    fork = Fork(3, 8, 9, record.gap, record.moved, record.widths, Cause.ARITHMETIC)
    assert fork_words(record, " a", " b", greedy=True) == fork_words(fork, " a", " b", greedy=True)
