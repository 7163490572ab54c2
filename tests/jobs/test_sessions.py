"""Replies of an opened session: the same text in every mode, and what is checked before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny

from speclocal.decoding.types import SamplingParams
from speclocal.errors import ContextError, PairError, UsageError
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reading, Reply, ReplySettings, Writing
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama.placement import Placement

LIST = "Repeat this list three times: red, green, blue, red, green, blue."
WARM = SamplingParams(temperature=0.8)


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture(scope="module")
def real(default_model_path: Path, module_cache: None) -> Iterator[Session]:
    """The default model drafting for itself, with room for a context in which every width gives the same bits."""
    model = ModelFile("default", default_model_path)
    with Session(model, model, Placement(1)) as session:
        session.open_context(100, ReplySettings(max_tokens=60))
        yield session


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny.write_llama(folder / "target")
    tiny.write_llama(folder / "draft", noise=0.05)
    tiny.write_llama(folder / "short", noise=0.05, context=64)
    tiny.write_llama(folder / "stranger", tiny.bpe(words=(" quick", " fox")))
    tiny.write_llama(folder / "padded", tiny.bpe().padded(400))
    tiny.write_llama(folder / "more", tiny.bpe(user_defined=("<tool>",)))
    tiny.write_llama(folder / "endless", seed=7)  # this one does not end its replies
    for kind, write in tiny.KINDS.items():
        write(folder / kind, seed=7)
        write(folder / f"{kind} draft", seed=7, noise=0.05)
    return folder


@pytest.fixture
def small(folder: Path) -> Iterator[Session]:
    with Session(ModelFile("target", folder / "target"), ModelFile("draft", folder / "draft"), Placement(1)) as session:
        session.open_context(100, ReplySettings(max_tokens=400))
        yield session


def finished(session: Session, prompt: list[int], **settings: object) -> Reply:
    reply = session.reply(prompt, ReplySettings(**settings))  # type: ignore[arg-type]
    for _ in reply:
        pass
    return reply


@pytest.mark.parametrize(
    ("params", "seed"), [(SamplingParams(), None), (WARM, 7), (WARM, 8), (SamplingParams(temperature=1.5, top_k=0), 1)]
)
def test_every_mode_of_the_real_model_says_the_same(real: Session, params: SamplingParams, seed: int | None) -> None:
    """Greedy, or with a seed, the ids do not depend on who drafts or how much: the context stays below 160 tokens."""
    prompt = prompt_tokens(real, LIST, raw=False)
    plain = finished(real, prompt, mode=Mode.OFF, max_tokens=40, params=params, seed=seed)
    assert len(prompt) + 40 < 160
    for mode, length in ((Mode.LOOKUP, None), (Mode.LOOKUP, 3), (Mode.DRAFT, None), (Mode.DRAFT, 7), (Mode.AUTO, None)):
        reply = finished(real, prompt, mode=mode, num_draft_tokens=length, max_tokens=40, params=params, seed=seed)
        assert (reply.token_ids, reply.text, reply.finish_reason) == (plain.token_ids, plain.text, plain.finish_reason)


@pytest.mark.parametrize(
    ("target", "draft"),
    [*((kind, f"{kind} draft") for kind in tiny.KINDS), ("llama", "recurrent draft"), ("recurrent", "llama draft")],
)
@pytest.mark.parametrize("params", [SamplingParams(), WARM], ids=["greedy", "warm"])
def test_every_mode_says_the_same_whatever_the_cache(
    folder: Path, target: str, draft: str, params: SamplingParams
) -> None:
    """Every mode, draft length and budget writes the plain text, and drafts, also where tokens cannot be dropped."""
    with Session(ModelFile(target, folder / target), ModelFile(draft, folder / draft), Placement(1)) as session:
        session.open_context(100, ReplySettings(max_tokens=100))
        assert session.notes == []
        prompt = prompt_tokens(session, "the cat and the tree. return the cat and the", raw=True)
        plain = finished(session, prompt, mode=Mode.OFF, max_tokens=100, params=params, seed=3)
        assert len(plain.token_ids) == 100
        lengths = [(Mode.LOOKUP, None), (Mode.LOOKUP, 20), (Mode.DRAFT, None), (Mode.DRAFT, 20), (Mode.AUTO, None)]
        for budget in (1, 2, 37, 100):
            for mode, length in lengths:
                reply = finished(
                    session, prompt, mode=mode, num_draft_tokens=length, max_tokens=budget, params=params, seed=3
                )
                assert reply.token_ids == plain.token_ids[:budget], (mode, length)
                if mode is Mode.DRAFT and budget > 2:
                    assert reply.stats.tested > reply.stats.accepted > 0 or target not in draft
        for mode in Mode:
            strict = finished(session, prompt, mode=mode, max_tokens=100, params=params, seed=3, strict=True)
            assert strict.token_ids == plain.token_ids, mode


def test_seeds_differ_and_repeat(small: Session) -> None:
    """Another seed is another text; the same seed is the same one; no seed is a new one every time."""
    hot = SamplingParams(temperature=3, top_k=0, top_p=1)
    prompt = prompt_tokens(small, "hello", raw=False)
    texts = [finished(small, prompt, mode=Mode.OFF, max_tokens=20, params=hot, seed=s).token_ids for s in (1, 1, 2)]
    free = [finished(small, prompt, mode=Mode.OFF, max_tokens=20, params=hot).token_ids for _ in range(2)]
    assert texts[0] == texts[1] != texts[2]
    assert free[0] != free[1]


@pytest.mark.parametrize("mode", list(Mode))
def test_events_make_up_the_text(small: Session, mode: Mode) -> None:
    """The pieces of all events, joined, are the text; the counts are those of the ids."""
    prompt = prompt_tokens(small, "the cat", raw=True)
    reply = small.reply(prompt, ReplySettings(mode=mode, max_tokens=50))
    events = list(reply)
    written = [event for event in events if isinstance(event, Writing)]
    reading = [event for event in events if isinstance(event, Reading)]
    assert events[: len(reading)] == reading
    assert (reading[-1].done, reading[-1].total) == (len(prompt) - 1, len(prompt) - 1)
    assert "".join(piece for event in written for piece, _ in event.pieces) == reply.text
    assert reply.stats.tokens == len(reply.token_ids) == 50
    assert reply.stats.prompt_tokens == len(prompt)
    stats = reply.stats
    assert stats.accepted <= stats.tested <= stats.drafted
    assert stats.draft_seconds + stats.verify_seconds + stats.other_seconds == pytest.approx(stats.decode_seconds)
    assert sum(stats.rounds_by_drafter.values()) == stats.rounds


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("after", [1, 2, 5])
def test_a_reply_may_be_left_in_the_middle(small: Session, mode: Mode, after: int) -> None:
    """A consumer that stops early leaves a cache from which the next reply is the same as ever."""
    prompt = prompt_tokens(small, "the cat", raw=True)
    whole = finished(small, prompt, mode=Mode.OFF, max_tokens=30)
    left = small.reply(prompt, ReplySettings(mode=mode, max_tokens=30))
    for number, event in enumerate(left):
        assert event is not None
        if number == after:
            break
    assert left.token_ids == whole.token_ids[: len(left.token_ids)]
    assert finished(small, prompt, mode=mode, max_tokens=30).token_ids == whole.token_ids


@pytest.mark.parametrize("mode", list(Mode))
def test_a_context_fills_to_the_last_place(folder: Path, mode: Mode) -> None:
    """A reply without a limit ends when the context is full, one token beyond it, in every mode."""
    endless = ModelFile("endless", folder / "endless")
    with Session(endless, endless, Placement(1)) as session:
        session.open_context(10, ReplySettings(), asked=256)
        assert session.target is not None
        assert session.target.context_size == 256
        prompt = prompt_tokens(session, "the cat", raw=True)
        reply = finished(session, prompt, mode=mode, max_tokens=100_000)
        assert reply.finish_reason == "context"
        assert len(prompt) + len(reply.token_ids) == 257
        assert reply.token_ids == finished(session, prompt, mode=Mode.OFF, max_tokens=100_000).token_ids


def test_a_draft_model_may_have_a_shorter_context(folder: Path) -> None:
    """Where the draft model's context ends it stops drafting; the text is the target's to the end."""
    with Session(ModelFile("t", folder / "target"), ModelFile("short", folder / "short"), Placement(1)) as session:
        session.open_context(100, ReplySettings(max_tokens=700))
        prompt = prompt_tokens(session, "the cat", raw=True)
        plain = finished(session, prompt, mode=Mode.OFF, max_tokens=600)
        for mode in (Mode.DRAFT, Mode.AUTO):
            assert finished(session, prompt, mode=mode, max_tokens=600).token_ids == plain.token_ids


@pytest.mark.parametrize(("target", "draft"), [("target", "padded"), ("padded", "target")])
def test_a_padded_vocabulary_is_no_obstacle(folder: Path, target: str, draft: str) -> None:
    """Models that differ in unused ids after their vocabularies are a pair, and the text is the target's."""
    with Session(ModelFile("t", folder / target), ModelFile("d", folder / draft), Placement(1)) as session:
        session.open_context(100, ReplySettings(max_tokens=100))
        prompt = prompt_tokens(session, "the cat", raw=True)
        plain = finished(session, prompt, mode=Mode.OFF, max_tokens=40)
        drafted = finished(session, prompt, mode=Mode.DRAFT, max_tokens=40)
        assert drafted.token_ids == plain.token_ids
        assert drafted.stats.drafted > 0


