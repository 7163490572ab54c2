"""What the tour measures, and the figures that follow from it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tiny

from speclocal.decoding.theory import acceptance_rate
from speclocal.decoding.types import Distribution
from speclocal.errors import UsageError
from speclocal.jobs.explain import NUM_DRAWS, explain, simulate
from speclocal.jobs.explanation import Explanation, Given, ShownRound
from speclocal.jobs.session import ModelFile, Session
from speclocal.jobs.trace import DraftedToken, DraftFate
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.vocab import Vocab
from speclocal.terminal.sheets import Grid
from speclocal.terminal.tour_judging import verifying

REPEATS = "the cat sat on the mat, the cat sat on the mat, the cat sat on the mat"


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny.write_llama(folder / "target")
    tiny.write_llama(folder / "draft", noise=0.3)
    tiny.write_llama(folder / "short", noise=0.3, context=64)
    tiny.write_llama(folder / "padded", tiny.bpe().padded(400))
    tiny.write_recurrent(folder / "recurrent")
    return folder


def explained(folder: Path, target: str, draft: str | None = None, given: Given | None = None) -> Explanation:
    """Return the tour of small models."""
    drafting = ModelFile(draft, folder / draft) if draft else None
    with Session(ModelFile(target, folder / target), drafting, Placement(1)) as session:
        return explain(session, REPEATS, lambda name, share: None, given or Given())


@pytest.fixture(scope="module")
def pair(folder: Path, module_cache: None) -> Explanation:
    return explained(folder, "target", "draft")


def test_a_pair_is_measured_as_it_is(pair: Explanation) -> None:
    """Bytes, numbers and times are those of the two models; the draft model drafts."""
    assert pair.draft is not None
    assert (pair.target.name, pair.draft.name, pair.drafts.drafter) == ("target", "draft", "draft")
    assert pair.target.weight_bytes > pair.target.num_weights > 0
    assert pair.cost_ratio == pair.draft.token_seconds / pair.target.token_seconds
    assert pair.alpha == pair.drafts.accepted / pair.drafts.tested
    assert pair.simulation.guesser == "draft"


def test_the_round_that_is_shown_is_a_real_one(pair: Explanation) -> None:
    """Accepted tokens come first, at most one is rejected, none after it is tested, and the rule's arithmetic holds."""
    shown = pair.drafts.shown
    assert shown is not None
    fates = [each.fate for each in shown.drafted]
    num_each = [fates.count(fate) for fate in DraftFate]
    assert fates == [fate for fate, num in zip(DraftFate, num_each, strict=True) for _ in range(num)]
    num_accepted, num_rejected, _ = num_each
    assert shown.num_emitted == num_accepted + 1
    assert shown.corrected == (num_rejected == 1)
    for each in shown.drafted[: num_accepted + num_rejected]:
        assert each.p is not None
        assert each.draw is not None
        assert (each.fate is DraftFate.ACCEPTED) == (each.draw * each.q < each.p)


def test_a_reply_that_ends_within_a_draft_has_no_token_of_the_targets_own(pair: Explanation) -> None:
    """Two accepted tokens, the second of which ends the reply: nothing is added, and the page says so."""
    drafted = (*(DraftedToken(token, 1.0, DraftFate.ACCEPTED, token, 1.0, 1.0, 0.3) for token in (5, 2)),)
    untested = DraftedToken(7, 1.0, DraftFate.UNTESTED)
    shown = ShownRound((*drafted, untested), ("a", "</s>", "b"), None, corrected=False, num_emitted=2)
    sheet = verifying(replace(pair, drafts=replace(pair.drafts, shown=shown)))
    grid = next(part for part in sheet.parts if isinstance(part, Grid))
    assert [row[1].text for row in grid.rows] == ["a", "</s>", "b"]
    assert any("The reply ends with the last of them" in part for part in sheet.parts if isinstance(part, str))
    assert not any("one token more" in part for part in sheet.parts if isinstance(part, str))


def test_without_a_draft_model_the_text_drafts_and_the_model_guesses_for_itself(folder: Path) -> None:
    """Prompt lookup drafts; p and q of the simulation are one model's, with and without most of the text."""
    found = explained(folder, "target")
    assert found.drafts.drafter == "lookup"
    assert found.drafts.drafted > 0
    assert found.cost_ratio == pytest.approx(
        found.drafts.draft_seconds / found.drafts.drafted / found.target.token_seconds
    )
    assert "target itself" in found.simulation.guesser
    assert not np.array_equal(found.simulation.p, found.simulation.q)


@pytest.mark.parametrize(("target", "draft"), [("target", "short"), ("padded", "draft"), ("target", "padded")])
def test_pairs_that_do_not_quite_match_are_explained_too(folder: Path, target: str, draft: str) -> None:
    """A draft model with a shorter context, and vocabularies padded to other sizes."""
    found = explained(folder, target, draft)
    assert found.drafts.drafter == "draft"
    assert found.simulation.p.sum() == pytest.approx(1)
    assert found.simulation.q.sum() == pytest.approx(1)


