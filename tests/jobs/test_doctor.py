"""What `doctor` finds out: from the files of tiny models, and from a trial of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny

from speclocal.errors import DamagedModelError, ModelError
from speclocal.jobs import trial
from speclocal.jobs.doctor import Candidate, Examination, ranked, read_files
from speclocal.jobs.forecast import DRAFT_LENGTHS, LOOKUP_LENGTHS
from speclocal.jobs.modes import Mode
from speclocal.jobs.session import ModelFile
from speclocal.jobs.tasks import Task
from speclocal.jobs.trial import Trial
from speclocal.llama.formats import KvType
from speclocal.llama.placement import Placement

NUM_TOKENS = 24
TASKS = (
    Task("short", "chat", "the cat and the tree"),
    Task("repeating", "code edit", "def the return the def the return the " * 4),
)
FILES: dict[str, Callable[[Path], Path]] = {
    "target": tiny.write_llama,
    "draft": lambda path: tiny.write_llama(path, noise=0.05),
    "poor": lambda path: tiny.write_llama(path, seed=5),
    "padded": lambda path: tiny.write_llama(path, tiny.bpe().padded(400)),
    "more": lambda path: tiny.write_llama(path, tiny.bpe(user_defined=("<tool>", "<call>"))),
    "stranger": lambda path: tiny.write_llama(path, tiny.bpe().replaced(17, "zzz")),
    "kind": lambda path: tiny.write_llama(path, tiny.spm()),
    "base": lambda path: tiny.write_llama(path, dataclasses.replace(tiny.bpe(), eos=0)),
    "recurrent": tiny.write_recurrent,
    "short": lambda path: tiny.write_llama(path, context=20),
    "bare": lambda path: tiny.write_llama(path, tiny.bpe(chat_template=None)),
    "wrong": lambda path: tiny.write_llama(path, tiny.bpe(chat_template="{{ raise_exception('no users here') }}")),
    "cut": lambda path: tiny.cut_off(path, tiny.write_llama(path.with_suffix(".whole"))),
}

Give = Callable[[str], ModelFile]


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture(scope="module")
def give(tmp_path_factory: pytest.TempPathFactory) -> Give:
    """Return a model of FILES."""
    folder = tmp_path_factory.mktemp("models")

    def find(name: str) -> ModelFile:
        path = folder / f"{name}.gguf"
        return ModelFile(name, path if path.exists() else FILES[name](path))

    return find


@pytest.fixture
def examine(give: Give, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Examination]:
    """Examine a target and drafts by their files, and with `tried` on two short tasks."""
    monkeypatch.setattr(trial, "built_in_tasks", lambda: TASKS)

    def examined(
        target: str, *drafts: str, tried: bool = False, progress: list[tuple[str, str]] | None = None
    ) -> Examination:
        found = read_files(give(target), [give(draft) for draft in drafts], KvType.F16, NUM_TOKENS)
        if not tried:
            return found
        said = [] if progress is None else progress
        return Trial(
            Placement(1), Placement(1), None, lambda name, share: None, lambda name, task: said.append((name, task))
        ).run(found)

    return examined


Examine = Callable[..., Examination]


def test_a_file_says_what_it_is(examine: Examine, give: Give) -> None:
    """Architecture, quantization, sizes, context and template stand in the header; the KV cache follows from it."""
    facts = examine("target").facts
    assert (facts.name, facts.architecture, facts.trained_context) == ("target", "llama", 4096)
    assert facts.file_bytes == give("target").path.stat().st_size
    assert facts.context_token_bytes == 2 * tiny.LAYERS * tiny.KV_HEADS * tiny.HEAD_WIDTH * 2.0
    assert facts.state_bytes == 0
    assert facts.memory_bytes(100) == facts.file_bytes + 100 * facts.context_token_bytes
    assert (facts.has_chat_template, facts.chat_template_problem) == (True, "")


def test_the_usual_context_is_no_longer_than_trained(examine: Examine) -> None:
    assert examine("target").facts.usual_context == 4096
    assert examine("short").facts.usual_context == 20


def test_chat_templates_are_tried(examine: Examine) -> None:
    """A model without a template is told from one whose template refuses a plain question."""
    bare, wrong = examine("bare").facts, examine("wrong").facts
    assert (bare.has_chat_template, bare.chat_template_problem) == (False, "")
    assert wrong.has_chat_template
    assert "no users here" in wrong.chat_template_problem


def test_a_template_that_refuses_is_left_out_of_the_trial(examine: Examine) -> None:
    """The tasks are then continued as they stand."""
    found = examine("wrong", tried=True)
    assert found.alone
    assert [task.num_prompt_tokens for task in found.alone.tasks] < [
        task.num_prompt_tokens
        for task in examine("target", tried=True).alone.tasks  # type: ignore[union-attr]
    ]


def test_a_damaged_target_is_an_error(examine: Examine) -> None:
    with pytest.raises(DamagedModelError):
        examine("cut")


@pytest.mark.parametrize("draft", ["draft", "padded", "more", "base"])
def test_almost_the_same_vocabulary_fits(draft: str, examine: Examine) -> None:
    """Noise, padding, added tokens and another end of replies are no obstacles, in either direction."""
    for pair in (("target", draft), (draft, "target")):
        candidate = examine(*pair).candidates[0]
        assert candidate.obstacle == ""
        assert candidate.vocabulary
        assert candidate.vocabulary.fits


@pytest.mark.parametrize(
    ("draft", "obstacle"),
    [
        ("stranger", f"token 17 is `{tiny.bpe().tokens[17]}` in the target and `zzz` in the draft"),
        ("kind", "the vocabulary is byte-level BPE in the target and SentencePiece in the draft"),
    ],
)
def test_another_vocabulary_is_told(draft: str, obstacle: str, examine: Examine) -> None:
    """What cannot draft is told with its reason and never tried; the target is tried alone."""
    found = examine("target", draft, tried=True)
    assert found.candidates[0].obstacle == obstacle
    assert found.candidates[0].forecast is None
    assert found.best is None
    assert found.alone


def test_a_broken_candidate_does_not_stop_the_others(examine: Examine) -> None:
    """A ranking goes on over a file that cannot be read."""
    found = examine("target", "cut", "draft", tried=True)
    best, broken = found.candidates
    assert (best.name, broken.name) == ("draft", "cut")
    assert best.forecast
    assert "damaged" in broken.obstacle


def test_a_trial_foretells_every_mode(examine: Examine) -> None:
    """For each task: plain decoding at 1, every draft length, auto with and without the draft model."""
    progress: list[tuple[str, str]] = []
    found = examine("target", "draft", tried=True, progress=progress)
    assert progress == [(model, task.name) for model in ("target", "draft") for task in TASKS]
    assert found.measured
    assert found.measured.can_rollback
    assert found.measured.exact
    assert found.alone
    assert found.best
    assert found.best.forecast
    for alone, task in zip(found.alone.tasks, found.best.forecast.tasks, strict=True):
        assert task.kind == alone.kind
        assert 0 < task.num_tokens <= NUM_TOKENS
        assert task.plain.speedup == 1
        assert [outcome.num_draft_tokens for outcome in task.lookups] == list(LOOKUP_LENGTHS)
        assert [outcome.num_draft_tokens for outcome in task.drafts] == list(DRAFT_LENGTHS)
        assert task.auto
        assert task.draft
        assert task.lookup.name == "lookup:8"
        assert task.draft.name == "draft:4"
        assert task.agreement is not None
        assert 0 <= task.agreement <= 1
        assert task.cost_ratio
        assert task.cost_ratio > 0
        assert [outcome.mode for outcome in task.outcomes][:: len(task.outcomes) - 1] == [Mode.OFF, Mode.AUTO]
        assert not alone.drafts
        assert alone.agreement is None
    assert found.best.forecast.best_draft_length in DRAFT_LENGTHS
    assert found.alone.best_draft_length is None


def test_a_model_agrees_with_itself(examine: Examine) -> None:
    """The target as its own draft model guesses every token, at the cost of a pass of its own."""
    found = examine("target", "target", tried=True)
    assert found.best
    assert found.best.forecast
    assert all(task.agreement == 1 for task in found.best.forecast.tasks)
    assert all(task.draft and task.draft.acceptance_rate == 1 for task in found.best.forecast.tasks)


def test_a_poor_draft_model_agrees_less(examine: Examine) -> None:
    """Another model of the same vocabulary guesses fewer tokens than one that is nearly the target."""
    found = examine("target", "poor", "draft", tried=True)
    agreement = {
        each.name: [task.agreement for task in each.forecast.tasks] for each in found.candidates if each.forecast
    }
    assert all(
        a is not None and b is not None and a < b for a, b in zip(agreement["poor"], agreement["draft"], strict=True)
    )


def test_tasks_beyond_the_training_are_left_out(examine: Examine) -> None:
    """Where no task fits nothing is tried, and each is named."""
    found = examine("short", tried=True)
    assert (found.measured, found.alone) == (None, None)
    assert [note.split("`")[1] for note in found.notes] == [task.name for task in TASKS]


def test_a_target_that_lacks_nothing_drafts_past_added_tokens(examine: Examine) -> None:
    """A target with tokens that the draft model lacks is tried: the draft model is never fed one of them."""
    found = examine("more", "target", tried=True)
    assert found.best
    assert found.best.vocabulary
    assert found.best.vocabulary.num_added == (2, 0)


def candidate(name: str, speedup: float | None) -> Candidate:
    """Return a candidate with nothing but a name and a predicted speedup."""

    class Told:
        def __init__(self, value: float) -> None:
            self.speedup = value

    return Candidate(name, forecast=None if speedup is None else Told(speedup))  # type: ignore[arg-type]


def test_the_fastest_comes_first() -> None:
    """Candidates are ranked by what auto would do with them; those that cannot draft come last."""
    names = [found.name for found in ranked([candidate("no", None), candidate("slow", 0.9), candidate("fast", 1.4)])]
    assert names == ["fast", "slow", "no"]


def test_a_recurrent_draft_model_is_tried(examine: Examine) -> None:
    """Its state can be copied, so it drafts like any other."""
    found = examine("target", "recurrent", tried=True)
    assert found.best
    assert found.best.name == "recurrent"


def test_a_draft_model_that_cannot_be_loaded_is_told(
    examine: Examine, give: Give, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails while a candidate is opened becomes its obstacle, with llama.cpp's reason."""

    def fail(self: object, draft: ModelFile) -> None:
        raise ModelError("cannot load `draft`: no memory", "")

    monkeypatch.setattr(trial.Session, "draft_with", fail)
    found = examine("target", "draft", tried=True)
    assert found.candidates[0].obstacle == "cannot load `draft`: no memory"
    assert found.best is None
