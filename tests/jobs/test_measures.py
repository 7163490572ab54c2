"""What a comparison says, by numbers worked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from comparisons import comparison

from speclocal.jobs.comparison import Comparison
from speclocal.jobs.measures import advice, measures, overall, ratio
from speclocal.jobs.ratios import Standing, usual_drift

FAST = [0.50, 0.51, 0.49]
PLAIN = [1.00, 1.02, 0.98]
SLOW = [2.00, 2.04, 1.96]
NOISY = [0.90, 1.15, 0.97]


def one_task(**modes: list[float]) -> Comparison:
    return comparison({"chat-bread": {"off": PLAIN, **modes}})


def test_speeds_are_medians_and_their_reach() -> None:
    """8 tokens in 0.98, 1.00 and 1.02 s."""
    off, _ = measures(one_task(lookup=FAST))
    assert off.tokens_per_second.median == pytest.approx(8.0)
    assert (off.tokens_per_second.lowest, off.tokens_per_second.highest) == pytest.approx((8 / 1.02, 8 / 0.98))
    assert (off.speedup, off.drafted, off.acceptance_rate, off.predicted) == (None, 0, None, None)


def test_speedups_are_ratios_of_paired_runs() -> None:
    """Every pair is 2x though all runs differ: no scatter. What is left is the drift of the 4.5 s that all took."""
    lookup = measures(one_task(lookup=FAST))[1]
    assert lookup.speedup is not None
    assert lookup.speedup.value == pytest.approx(2.0)
    assert lookup.speedup.reach == pytest.approx(1.959964 * usual_drift(4.5))


def test_a_task_that_took_longer_is_surer_of_what_is_the_same() -> None:
    """Five minutes of runs see the drift come and go; the runs of other tasks do not help."""
    short, long = one_task(lookup=FAST), one_task(lookup=[100.0, 102.0, 98.0])
    both = comparison({"a": {"off": PLAIN, "lookup": FAST}, "b": {"off": PLAIN, "lookup": [200.0] * 3}})
    reaches = [ratio(each, "lookup", tasks=[each.tasks[0].name]).reach for each in (long, short, both)]  # type: ignore[union-attr]
    assert reaches[0] < reaches[1] == pytest.approx(reaches[2])  # type: ignore[operator]


def test_the_whole_request_gains_less() -> None:
    """The prompt's 0.5 s are the same in both: (1.0 + 0.5) / (0.5 + 0.5) = 1.5, 1.52 / 1.01, 1.48 / 0.99."""
    lookup = measures(one_task(lookup=FAST))[1]
    assert lookup.request_speedup is not None
    assert lookup.request_speedup.value == pytest.approx((1.5 * 1.52 / 1.01 * 1.48 / 0.99) ** (1 / 3))
    assert lookup.request_seconds == pytest.approx(1.0)


def test_counts_are_sums_and_rates_are_of_the_sums() -> None:
    """Three runs, each of 4 rounds and 8 tokens, with two drafts of 3 tokens: 5 judged, 4 kept."""
    lookup = measures(one_task(lookup=FAST))[1]
    assert (lookup.drafted, lookup.tested, lookup.accepted) == (18, 15, 12)
    assert lookup.acceptance_rate == pytest.approx(0.8)
    assert lookup.draft_utilisation == pytest.approx(12 / 18)
    assert lookup.tokens_per_round == pytest.approx(2.0)
    assert lookup.acceptance_at == pytest.approx((1.0, 0.5, 1.0))
    assert lookup.draft_seconds == pytest.approx(0.001)
    assert lookup.verify_seconds == pytest.approx(0.052)
    assert lookup.other_seconds == pytest.approx(0.5 - 0.053)


def test_predictions_are_the_formulas_over_what_was_drafted() -> None:
    """Two plain rounds and two drafts of 3 at alpha 0.8: 1 + 0.8 + 0.64 + 0.512 = 2.952 tokens each.

    In all 2 + 5.904 = 7.904 tokens. Textbook: 4 passes. Here a pass over 4 tokens costs 1.6: 2 + 3.2 = 5.2 passes.
    """
    lookup = measures(one_task(lookup=FAST))[1]
    assert lookup.predicted is not None
    assert lookup.predicted.textbook == pytest.approx(7.904 / 4)
    assert lookup.predicted.measured == pytest.approx(7.904 / 5.2)


def test_predictions_allow_for_the_context_of_the_task() -> None:
    """Plain passes of 15 ms for the 10 ms of the curve: 5 ms more for each row. Over 4 tokens: 16 + 20 = 36 ms.

    In passes over one token: 2 + 2 * 36 / 15 = 6.8. The textbook's do not change.
    """
    base = one_task(lookup=FAST)
    slower = tuple(
        replace(run, passes=tuple(replace(p, verify_seconds=0.015 * p.rounds) for p in run.passes))
        if run.mode == "off"
        else run
        for run in base.runs
    )
    lookup = measures(replace(base, runs=slower))[1]
    assert lookup.predicted is not None
    assert lookup.predicted.textbook == pytest.approx(7.904 / 4)
    assert lookup.predicted.measured == pytest.approx(7.904 / 6.8)