def test_a_recurrent_model_has_a_tour(folder: Path) -> None:
    """Its cache goes back by checkpoints, so drafts are tried on it as on any other."""
    found = explained(folder, "recurrent")
    assert found.simulation.p.sum() == pytest.approx(1)


def test_a_model_that_cannot_go_back_has_no_tour(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is ever drafted for it: it is refused before anything is measured."""
    monkeypatch.setattr(LlamaModel, "_probe_checkpoints", lambda self: False)
    with pytest.raises(UsageError, match="can neither drop tokens nor be copied"):
        explained(folder, "recurrent")


def test_where_nothing_was_drafted_acceptance_is_the_textbooks(pair: Explanation) -> None:
    """The tour goes on with the usual 0.7, and drafts that cost nothing."""
    nothing = replace(pair, draft=None, drafts=replace(pair.drafts, drafted=0, tested=0, accepted=0, shown=None))
    assert (nothing.alpha, nothing.cost_ratio) == (0.7, 0)


def test_the_simulated_output_follows_p(pair: Explanation) -> None:
    """At a real position the shares of 4,000 draws are within five standard deviations of p: one false alarm in 10^6
    for each token, were the draws not the same in every run."""
    seen = pair.simulation
    assert seen.counts.sum() == seen.num_draws == NUM_DRAWS
    deviation = np.sqrt(seen.p * (1 - seen.p) / seen.num_draws)
    assert (np.abs(seen.output - seen.p) <= 5 * deviation).all()
    assert seen.num_accepted / seen.num_draws == pytest.approx(seen.acceptance, abs=5 * 0.5 / NUM_DRAWS**0.5)


def test_a_rule_that_takes_drafts_unseen_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap of the exact rule is within chance; with every draft accepted it is that of q, far outside."""

    class Letters(Vocab):
        def __init__(self) -> None:
            self.piece = lambda token: b"abc"[token : token + 1]

    p = Distribution(np.arange(3), np.array([0.3, 0.5, 0.2]))
    q = Distribution(np.arange(3), np.array([0.6, 0.3, 0.1]))
    exact = simulate(p, q, Letters(), "", "q")
    assert exact.texts == ("b", "a", "c")
    assert exact.largest_gap <= 3 * exact.gap_deviation < exact.gap_of_q == pytest.approx(0.3)
    assert exact.acceptance == pytest.approx(acceptance_rate(p, q)) == pytest.approx(0.7)
    monkeypatch.setattr("speclocal.decoding.acceptance.accepts", lambda p, q, u: True)
    unseen = simulate(p, q, Letters(), "", "q")
    assert unseen.largest_gap > 30 * unseen.gap_deviation


def test_figures_follow_what_is_given(pair: Explanation) -> None:
    """The textbook's example comes out of any model; bandwidth moves the ceiling, tokens the cache."""

    def given(**values: float) -> Explanation:
        return replace(pair, given=Given(**values))  # type: ignore[arg-type]

    book = given(alpha=0.7, gamma=4, cost_ratio=0.1)
    assert book.textbook(book.gamma).speedup == pytest.approx(1.981, abs=0.0005)
    assert book.measured(4).round_cost == pytest.approx(0.4 + pair.target.verify_ratio(5))
    assert given(bandwidth=2e9).ceiling == pytest.approx(2e9 / pair.target.weight_bytes)
    assert given(bandwidth=2e9).busy_width == pytest.approx(2 * given(bandwidth=4e9).busy_width)
    longer = given(tokens=1000)
    assert longer.context_bytes == pytest.approx(pair.target.kv_bytes * (pair.prompt_tokens + 1000))
    assert given(batch=8).batch == 8


def test_a_batch_shares_passes(pair: Explanation) -> None:
    """One reply at once is no batch; of more, passes are relative to one over as many tokens."""
    assert pair.in_batch(1) == pair.measured(pair.gamma)
    four, ratio = pair.in_batch(4), pair.target.verify_ratio
    assert pair.draft is not None
    assert four.verify_ratio == pytest.approx(ratio(4 * (pair.gamma + 1)) / ratio(4))
    assert four.cost_ratio == pytest.approx(pair.cost_ratio * pair.draft.verify_ratio(4) / ratio(4))


def test_all_of_it_can_be_read_by_programs(pair: Explanation) -> None:
    """Plain values with the names of the figures, and no number that JSON does not know."""
    plain = json.loads(json.dumps(pair.plain_values(), allow_nan=False))
    assert plain["figures"]["alpha"] == pair.alpha
    assert sum(plain["simulation"]["counts"]) == NUM_DRAWS
