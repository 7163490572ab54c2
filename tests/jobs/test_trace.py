"""A trace: every drafted token with what it was judged by, read off the rounds."""

from __future__ import annotations

import pytest
from fakes import GREEDY, MODES, FakeModel, run

from speclocal.decoding.acceptance import CoupledRule, RatioRule, accepts
from speclocal.decoding.types import Fate, Proposal, Round, Rule, SamplingParams, Verdict
from speclocal.jobs.reply import Reading, Writing
from speclocal.jobs.trace import DraftedToken, DraftFate, drafted_tokens, rounds_of

PROMPT = [0, 1, 0, 2, 0, 1]
WARM = SamplingParams(temperature=1.2)


def rounds(rule: Rule, params: SamplingParams = WARM, mode: str = "similar model") -> list[Round]:
    return list(run(FakeModel(), list(PROMPT), MODES[mode](4), rule, params, budget=40))


def test_the_threshold_decides_under_the_ratio_rule() -> None:
    """A token is accepted if its draw is below min(1, p/q); the one that is not is the last that is judged."""
    traced = [drafted_tokens(round_) for round_ in rounds(RatioRule(3))]
    fates = [drafted.fate for tokens in traced for drafted in tokens]
    assert set(fates) == set(DraftFate)
    for tokens in traced:
        judged = [drafted for drafted in tokens if drafted.fate is not DraftFate.UNTESTED]
        for drafted in judged:
            assert drafted.p is not None
            assert drafted.draw is not None
            assert drafted.threshold == pytest.approx(min(1, drafted.p / drafted.q))
            assert (drafted.fate is DraftFate.ACCEPTED) == (drafted.draw < drafted.threshold)
            assert accepts(drafted.p, drafted.q, drafted.draw) == (drafted.fate is DraftFate.ACCEPTED)
        assert all(drafted.fate is DraftFate.ACCEPTED for drafted in judged[:-1])


def test_the_choice_of_the_target_decides_under_the_coupled_rule() -> None:
    """There is no draw and no threshold: a token is accepted if it is what the target emits in any case."""
    traced = [drafted for round_ in rounds(CoupledRule(3)) for drafted in drafted_tokens(round_)]
    judged = [drafted for drafted in traced if drafted.fate is not DraftFate.UNTESTED]
    assert {drafted.fate for drafted in judged} == {DraftFate.ACCEPTED, DraftFate.REJECTED}
    for drafted in judged:
        assert (drafted.draw, drafted.threshold) == (None, None)
        assert (drafted.fate is DraftFate.ACCEPTED) == (drafted.emitted == drafted.token)


@pytest.mark.parametrize("mode", ["wild", "lookup of 1", "off"])
@pytest.mark.parametrize("params", [GREEDY, WARM], ids=["greedy", "warm"])
def test_a_trace_agrees_with_the_counts(mode: str, params: SamplingParams) -> None:
    """As many tokens are drafted, judged and accepted as the round says, each with the q of its proposal."""
    for round_ in rounds(RatioRule(1), params, mode):
        tokens = drafted_tokens(round_)
        assert [drafted.token for drafted in tokens] == list(round_.proposal.tokens)
        assert sum(drafted.fate is DraftFate.ACCEPTED for drafted in tokens) == round_.num_accepted
        assert sum(drafted.fate is not DraftFate.UNTESTED for drafted in tokens) == round_.num_tested
        assert [drafted.emitted for drafted in tokens[: round_.num_tested]] == round_.tokens[: round_.num_tested]


def test_tokens_after_the_end_of_a_reply_are_untested() -> None:
    """A reply that ends inside an accepted draft leaves the rest of the draft untested."""
    verdicts = (Verdict(7, Fate.ACCEPTED, 7, 1.0, 1.0, 0.5),)
    round_ = Round(10, "lookup", Proposal.copied([7, 8]), verdicts, 0.0, 0.0, 0.0, "eos")
    assert drafted_tokens(round_) == [
        DraftedToken(7, 1.0, DraftFate.ACCEPTED, 7, 1.0, 1.0, 0.5),
        DraftedToken(8, 1.0, DraftFate.UNTESTED),
    ]


def test_a_round_with_two_events_is_one_round() -> None:
    """Text that was held back for a stop string comes at the end, with the last round once more."""
    first, last = rounds(RatioRule(1))[:2]
    events = [Reading(5, 5), Writing((), first), Writing((), last), Writing((("rest", Fate.OWN),), last)]
    assert list(rounds_of(events)) == [first, last]
