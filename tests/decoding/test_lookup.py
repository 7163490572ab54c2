"""Prompt lookup: copies from the text so far, from nothing else."""

import numpy as np
import pytest
from fakes import GREEDY, FakeModel, run

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.types import NeverStop, Proposal

RULE = RatioRule(0)


def propose(drafter: LookupDrafter, tokens: list[int], size: int) -> Proposal:
    return drafter.propose(tokens, size, GREEDY, RULE, NeverStop())


def fresh(tokens: list[int], size: int = 5, min_match: int = 2) -> Proposal:
    """Return what a drafter proposes that has seen nothing but `tokens`."""
    drafter = LookupDrafter(min_match)
    drafter.begin(tokens)
    return propose(drafter, tokens, size)


def same(one: Proposal, other: Proposal) -> bool:
    return one.tokens == other.tokens and len(one.distributions) == len(other.distributions)


@pytest.mark.parametrize(
    ("tokens", "min_match", "size", "copied"),
    [
        ([1, 2, 3, 4, 1, 2], 2, 2, (3, 4)),
        ([1, 2, 3, 4, 1, 2], 2, 6, (3, 4, 1, 2, 3, 4)),
        ([1, 2, 3, 4, 1, 2], 3, 2, ()),
        ([1, 2, 3, 4, 9, 2], 2, 2, ()),
        ([1, 2, 3, 4, 9, 2], 1, 2, (3, 4)),
        ([8, 8, 8], 2, 4, (8, 8, 8, 8)),
        ([1, 2, 3], 1, 4, ()),
        ([1], 1, 4, ()),
        ([1, 2, 1, 2], 2, 0, ()),
    ],
)
def test_copies_what_followed_the_match(tokens: list[int], min_match: int, size: int, copied: tuple[int, ...]) -> None:
    """A long enough match is continued for exactly `size` tokens; a shorter one gives no draft."""
    assert fresh(tokens, size, min_match).tokens == copied


def test_copied_tokens_are_certain() -> None:
    """Each copied token has a one-hot q: it was not drawn from anything wider."""
    proposal = fresh([1, 2, 3, 1, 2])
    assert [q.ids.tolist() for q in proposal.distributions] == [[token] for token in proposal.tokens]
    assert all(q.probs.tolist() == [1] for q in proposal.distributions)


def test_drafts_depend_on_the_text_so_far_only() -> None:
    """Growing a text one or several tokens at a time proposes what a new drafter proposes: nothing of the future."""
    text = np.random.default_rng(1).integers(3, size=80).tolist()
    for step in (1, 3):
        drafter = LookupDrafter()
        drafter.begin(text[:1])
        for end in range(1, len(text), step):
            assert same(propose(drafter, text[:end], 5), fresh(text[:end]))


@pytest.mark.parametrize(
    "second",
    [
        [1, 2, 3, 4],
        [1, 2, 3, 4, 1, 2],
        [1, 2, 3, 4, 1, 2, 3, 4, 1],
        [1, 2, 9, 4, 1, 2],
        [4, 1, 2, 4, 1],
        [2, 3, 4, 1, 2, 3, 4, 1, 2],
        [7],
    ],
)
def test_text_may_be_cut_or_replaced_between_replies(second: list[int]) -> None:
    """After `begin`, nothing of a text that was taken back is ever copied."""
    drafter = LookupDrafter(1)
    first = [1, 2, 3, 4, 1, 2, 3, 4]
    drafter.begin(first)
    propose(drafter, first, 5)
    drafter.begin(second)
    assert same(propose(drafter, second, 5), fresh(second, min_match=1))
    assert same(propose(drafter, [*second, *first], 5), fresh([*second, *first], min_match=1))


def test_evidence_of_a_match_is_on_offer() -> None:
    """A planner can ask how long the match is and how often it recurred, without a draft."""
    drafter = LookupDrafter()
    drafter.begin([1, 2, 3, 1, 2])
    match = drafter.match([1, 2, 3, 1, 2])
    assert match is not None
    assert (match.length, match.num_followed, match.num_seen) == (2, 1, 1)
    assert drafter.match([1, 2, 3, 1, 2, 9]) is None


def test_repetition_is_accepted() -> None:
    """A text that runs in circles is drafted by lookup and kept: fewer rounds than tokens."""
    rounds = list(run(FakeModel(), [0, 1], FixedPlanner(LookupDrafter(), 4), RULE, budget=40))
    assert sum(len(round_.tokens) for round_ in rounds) == 40
    assert sum(round_.num_accepted for round_ in rounds) > 20


def test_a_copy_with_a_change_goes_on_in_the_same_place() -> None:
    """Of several places where the last token stands, the one after the interrupted copy is taken and called near."""
    source = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    elsewhere = [6, 30, 6, 30, 6, 30]  # more frequent, but not where the text was copied from
    drafter = LookupDrafter(min_match=1)
    text = [*source, *elsewhere, 1, 2, 3, 4, 99, 6]  # copied up to 4, then 99 instead of 5
    match = drafter.match(text)
    assert match is not None
    assert match.near
    assert drafter.copy(match, 3) == [7, 8, 9]


def test_a_clear_match_needs_no_nearness() -> None:
    """A long undisputed match is taken wherever it stands, and is where the next copy is expected to go on."""
    drafter = LookupDrafter(min_match=1)
    match = drafter.match([1, 2, 3, 4, 5, 6, 40, 41, 42, 43, 44, 45, 1, 2, 3, 40, 41, 42, 43])
    assert match is not None
    assert match.length == 4
    assert drafter.copy(match, 2) == [44, 45]


def test_the_place_is_forgotten_when_the_text_changes() -> None:
    """After `begin` with another text nothing of the old one is near."""
    drafter = LookupDrafter(min_match=1)
    drafter.match([1, 2, 3, 4, 5, 6, 1, 2, 3, 4])
    drafter.begin([7, 8, 7])
    match = drafter.match([7, 8, 7])
    assert match is not None
    assert not match.near
