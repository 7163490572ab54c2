"""Texts of any length: how they are divided, read in rounds, taken up again, and not read twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import tiny

from speclocal.errors import ContextError
from speclocal.jobs.modes import Mode, Style
from speclocal.jobs.notes import Note, keep_note, kept_note
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.requests import Request
from speclocal.jobs.session import ModelFile, Session
from speclocal.jobs.store import NOTES, PROMPTS
from speclocal.jobs.summarize import PartProgress, Plan, Summarizer, joined
from speclocal.llama.formats import KvType
from speclocal.llama.placement import Placement
from speclocal.text.documents import Document

PLACEMENT = Placement(1, kv_type=KvType.BF16)  # the same bits in whatever passes a prompt is read
PLAIN = ReplySettings(mode=Mode.OFF, max_tokens=12)
SHORT = " the cat and the tree." * 60
LONG = "\n\n".join(f"# {i}\n\n" + " the cat and the tree." * 20 for i in range(40))
CONTEXT = 768  # room for the requests, of which the tiny vocabulary makes many tokens

NewSummarizer = Callable[..., AbstractContextManager[Summarizer]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny.write_llama(folder / "endless", seed=7)  # it does not end its replies
    return folder


@pytest.fixture
def summarizer(folder: Path) -> NewSummarizer:
    """Open a session of its own for every request, as every command does."""

    @contextmanager
    def new(question: str = "", context: int | None = CONTEXT, settings: ReplySettings = PLAIN) -> Iterator[Summarizer]:
        with Session(ModelFile("endless", folder / "endless"), None, PLACEMENT) as session:
            yield Summarizer(session, Request(Style.TLDR, question=question), settings, context)

    return new


def finished(summarizer: Summarizer, text: str, told: list[PartProgress] | None = None) -> Reply:
    reply = summarizer.reply(summarizer.plan(text), (told if told is not None else []).append)
    for _ in reply:
        pass
    return reply


def text_of(plan: Plan) -> str:
    return "".join(part.text for part in plan.parts)


def rounds(told: list[PartProgress]) -> list[int]:
    """Return how many parts each round of notes had."""
    return [*dict.fromkeys(progress.total for progress in told)]


def test_what_fits_is_read_in_one_piece(summarizer: NewSummarizer) -> None:
    """A text that fits the context with its request and reply is one part; the context is as large as it needs."""
    with summarizer(context=None) as opened:
        plan = opened.plan(SHORT)
        assert [part.text for part in plan.parts] == [SHORT]
        assert plan.context_size == 4096  # the model's training; a tiny cache always fits the memory
        reply = finished(opened, SHORT)
        assert len(reply.token_ids) == 12
        assert reply.stats.prompt_tokens + 12 <= opened._session.target.context_size < 4096


def test_parts_joined_are_the_text_and_fit(summarizer: NewSummarizer) -> None:
    """Every character is in one part, and every part leaves room for the request and the notes on it."""
    with summarizer() as opened:
        plan = opened.plan(LONG)
        assert text_of(plan) == LONG
        assert len(plan.parts) > 5
        assert all(part.num_tokens <= CONTEXT * 7 // 8 for part in plan.parts)
        assert all(part.text.startswith("# ") for part in plan.parts)


def test_the_context_stays_within_the_memory(summarizer: NewSummarizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is short the text is read in more parts, instead of asking for what is not there."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1_000_000, total=1_000_000))
    with summarizer(context=None) as opened:
        plan = opened.plan(LONG)
        assert 1000 < plan.context_size < 2000
        assert text_of(plan) == LONG


def test_a_plan_runs_nothing(summarizer: NewSummarizer) -> None:
    """Planning opens no context and keeps nothing."""
    with summarizer() as opened:
        opened.plan(LONG)
        assert opened._session.target is None
    assert NOTES.entries() == PROMPTS.entries() == []


def test_notes_that_do_not_fit_are_summarized_in_parts_too(summarizer: NewSummarizer) -> None:
    """Rounds of notes become shorter until they fit; progress counts the parts of each, and knows the time left."""
    told: list[PartProgress] = []
    with summarizer() as opened:
        num_parts = len(opened.plan(LONG).parts)
        reply = finished(opened, LONG, told)
        assert "cut off at 96 tokens" in opened._session.notes[0]
    assert rounds(told)[0] == num_parts
    assert len(rounds(told)) > 1
    assert rounds(told) == sorted(rounds(told), reverse=True)
    assert len(reply.token_ids) == 12
    assert all(p.seconds_left is not None and p.seconds_left >= 0 for p in told if p.number > 1)


def test_interrupted_work_goes_on_where_it_stopped(
    summarizer: NewSummarizer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the fourth part costs that part alone, and the text is that of a run without a break."""

    def interrupt(progress: PartProgress) -> None:
        if progress.number == 4:
            raise KeyboardInterrupt

    with summarizer() as opened, pytest.raises(KeyboardInterrupt):
        opened.reply(opened.plan(LONG), interrupt)
    assert len(NOTES.entries()) == 3

    told: list[PartProgress] = []
    with summarizer() as opened:
        resumed = finished(opened, LONG, told)
    assert told[0].number == 4

    monkeypatch.setenv("SPECLOCAL_CACHE", str(cache / "another"))
    with summarizer() as opened:
        assert finished(opened, LONG).token_ids == resumed.token_ids


