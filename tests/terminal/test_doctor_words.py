"""What `doctor` concludes, in sentences, from examinations made up for each case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speclocal.decoding.costs import Exactness, Speeds
from speclocal.jobs.doctor import Candidate, Examination, Facts, Measured
from speclocal.jobs.forecast import DRAFT_LENGTHS, LOOKUP_LENGTHS, Forecast, Outcome, TaskForecast
from speclocal.jobs.modes import Mode
from speclocal.llama.grants import Cores
from speclocal.llama.vocab import Difference, VocabularyComparison
from speclocal.terminal.doctor_tables import models_table, ranking_table
from speclocal.terminal.doctor_words import threads, verdict

SIZE = 1_000_000_000
BIG = Facts("big", Path("big.gguf"), "qwen2", "Q4_K_M", SIZE, 32768, 1000.0, 0, True, "")
SMALL = replace(BIG, name="small", file_bytes=SIZE // 2)
MEASURED = Measured(True, Speeds(0.01, 0.05), (Exactness(141, (1, 2, 3)), Exactness(524, (1,))))
SAME = VocabularyComparison(
    ("byte-level BPE", "byte-level BPE"), (100, 100), 0, None, (0, 0), ((), ()), ("", ""), ("e", "e")
)
MEMORY = "`big` and `small` take 1.51 GB with a context of 4,096, and 20.0 GB are free"


def outcome(mode: Mode, size: int | None, speedup: float) -> Outcome:
    return Outcome(mode, size, 4.0 / speedup, speedup, 0.8, 2.0)


def task(kind: str, auto: float, alone: float, drafts: dict[int, float], usual: float = 0.5) -> TaskForecast:
    """Return a task in which every draft length of mode `draft` has the `usual` speed but for `drafts`."""
    return TaskForecast(
        task=f"a-{kind}",
        kind=kind,
        num_prompt_tokens=50,
        num_tokens=100,
        plain=outcome(Mode.OFF, None, 1.0),
        lookups=tuple(outcome(Mode.LOOKUP, size, 0.7) for size in LOOKUP_LENGTHS),
        auto_alone=outcome(Mode.AUTO, None, alone),
        drafts=tuple(outcome(Mode.DRAFT, size, drafts.get(size, usual)) for size in DRAFT_LENGTHS),
        auto=outcome(Mode.AUTO, None, auto),
        agreement=0.75,
        cost_ratio=0.25,
    )


def examined(*tasks: TaskForecast, **changes: object) -> Examination:
    small = Candidate("small", SMALL, SAME, MEASURED, Forecast(tasks))
    alone = Forecast(tuple(replace(each, drafts=(), auto=None, agreement=None, cost_ratio=None) for each in tasks))
    found = Examination(BIG, 128, 20 * SIZE, MEASURED, alone, (small,))
    return replace(found, **changes)  # type: ignore[arg-type]


EDIT = task("code edit", 1.6, 1.2, {2: 1.3, 4: 1.1})
CHAT = task("chat", 1.0, 1.0, {4: 0.47})
PROSE = task("prose", 1.01, 1.0, {1: 1.05, 4: 0.9})


def test_a_draft_model_that_helps_some_tasks_is_advised_for_them() -> None:
    """What it is good for, what it would slow down, the best lengths, and why."""
    assert verdict(examined(EDIT, CHAT, PROSE)) == [
        "use `--draft small` for code edits (1.60x plain, 1.20x without it)",
        "for chat and prose `--mode draft` would slow you down (0.47x, 0.90x); mode `auto` leaves it alone there",
        "best draft length of `--mode draft`: 2 for code edits (1.30x), 1 for prose (1.05x)",
        "why: a step of `small` costs 0.250 of a pass of `big`, and of the tokens it guesses 75% in code edits, "
        "75% in chat and 75% in prose",
        MEMORY,
    ]


def test_a_draft_model_that_helps_nothing_is_left_out() -> None:
    """The memory it would take is named; where auto itself would lose it is not said to leave the model alone."""
    slow = replace(CHAT, auto=outcome(Mode.AUTO, None, 0.8))
    sentences = verdict(examined(slow))
    assert sentences[:4] == [
        "leave out `--draft small`: mode `auto` gains nothing from it here, and 504 MB of memory are saved",
        "in mode `auto` it would cost speed for chat (0.80x plain, 1.00x without it)",
        "for chat `--mode draft` would slow you down (0.47x)",
        "no draft length makes `--mode draft` faster than plain decoding here",
    ]


def test_a_target_alone_is_told_what_lookup_gains() -> None:
    assert verdict(examined(EDIT, CHAT, PROSE, candidates=())) == [
        "mode `auto` makes it faster by prompt lookup: code edits 1.20x",
        "without a draft model nothing is gained for chat and prose: decoding is plain there",
        "`big` takes 1.00 GB with a context of 4,096, and 20.0 GB are free",
    ]


def test_vocabularies_that_differ_are_refused_with_the_way_out() -> None:
    """The sentence has the reason, and points to lookup; then what the target does alone."""
    obstacle = "token 17 is `the` in the target and ` the` in the draft"
    differing = replace(SAME, num_differing=1, first_difference=Difference(17, "the", " the"))
    stranger = Candidate("small", SMALL, differing, obstacle=obstacle)
    sentences = verdict(examined(EDIT, candidates=(stranger,)))
    assert sentences[0] == (
        "`small` cannot draft for `big`: token 17 is `the` in the target and ` the` in the draft; "
        "leave out `--draft` to draft by prompt lookup, which works with every model"
    )
    assert sentences[1].startswith("mode `auto` makes it faster by prompt lookup")


def test_files_alone_do_not_tell_whether_drafting_pays() -> None:
    quick = examined(EDIT, measured=None, alone=None, candidates=(Candidate("small", SMALL, SAME),))
    assert verdict(quick)[0] == (
        "the vocabulary of `small` fits; without `--quick` you learn whether drafting pays here"
    )
    assert verdict(replace(quick, notes=("`a` is left out",)))[0] == (
        "the vocabulary of `small` fits, but no task does: what drafting gains is not known"
    )


def test_a_cache_that_cannot_drop_tokens_decodes_plainly() -> None:
    plain = examined(EDIT, measured=replace(MEASURED, can_rollback=False), alone=None, candidates=())
    assert verdict(plain)[0] == "`big` decodes plainly: its cache can neither drop tokens nor be copied"


def test_too_little_memory_is_told() -> None:
    assert verdict(examined(EDIT, free_bytes=SIZE))[-1] == (
        "`big` and `small` take 1.51 GB with a context of 4,096, and 1.00 GB are free: too little; "
        "choose a smaller model or quantization"
    )


@pytest.mark.parametrize(
    ("cores", "said"),
    [
        (Cores(8, 8, 8, False, float("inf")), "8: 8 physical cores in this process's reach"),
        (
            Cores(16, 16, 8, False, float("inf")),
            "8: 8 physical cores in this process's reach; a second thread on a core does not help, so not 16",
        ),
        (
            Cores(16, 2, 1, False, float("inf")),
            "1: 1 physical core in this process's reach; its affinity mask has 2 of 16 hardware threads",
        ),
        (
            Cores(20, 20, 8, True, float("inf")),
            "8: 8 physical cores in this process's reach; "
            "slower cores are left out, since every pass waits for the slowest thread",
        ),
        (Cores(8, 8, 8, False, 2.5), "2: 8 physical cores in this process's reach; a CPU quota of 2.50"),
    ],
)
def test_threads_are_explained(cores: Cores, said: str) -> None:
    assert threads(cores) == said


def cells(table: object, row: str) -> list[str]:
    """Return the cells of a row after its name."""
    columns = [[str(each) for each in column.cells] for column in table.columns]  # type: ignore[attr-defined]
    index = columns[0].index(row)
    return [column[index] for column in columns[1:]]


@pytest.mark.parametrize(
    ("exact", "said"),
    [
        ((Exactness(141, (1, 2, 3, 5)), Exactness(524, (1, 2, 3, 5))), "1 to 3, 5"),
        ((Exactness(141, (1, 2, 3)), Exactness(524, (1,))), "1 to 3 up to 141 tokens; 1 beyond"),
        ((Exactness(141, (1, 2, 4)),), "1, 2, 4"),
    ],
)
def test_exact_widths_are_told_in_short(exact: tuple[Exactness, ...], said: str) -> None:
    found = examined(EDIT, measured=replace(MEASURED, exact=exact), candidates=())
    assert cells(models_table(found), "exact widths") == [said]


def test_a_ranking_names_the_best_first_and_those_that_cannot_last() -> None:
    found = examined(EDIT, CHAT)
    refused = Candidate("other", SMALL, SAME, obstacle="its cache can neither drop tokens nor be copied")
    table = ranking_table((*found.candidates, refused))
    assert cells(table, "1")[0] == "small"
    assert cells(table, "1")[4] == "1.26x"  # the geometric mean of 1.6 and 1.0
    assert cells(table, "-") == ["other", "cannot draft", *[""] * 5]
