"""Comparisons of modes over tiny models: fair by construction, and everything recorded."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest
import tiny

from speclocal.decoding.types import SamplingParams
from speclocal.errors import ContextError, UsageError
from speclocal.jobs.compare import Comparing, rotated
from speclocal.jobs.comparison import Comparison, from_json, to_json
from speclocal.jobs.drafting import Planners
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.jobs.starts import Start
from speclocal.jobs.tasks import Task, built_in_tasks
from speclocal.jobs.wanted import Wanted, parse_modes, parse_tasks
from speclocal.llama.formats import Layout
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

ONE_THREAD = Placement(threads=1)
TASKS = (
    Task("rhyme", "chat", "the cat sat on the mat and the cat sat on the hat"),
    Task("list", "extraction", "one two three one two three one two"),
)


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    tiny.write_llama(folder / "target.gguf")
    tiny.write_llama(folder / "draft.gguf", noise=0.05)
    tiny.write_sliding_window(folder / "window.gguf")
    tiny.write_llama(folder / "short.gguf", context=64)
    return folder


def session(folder: Path, target: str = "target.gguf", draft: str | None = "draft.gguf") -> Session:
    return Session(ModelFile(target, folder / target), ModelFile(draft, folder / draft) if draft else None, ONE_THREAD)


def compared(opened: Session, wanted: Wanted) -> Comparison:
    comparing = Comparing(opened, wanted)
    for _ in comparing:
        pass
    return comparing.so_far


@pytest.fixture(scope="module")
def four(folder: Path) -> Comparison:
    """The four modes over two tasks, three times."""
    with session(folder) as opened:
        return compared(opened, Wanted(parse_modes("off,lookup,draft,auto"), TASKS, max_tokens=24))


def test_every_mode_runs_on_every_task_as_often(four: Comparison) -> None:
    assert four.complete
    assert len(four.runs) == 2 * 4 * 3
    assert [task.name for task in four.tasks] == ["rhyme", "list"]
    for task in four.tasks:
        for mode in four.modes:
            assert [run.repeat for run in four.runs_of(task.name, mode)] == [0, 1, 2]


def test_runs_are_interleaved_in_rotating_order(four: Comparison) -> None:
    """All modes once, then all again, beginning with the next one; another task begins with another one too."""
    assert [run.place for run in four.runs] == list(range(24))
    orders = [tuple(run.mode for run in four.runs[start : start + 4]) for start in range(0, 24, 4)]
    assert orders == [
        ("off", "lookup", "draft", "auto"),
        ("lookup", "draft", "auto", "off"),
        ("draft", "auto", "off", "lookup"),
        ("lookup", "draft", "auto", "off"),
        ("draft", "auto", "off", "lookup"),
        ("auto", "off", "lookup", "draft"),
    ]
    assert rotated("abc", 4) == ["b", "c", "a"]


def test_every_run_begins_in_the_same_state(four: Comparison) -> None:
    """All greedy replies to a prompt are the same, whatever ran before, and so are all runs of a mode but in time."""
    for task in four.tasks:
        replies = {run.token_ids for run in four.runs if run.task == task.name}
        assert len(replies) == 1
        for mode in ("off", "lookup", "draft"):
            shapes = {
                tuple((each.drafter, each.drafted, each.rounds, each.accepted) for each in run.passes)
                for run in four.runs_of(task.name, mode)
            }
            assert len(shapes) == 1
    assert four.forks == ()


def test_caches_hold_the_prompt_and_planners_nothing_when_a_run_begins(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warm-ups included: the target has the prompt but its last token, so has the draft model where it alone drafts."""
    begun = []
    reply = Session.reply

    def watched(self: Session, prompt: list[int], settings: ReplySettings, *, afresh: bool = False) -> Reply:
        assert self.target is not None
        assert self.draft is not None
        begun.append((settings.mode, prompt, list(self.target.cached), list(self.draft.cached), afresh))
        return reply(self, prompt, settings, afresh=afresh)

    monkeypatch.setattr(Session, "reply", watched)
    with session(folder) as opened:
        compared(opened, Wanted(parse_modes("off,lookup,draft,auto"), TASKS, max_tokens=12, repeats=2))
    assert len(begun) == 2 * 4 * 3
    for mode, prompt, in_target, in_draft, afresh in begun:
        assert in_target == prompt[:-1]
        assert in_draft == (prompt[:-1] if mode is Mode.DRAFT else [])
        assert afresh