@pytest.mark.parametrize("mode", [Mode.DRAFT, Mode.AUTO])
def test_a_draft_model_is_never_fed_an_id_it_lacks(folder: Path, mode: Mode) -> None:
    """A text with a token that only the target has gets no drafts of the draft model, and the text is the target's."""
    with Session(ModelFile("more", folder / "more"), ModelFile("d", folder / "target"), Placement(1)) as session:
        session.open_context(100, ReplySettings(max_tokens=100))
        assert session.draft is not None
        prompt = prompt_tokens(session, "the cat", raw=True)
        odd = [*prompt, len(tiny.bpe()), *prompt]
        assert max(odd) == session.draft.vocab_size  # one more than its last id: to feed it would be an error
        plain = finished(session, odd, mode=Mode.OFF, max_tokens=40)
        drafted = finished(session, odd, mode=mode, max_tokens=40)
        assert drafted.token_ids == plain.token_ids
        assert drafted.stats.drafted_by_drafter.get("draft", 0) == 0


def test_another_vocabulary_is_refused(folder: Path) -> None:
    """A pair whose tokens mean different texts is refused, with the first of them."""
    with pytest.raises(
        PairError, match=r"^`d` cannot draft for `t`: token \d+ is `.*` in the target and `.*` in the draft$"
    ):
        Session(ModelFile("t", folder / "target"), ModelFile("d", folder / "stranger"), Placement(1))