def test_notes_are_those_of_the_same_question_and_settings(summarizer: NewSummarizer) -> None:
    """Another question or another seed takes its own notes; who drafts makes no difference."""

    def number_of_first(**asked: object) -> int | None:
        told: list[PartProgress] = []
        with summarizer(**asked) as opened:
            finished(opened, LONG, told)
        return told[0].number if told else None

    assert number_of_first() == 1
    assert number_of_first() is None
    assert number_of_first(settings=ReplySettings(mode=Mode.LOOKUP, max_tokens=12)) is None
    assert number_of_first(question="why?") == 1
    assert number_of_first(settings=ReplySettings(mode=Mode.OFF, max_tokens=12, seed=7)) == 1


def test_a_damaged_note_is_taken_again(summarizer: NewSummarizer) -> None:
    """What is no note, or half of one, is as good as none."""
    with summarizer() as opened:
        reply = finished(opened, LONG)
    for entry, damaged in zip(NOTES.entries(), (b"", b"{", b"[1]", b'{"text": "a"}', b"\xff", b"7"), strict=False):
        entry.path.write_bytes(damaged)
    with summarizer() as opened:
        assert finished(opened, LONG).token_ids == reply.token_ids


def test_notes_come_back_as_they_were(cache: Path) -> None:
    """Text and mark survive the disk; another key finds nothing."""
    keep_note(["a", 1], Note("caf\u00e9 \U0001f680\n", cut=True))
    assert kept_note(["a", 1]) == Note("caf\u00e9 \U0001f680\n", cut=True)
    assert kept_note(["a", 2]) is None


def test_a_context_too_small_for_the_request_is_refused(summarizer: NewSummarizer) -> None:
    """The hint names a context in which it works."""
    with summarizer(context=100) as opened, pytest.raises(ContextError, match="is too small for this text") as refused:
        opened.plan(LONG)
    enough = int(refused.value.hint.rpartition(" ")[2])
    with summarizer(context=enough) as opened:
        assert text_of(opened.plan(LONG)) == LONG


def test_a_short_text_may_take_the_whole_context(summarizer: NewSummarizer) -> None:
    """Where the text itself is short, the hint asks for no more than that needs."""
    with summarizer(context=100) as opened, pytest.raises(ContextError) as refused:
        opened.plan("the cat" * 30)
    enough = int(refused.value.hint.rpartition(" ")[2])
    with summarizer(context=enough) as opened:
        assert len(finished(opened, "the cat" * 30).token_ids) == 12


def test_several_documents_stand_under_their_names() -> None:
    """One document is its text; several are one text with a heading for each."""
    one, two = Document("a.md", "first\n"), Document("b.md", "second\n")
    assert joined([one]) == "first\n"
    assert joined([one, two]) == "# a.md\n\nfirst\n\n\n# b.md\n\nsecond\n"