def test_a_planner_that_begins_afresh_is_another_one(folder: Path) -> None:
    """Mode `auto` keeps its planner over replies, unless it shall begin as in a first one."""
    with session(folder) as opened:
        opened.open_context(64, ReplySettings())
        assert opened.target is not None
        planners = Planners(opened.target, opened.draft, lambda name, share: None, [])
        kept = planners.planner(ReplySettings())
        assert planners.planner(ReplySettings()) is kept
        assert planners.planner(ReplySettings(), afresh=True) is not kept
        assert planners.planner(ReplySettings()) is kept


def test_what_a_run_records_adds_up(four: Comparison) -> None:
    """Tokens, rounds and acceptance by position are those of the passes; parts of the time are parts of it."""
    for run in four.runs:
        assert sum(each.emitted for each in run.passes) == run.num_tokens == 24
        assert sum(each.tested for each in run.passes) == sum(run.tested_at)
        assert sum(each.accepted for each in run.passes) == sum(run.accepted_at)
        assert all(kept <= judged for kept, judged in zip(run.accepted_at, run.tested_at, strict=False))
        assert sum(each.draft_seconds + each.verify_seconds for each in run.passes) <= run.decode_seconds
    assert all(run.tested_at == () for run in four.runs if run.mode == "off")
    assert any(run.accepted_at for run in four.runs if run.mode == "draft")


def test_the_draft_models_prompt_counts_for_the_request_alone(four: Comparison) -> None:
    """The whole request of mode `draft` holds the prompt twice, that of other modes once, and decoding never."""
    for task in four.tasks:
        assert task.draft_prompt_seconds is not None
        for run in (run for run in four.runs if run.task == task.name):
            prompt_seconds = task.prompt_seconds + (task.draft_prompt_seconds if run.mode == "draft" else 0)
            assert run.request_seconds == pytest.approx(prompt_seconds + run.decode_seconds)


def test_one_reply_of_every_task_and_mode_is_kept_round_by_round(four: Comparison) -> None:
    assert len(four.replies) == 8
    for reply in four.replies:
        run = four.runs_of(reply.task, reply.mode)[0]
        assert sum(each.emitted for each in reply.rounds) == run.num_tokens
        assert sum(each.accepted for each in reply.rounds) == sum(run.accepted_at)
        positions = [each.position for each in reply.rounds]
        assert positions[0] == 0
        assert positions[1:] == [each.position + each.emitted for each in reply.rounds[:-1]]
        assert reply.text


def test_the_circumstances_are_recorded(four: Comparison, folder: Path) -> None:
    """Machine, versions, and models by their hash: enough to repeat it; and all of it survives JSON."""
    assert four.machine.cpu
    assert four.machine.memory_bytes > 0
    assert four.versions.llama_cpp_python
    assert (four.target.name, four.target.size_bytes) == ("target.gguf", (folder / "target.gguf").stat().st_size)
    assert len(four.target.sha256) == 64
    assert four.draft is not None
    assert four.draft.sha256 != four.target.sha256
    assert four.conditions.threads == 1
    assert from_json(json.loads(json.dumps(to_json([four])))) == (four,)


