"""Acceptance by evidence: begins with the priors, and follows what happens."""

from __future__ import annotations

import pytest

from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.estimates import AcceptanceEstimate, DraftAcceptance, LookupAcceptance


def match(length: int, followed: int = 1, seen: int = 1) -> Match:
    return Match(length=length, end=0, num_followed=followed, num_seen=seen)


def test_estimates_begin_with_the_prior_and_end_with_the_facts() -> None:
    """No trial: the prior. Many trials: their share. One kind teaches nothing about another."""
    estimate = AcceptanceEstimate([0.2, 0.9], weight=4)
    assert [estimate.rate(0), estimate.rate(1)] == [0.2, 0.9]
    estimate.observe(0, True)
    assert estimate.rate(0) == pytest.approx((4 * 0.2 + 1) / 5)
    for _ in range(300):
        estimate.observe(0, True)
    assert estimate.rate(0) > 0.9
    assert estimate.rate(1) == 0.9


def test_estimates_forget() -> None:
    """A kind that was good and turned bad is found bad within a hundred trials."""
    estimate = AcceptanceEstimate([0.5], weight=4)
    for outcome in [True] * 500 + [False] * 100:
        estimate.observe(0, outcome)
    assert estimate.rate(0) < 0.2


def test_longer_matches_promise_more() -> None:
    """Before anything is learned, the rate grows with the length of the match and along the copy."""
    estimate = LookupAcceptance()
    assert estimate.rate(match(2), 0) < estimate.rate(match(5), 0) < estimate.rate(match(20), 0)
    assert estimate.rate(match(5), 0) <= estimate.rate(match(5), 3) <= estimate.rate(match(5), 30)


def test_a_disputed_continuation_promises_less() -> None:
    """Where the same tokens went on otherwise before, the first token is less certain; the ones after it are not."""
    estimate = LookupAcceptance()
    assert estimate.rate(match(5, followed=2, seen=4), 0) < estimate.rate(match(5, followed=4, seen=4), 0)
    assert estimate.rate(match(5, followed=2, seen=4), 1) == estimate.rate(match(5, followed=4, seen=4), 1)


def test_a_copy_is_judged_up_to_its_first_error() -> None:
    """Two right tokens and a wrong one are three outcomes, at lengths 3, 4 and 5; what follows says nothing."""
    estimate, fresh = LookupAcceptance(), LookupAcceptance()
    estimate.observe(match(3), copied=[7, 8, 9, 5, 5], emitted=[7, 8, 0, 5, 5])
    shift = estimate.rate(match(6), 0) - fresh.rate(match(6), 0)  # shared by kinds that saw nothing
    changes = [estimate.rate(match(3), index) - fresh.rate(match(3), index) for index in range(3)]
    assert changes[0] > max(0, shift)
    assert changes[1] > max(0, shift)
    assert changes[2] < min(0, shift)


def test_surprises_shift_all_rates() -> None:
    """Where copies keep failing, kinds of evidence that were not met yet are trusted less as well."""
    estimate, fresh = LookupAcceptance(), LookupAcceptance()
    for _ in range(40):
        estimate.observe(match(2), copied=[1], emitted=[2])
    assert estimate.rate(match(20), 0) < fresh.rate(match(20), 0)


def test_draft_acceptance_by_confidence() -> None:
    """The surer the draft model, the likelier its tokens; what typically happens follows all outcomes."""
    estimate = DraftAcceptance()
    assert estimate.rate(0.1) < estimate.rate(0.55) < estimate.rate(0.97)
    before = estimate.typical
    for _ in range(20):
        estimate.observe(0.55, False)
    assert estimate.rate(0.55) < 0.3
    assert estimate.rate(0.97) == DraftAcceptance().rate(0.97)
    assert estimate.typical < before