def test_an_empty_prompt_is_refused(small: Session) -> None:
    """There must be a token to continue."""
    with pytest.raises(UsageError, match="the prompt is empty"):
        small.reply([], ReplySettings())


def test_a_prompt_beyond_the_context_is_refused(small: Session) -> None:
    """A prompt longer than the open context is refused with both numbers; one that just fits is answered."""
    assert small.target is not None
    size = small.target.context_size
    with pytest.raises(ContextError, match=f"the prompt has {size + 1} tokens, the context holds {size}"):
        small.reply([5] * (size + 1), ReplySettings())
    assert len(finished(small, [5] * size, mode=Mode.OFF, max_tokens=9).token_ids) == 1


@pytest.mark.parametrize("length", [0, -1, 65])
def test_a_draft_length_out_of_range_is_refused(length: int) -> None:
    """Settings are checked when they are made."""
    with pytest.raises(UsageError, match=f"a draft of {length} tokens"):
        ReplySettings(num_draft_tokens=length)


def test_a_stop_string_ends_text_and_ids(small: Session) -> None:
    """The ids end with the token that completed the stop, the text before it, in every mode."""
    prompt = prompt_tokens(small, "the cat", raw=True)
    plain = finished(small, prompt, mode=Mode.OFF, max_tokens=60)
    stop = plain.text[12:15]
    replies = [finished(small, prompt, mode=mode, max_tokens=60, stops=(stop,)) for mode in Mode]
    for reply in replies:
        assert reply.finish_reason == "stop"
        assert reply.text == plain.text[: plain.text.index(stop)]
        assert reply.token_ids == replies[0].token_ids == plain.token_ids[: len(reply.token_ids)]


def test_a_held_back_end_is_written_at_the_limit(small: Session) -> None:
    """Text that could have begun a stop string is not lost when the reply ends before it did."""
    prompt = prompt_tokens(small, "the cat", raw=True)
    plain = finished(small, prompt, mode=Mode.OFF, max_tokens=10)
    held = finished(small, prompt, mode=Mode.OFF, max_tokens=10, stops=(plain.text[-2:] + "never",))
    assert (held.text, held.finish_reason) == (plain.text, "length")