def test_time_for_showing_progress_is_not_decode_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that takes an hour after every event makes no reply slower; time left counts it all the same."""
    with session(folder) as opened:
        comparing = Comparing(opened, Wanted(parse_modes("lookup"), TASKS[:1], max_tokens=12, repeats=1))
        away = 0.0
        clock = time.perf_counter
        monkeypatch.setattr("time.perf_counter", lambda: clock() + away)
        lefts = []
        for progress in comparing:
            away += 3600
            lefts.append(progress.seconds_left)
    assert all(run.decode_seconds < 60 for run in comparing.so_far.runs)
    assert all(task.prompt_seconds < 60 for task in comparing.so_far.tasks)
    assert lefts[0] is None
    assert lefts[-2] is not None
    assert lefts[-2] > 100


def test_the_share_that_is_done_only_grows(folder: Path) -> None:
    with session(folder, draft=None) as opened:
        comparing = Comparing(opened, Wanted(parse_modes("lookup:3"), TASKS, max_tokens=10, repeats=2))
        shares = [progress.share for progress in comparing]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == pytest.approx(1)


def test_a_comparison_that_is_stopped_holds_what_was_finished(folder: Path) -> None:
    """Whole runs stay, the one that was cut off is gone, and the comparison says that it is not complete."""
    with session(folder) as opened:
        comparing = Comparing(opened, Wanted(parse_modes("off,lookup"), TASKS, max_tokens=8))
        for progress in comparing:
            if progress.share > 0.3:
                break
    so_far = comparing.so_far
    assert not so_far.complete
    assert [task.name for task in so_far.tasks] == ["rhyme"]
    assert len(so_far.runs) == 3


def test_seeded_sampling_gives_every_mode_the_same_text_and_every_repeat_another(folder: Path) -> None:
    wanted = Wanted(
        parse_modes("off,lookup,draft,auto"), TASKS[:1], SamplingParams(temperature=1.0), 16, repeats=2, seed=2**63 - 1
    )
    with session(folder) as opened:
        found = compared(opened, wanted)
    assert [run.seed for run in found.runs_of("rhyme", "draft")] == [2**63 - 1, 0]
    first, second = ({run.token_ids for run in found.runs if run.repeat == repeat} for repeat in (0, 1))
    assert len(first) == len(second) == 1
    assert first != second
    assert found.conditions.texts_comparable


def test_without_a_seed_texts_are_not_compared(folder: Path) -> None:
    wanted = Wanted(parse_modes("lookup"), TASKS[:1], SamplingParams(temperature=2.0, top_k=0, top_p=1), 16, repeats=1)
    with session(folder) as opened:
        found = compared(opened, wanted)
    assert len({run.token_ids for run in found.runs}) == 2
    assert not found.conditions.texts_comparable
    assert found.forks == ()


def test_a_sliding_window_is_rolled_back_and_not_restored(folder: Path) -> None:
    """Replies longer than the window are the same in every run of every mode."""
    with session(folder, "window.gguf", None) as opened:
        found = compared(opened, Wanted(parse_modes("lookup,auto"), TASKS, max_tokens=48, repeats=2))
    for task in found.tasks:
        assert len({run.token_ids for run in found.runs if run.task == task.name}) == 1


def test_a_prompt_that_was_read_in_another_layout_is_restored(folder: Path) -> None:
    """Whatever is written after the prompt, the next run finds the prompt, and computes the same."""
    weights = [Weights(folder / "target.gguf", ONE_THREAD.in_layout(layout), "target") for layout in Layout]
    model = TwoLayouts(*(LlamaModel(each, 512) for each in weights))
    tokens = [5 + i % 40 for i in range(200)]
    start = Start(model, tokens)
    assert list(start.process())[-1] == 200
    replies = []
    for token in (7, 9):
        start.restore()
        assert list(model.cached) == tokens
        replies.append(model.forward([5], 1).copy())
        model.forward([token] * 3, 3)
    assert np.array_equal(*replies)
    for owner in (model, *weights):
        owner.close()


def test_a_wrong_rule_is_recorded_as_a_fork_that_is_a_bug(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft mode that changes the text is found out: where, by which tokens, and that arithmetic is not to blame."""
    from speclocal.decoding.acceptance import RatioRule
    from speclocal.decoding.types import Fate, Verdict

    monkeypatch.setattr(
        RatioRule, "judge", lambda self, p, q, drafted, position: Verdict(drafted, Fate.ACCEPTED, drafted=drafted)
    )
    with session(folder, draft=None) as opened:
        found = compared(opened, Wanted(parse_modes("lookup:4"), TASKS[:1], max_tokens=48, repeats=2))
    (fork,) = found.forks
    plain, other = found.runs_of("rhyme", "off")[0].token_ids, found.runs_of("rhyme", "lookup:4")[0].token_ids
    assert plain[: fork.position] == other[: fork.position]
    assert (plain[fork.position], other[fork.position]) == (fork.plain_token, fork.other_token)
    assert (fork.mode, fork.repeat, fork.cause) == ("lookup:4", 0, "bug")


