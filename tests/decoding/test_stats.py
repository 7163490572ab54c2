"""Counting: every number means what the table in the design says."""

import pytest
from fakes import GREEDY, MODES, FakeModel, run

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.loop import decode, reading
from speclocal.decoding.stats import Stats
from speclocal.decoding.types import Distribution, Fate, Proposal, Round, Verdict


def make_round(drafted: int, accepted: int, drafter: str = "lookup", cut: bool = False) -> Round:
    """Return a round that drafted and accepted so many tokens; `cut` ends it inside the accepted part."""
    verdicts = [Verdict(7, Fate.ACCEPTED, 7, 1.0, 1.0)] * accepted
    if not cut:
        verdicts.append(Verdict(8, Fate.CORRECTION, 7, 0.0, 1.0) if accepted < drafted else Verdict(8, Fate.OWN))
    proposal = Proposal((7,) * drafted, (Distribution.one_hot(7),) * drafted)
    return Round(0, drafter, proposal, tuple(verdicts), draft_seconds=0.25, verify_seconds=0.5, seconds=1.0)


def test_counts_by_hand() -> None:
    """A rejection after 2 of 4, at once of 2, a draft of 3 kept whole, one cut after 1 of 5, and a plain round."""
    stats = Stats()
    for round_ in (make_round(4, 2), make_round(2, 0), make_round(3, 3), make_round(5, 1, cut=True), make_round(0, 0)):
        stats.add(round_)
    stats.decode_seconds = 5.0
    assert (stats.rounds, stats.tokens, stats.drafted, stats.tested, stats.accepted) == (5, 10, 14, 8, 6)
    assert stats.acceptance_rate == pytest.approx(6 / 8)
    assert stats.draft_utilisation == pytest.approx(6 / 14)
    assert stats.tokens_per_round == pytest.approx(10 / 5)
    assert stats.tokens_per_second == pytest.approx(10 / 5)
    assert (stats.draft_seconds, stats.verify_seconds, stats.other_seconds) == (1.25, 2.5, 1.25)
    assert stats.rounds_by_drafter == {"lookup": 4, "off": 1}


def test_nothing_counted_has_no_rate() -> None:
    """A rate of nothing is None, not zero and not an error."""
    stats = Stats()
    assert stats.tokens_per_second is None
    assert stats.acceptance_rate is None
    assert stats.draft_utilisation is None
    assert stats.tokens_per_round is None
    assert stats.other_seconds == 0


@pytest.mark.parametrize("mode", MODES)
def test_counts_agree_with_the_text(mode: str) -> None:
    """Tokens are those of the reply; at most one of the tested is not accepted in a round."""
    tokens, stats = [0, 1], Stats()
    for round_ in run(FakeModel(), tokens, MODES[mode](4), RatioRule(2)):
        stats.add(round_)
        assert round_.num_tested - round_.num_accepted in (0, 1)
    assert stats.tokens == len(tokens) - 2 == 12
    assert stats.accepted <= stats.tested <= stats.drafted
    assert stats.accepted + stats.rounds == stats.tokens
    assert sum(stats.rounds_by_drafter.values()) == stats.rounds


def test_times_of_a_round_are_parts_of_its_whole() -> None:
    """Drafting lasts to the pass, the pass to its logits; with a clock that counts its readings: 1, 1 and 3."""
    readings = iter(range(100))
    target = FakeModel()
    list(reading(target, [0]))
    rounds = decode(target, [0, 1], MODES["itself"](2), RatioRule(1), GREEDY, budget=4, clock=lambda: next(readings))
    for round_ in rounds:
        assert (round_.draft_seconds, round_.verify_seconds, round_.seconds) == (1, 1, 3)