def test_steps_of_a_draft_model_cost_their_share() -> None:
    """The same drafts by a model whose step costs 0.2 of a pass: 6 steps are 1.2 passes more."""
    base = comparison({"chat-bread": {"off": PLAIN, "draft": SLOW}}, draft=True)
    runs = tuple(
        replace(run, passes=tuple(replace(p, drafter="draft") if p.drafted else p for p in run.passes))
        for run in base.runs
    )
    draft = measures(replace(base, runs=runs))[1]
    assert draft.predicted is not None
    assert draft.predicted.textbook == pytest.approx(7.904 / 5.2)
    assert draft.predicted.measured == pytest.approx(7.904 / 6.4)


def test_over_all_tasks_the_mean_is_geometric() -> None:
    """2x and 0.5x make 1x; the interval is over the repeats."""
    both = comparison({"a": {"off": PLAIN, "lookup": FAST}, "b": {"off": PLAIN, "lookup": SLOW}})
    (lookup,) = overall(both)
    assert lookup.speedup.value == pytest.approx(1.0)
    assert (lookup.lowest, lookup.highest) == pytest.approx((0.5, 2.0))
    assert lookup.speedup.num_pairs == 3


def test_a_task_that_was_cut_off_does_not_spoil_the_mean() -> None:
    """After a stop the second task has one pair: the mean is that of the first, with its interval."""
    cut = comparison({"a": {"off": PLAIN, "lookup": FAST}, "b": {"off": PLAIN[:1], "lookup": SLOW[:1]}})
    (lookup,) = overall(cut)
    assert lookup.speedup.value == pytest.approx(2.0)
    assert lookup.speedup.num_pairs == 3
    assert overall(comparison({"a": {"off": PLAIN}, "b": {"off": PLAIN}})) == []


def test_pairs_need_both_runs() -> None:
    """A repeat that was stopped before one of the two counts for nothing; a mode without a pair has no ratio."""
    cut = comparison({"a": {"off": PLAIN[:1], "lookup": FAST}})
    found = ratio(cut, "lookup")
    assert found is not None
    assert found.num_pairs == 1
    assert ratio(cut, "auto") is None


def test_advice_is_the_fastest_that_is_surely_faster() -> None:
    told = advice(one_task(lookup=FAST, draft=SLOW, auto=NOISY))
    assert (told.best, told.equals, told.hopes, told.avoid) == ("lookup", (), (), ("draft",))
    assert told.speedup is not None
    assert told.speedup.value == pytest.approx(2.0)


def test_modes_that_cannot_be_told_from_the_fastest_are_named() -> None:
    told = advice(one_task(lookup=FAST, auto=[0.51, 0.50, 0.50]))
    assert (told.best, told.equals) == ("lookup", ("auto",))
    assert advice(one_task(lookup=FAST, auto=[0.80, 0.81, 0.78])).equals == ()


def test_within_noise_is_no_reason_to_leave_plain_decoding() -> None:
    told = advice(one_task(auto=NOISY))
    assert (told.best, told.speedup, told.avoid) == ("off", None, ())


def several(**second: list[float]) -> Comparison:
    """One task on which a mode is 2x, and two on which nothing is certain, but for what is given."""
    return comparison(
        {
            "edit": {"off": PLAIN, "auto": FAST},
            "chat": {"off": PLAIN, "auto": NOISY, **second},
            "prose": {"off": PLAIN, "auto": [1.9, 0.6, 0.7]},
        }
    )


def test_over_all_tasks_a_mode_that_gains_and_loses_nothing_is_advised() -> None:
    told = advice(several())
    assert (told.best, told.gains, told.avoid) == ("auto", ("edit",), ())
    assert told.speedup is not None
    assert told.speedup.standing is Standing.WITHIN_NOISE
    assert advice(several(), ["chat", "prose"]).best == "off"


def test_a_gain_on_one_task_does_not_excuse_a_loss_on_another() -> None:
    told = advice(several(auto=[1.3, 1.326, 1.274]))
    assert (told.best, told.gains) == ("off", ())


def test_one_run_each_gives_hope_and_no_advice() -> None:
    told = advice(comparison({"a": {"off": [1.0], "lookup": [0.5], "draft": [2.0]}}))
    assert (told.best, told.hopes, told.doubts, told.avoid) == ("off", ("lookup",), ("draft",), ())


def test_the_text_is_the_same_only_if_every_reply_is() -> None:
    same = one_task(lookup=FAST)
    assert [each.same_text for each in measures(same)] == [True, True]
    other = replace(same.runs[-1], token_ids=(5, 6, 7, 9, 5, 6, 7, 8))
    forked = measures(replace(same, runs=(*same.runs[:-1], other)))[1]
    assert forked.same_text is False
    assert forked.fork is not None
    assert forked.fork.position == 3
    warm = replace(same.conditions, params=replace(same.conditions.params, temperature=1.0))
    assert [each.same_text for each in measures(replace(same, conditions=warm))] == [None, None]


def test_nothing_measured_says_nothing() -> None:
    nothing = replace(one_task(lookup=FAST), runs=(), replies=(), complete=False)
    assert (measures(nothing), overall(nothing), advice(nothing).best) == ([], [], "off")


def test_a_slow_mode_stands_below_1() -> None:
    found = ratio(one_task(draft=SLOW), "draft")
    assert found is not None
    assert found.standing is Standing.BELOW