def test_modes_that_cannot_run_are_left_out_or_an_error(folder: Path) -> None:
    """By default a note, where they were asked for an error; with nothing left to compare always an error."""
    modes = parse_modes("off,lookup,draft,auto")
    with session(folder, draft=None) as opened:
        found = compared(opened, Wanted(modes, TASKS[:1], max_tokens=4, repeats=1, may_skip_modes=True))
        assert opened.notes == ["`draft` is left out: no draft model"]
    assert found.modes == ("off", "lookup", "auto")
    with session(folder, draft=None) as opened, pytest.raises(UsageError, match="mode `draft` cannot run"):
        Comparing(opened, Wanted(modes, TASKS[:1], max_tokens=4))
    with session(folder, draft=None) as opened, pytest.raises(UsageError, match="nothing to compare"):
        Comparing(opened, Wanted(parse_modes("off,draft"), TASKS[:1], max_tokens=4, may_skip_modes=True))


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "llama"])
def test_every_mode_runs_whatever_the_cache(kind: str, tmp_path: Path) -> None:
    """Modes of models whose cache cannot drop tokens are compared like others, and nothing forks."""
    tiny.KINDS[kind](tmp_path / "target.gguf", seed=7)
    tiny.KINDS[kind](tmp_path / "draft.gguf", seed=7, noise=0.2)
    with session(tmp_path) as opened:
        found = compared(opened, Wanted(parse_modes("off,lookup,draft,auto"), TASKS[:1], max_tokens=24, repeats=2))
        assert opened.notes == []
    assert len({run.token_ids for run in found.runs}) == 1
    drafts = [each for run in found.runs_of(TASKS[0].name, "draft") for each in run.passes]
    assert 0 < sum(each.accepted for each in drafts) < sum(each.drafted * each.rounds for each in drafts)
    assert found.forks == ()


def test_tasks_that_do_not_fit_are_left_out_or_an_error(folder: Path) -> None:
    short, long = Task("short", "chat", "hi"), Task("long", "chat", "far too long " * 20)
    with session(folder, "short.gguf", None) as opened:
        wanted = Wanted(parse_modes("lookup"), (long, short), max_tokens=4, repeats=1, raw=True, may_skip_tasks=True)
        found = compared(opened, wanted)
        assert [task.name for task in found.tasks] == ["short"]
        assert opened.notes[0].startswith("`long` is left out: ")
    for skip, tasks in ((False, (long, short)), (True, (long,))):
        wanted = Wanted(parse_modes("lookup"), tasks, max_tokens=4, raw=True, may_skip_tasks=skip)
        with session(folder, "short.gguf", None) as opened, pytest.raises(ContextError):
            Comparing(opened, wanted)


def test_a_draft_model_too_short_for_the_prompt_reads_it_while_decoding(folder: Path) -> None:
    """It cannot hold the prompt, so no state of it is kept; the replies are the same all the same."""
    task = Task("long", "chat", "one two three " * 30)
    with session(folder, draft="short.gguf") as opened:
        found = compared(opened, Wanted(parse_modes("draft"), (task,), max_tokens=8, repeats=2))
    assert found.tasks[0].draft_prompt_seconds is None
    assert len({run.token_ids for run in found.runs}) == 1


def test_lists_of_modes_always_hold_plain_decoding() -> None:
    assert [mode.name for mode in parse_modes("lookup:10, auto,lookup:10")] == ["off", "lookup:10", "auto"]
    assert [mode.name for mode in parse_modes("auto,off")] == ["auto", "off"]
    for text in ("", "off", ",off,"):
        with pytest.raises(UsageError, match="nothing to compare"):
            parse_modes(text)


def test_tasks_are_named_by_their_names_and_kinds() -> None:
    assert [task.kind for task in parse_tasks("prose, code edit,chat-bread")] == ["chat", "code edit", "prose"]
    assert parse_tasks(",".join(task.kind for task in built_in_tasks())) == built_in_tasks()
    for text in ("poem", " , ", "chat,poem"):
        with pytest.raises(UsageError):
            parse_tasks(text)
