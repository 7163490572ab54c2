"""Conversations: what the model sees, what is read anew, and what a stop, a retry or a full context leaves.

The cache is in bf16: passes of every width then compute the same bits, so that reading anew must change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tiny

from speclocal.decoding.types import Logits, SamplingParams
from speclocal.errors import ContextError, PairError, UsageError
from speclocal.jobs.chat import Chat
from speclocal.jobs.conversation import Conversation, Exchange
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reading, Reply, ReplySettings, Writing
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama.formats import KvType
from speclocal.llama.placement import Placement

OpenChat = Callable[..., Chat]
WARM = SamplingParams(temperature=1.2)


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    for kind, write in tiny.KINDS.items():
        write(folder / kind, seed=7)  # these do not end their replies
        write(folder / f"{kind} draft", seed=7, noise=0.05)
    tiny.write_llama(folder / "stranger", tiny.bpe(words=(" quick", " fox")))
    return folder


@pytest.fixture
def open_chat(folder: Path) -> Iterator[OpenChat]:
    """Open chats with a session of their own: short plain replies of a tiny model unless asked otherwise."""
    with ExitStack() as stack:

        def open_one(
            *,
            path: Path | None = None,
            kind: str = "llama",
            system: str = "",
            context: int | None = None,
            **settings: Any,
        ) -> Chat:
            target = ModelFile("target", path or folder / kind)
            draft = ModelFile("draft", path or folder / f"{kind} draft")
            session = stack.enter_context(Session(target, draft, Placement(1, kv_type=KvType.BF16)))
            return Chat(session, ReplySettings(**{"mode": Mode.OFF, "max_tokens": 12, **settings}), system, context)

        yield open_one


def say(chat: Chat, question: str, **kwargs: bool) -> Reply:
    with chat.asking(question, **kwargs) as turn:
        for _ in turn.reply:
            pass
    return turn.reply


def stopped(chat: Chat, question: str, kind: type, number: int = 1) -> Reply:
    """Ask, and press Ctrl-C at the so many-th event of a kind."""
    with suppress(KeyboardInterrupt), chat.asking(question) as turn:
        seen = 0
        for event in turn.reply:
            seen += isinstance(event, kind)
            if seen == number:
                raise KeyboardInterrupt
    return turn.reply


def fresh(open_chat: OpenChat, chat: Chat, **kwargs: Any) -> Chat:
    """Return a chat that has read nothing yet, and goes on where another one is."""
    other = open_chat(**kwargs)
    other.restore(chat.saved())
    return other


def test_the_model_sees_the_whole_conversation() -> None:
    """System message, exchanges and the new message, in their order and roles."""
    conversation = Conversation("Be brief.").with_exchange(Exchange("Hi", "Hello!"))
    assert [(message.role, message.content) for message in conversation.messages("Bye")] == [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "Hello!"),
        ("user", "Bye"),
    ]


def test_a_turn_of_the_real_model_reads_only_what_is_new(open_chat: OpenChat, default_model_path: Path) -> None:
    """All that was read and written before is found in the cache, also at a temperature, whatever the ids."""
    for params in (SamplingParams(), WARM):
        chat = open_chat(path=default_model_path, params=params, seed=5, max_tokens=24, context=512)
        for question in ("Name three colours.", "And three rivers?", "Thank you!"):
            known = len(chat.saved().ids)
            assert say(chat, question).stats.prompt_reused == max(0, known - 1)


@pytest.mark.parametrize("kind", list(tiny.KINDS))
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("params", [SamplingParams(), WARM], ids=["greedy", "warm"])
def test_a_reply_does_not_depend_on_the_cache(
    open_chat: OpenChat, params: SamplingParams, mode: Mode, kind: str
) -> None:
    """Whatever was said, taken back, stopped or repeated: a plain chat that has read nothing yet says the same."""
    settings = {"params": params, "seed": 5, "kind": kind}
    chat = open_chat(mode=mode, **settings)
    assert chat.session.notes == []
    assert chat.session.mode_used(chat.settings) is mode
    for step in ("hello", "the cat", "undo", "tree", "stop", "stop early", "return", "again", "reset", "hello"):
        if step == "undo":
            chat.undo()
        elif step == "reset":
            chat.reset()
        elif step.startswith("stop"):
            stopped(chat, "tokens of", Reading if step.endswith("early") else Writing, 2)
        else:
            other = fresh(open_chat, chat, **settings)
            other.settings = replace(chat.settings, mode=Mode.OFF)
            again = step == "again"
            assert say(other, step, again=again).token_ids == say(chat, step, again=again).token_ids
            assert other.conversation == chat.conversation


@pytest.mark.parametrize("kind", list(tiny.KINDS))
def test_an_undone_turn_costs_nothing(open_chat: OpenChat, kind: str) -> None:
    """After taking a turn back, the same message is found in the cache whole, and has the same answer."""
    chat = open_chat(kind=kind)
    say(chat, "hello")
    before = chat.conversation
    first = say(chat, "the cat")
    assert chat.undo() == Exchange("the cat", first.text)
    assert chat.conversation == before
    second = say(chat, "the cat")
    assert second.token_ids == first.token_ids
    assert second.stats.prompt_reused == second.stats.prompt_tokens - 1


@pytest.mark.parametrize("kind", list(tiny.KINDS))
def test_an_edited_turn_reads_only_itself(open_chat: OpenChat, kind: str) -> None:
    """What was said before the turn is in the cache, or all of it but what the turn begins with."""
    chat = open_chat(kind=kind, max_tokens=3)
    known = say(chat, "hello").stats.prompt_tokens + 3
    say(chat, "the cat and the tree")
    assert say(chat, "return", again=True).stats.prompt_reused >= known - 1


@pytest.mark.parametrize("kind", list(tiny.KINDS))
def test_the_draft_model_keeps_its_cache_too(open_chat: OpenChat, kind: str) -> None:
    """What the draft model has read of earlier turns it does not read again."""
    chat = open_chat(mode=Mode.DRAFT, kind=kind)
    say(chat, "hello")
    draft = chat.session.draft
    assert draft is not None
    forward, lengths = draft.forward, list[int]()

    def counting(tokens: Sequence[int], num_rows: int) -> Logits:
        lengths.append(len(draft.cached))
        return forward(tokens, num_rows)

    draft.forward = counting  # type: ignore[method-assign]
    reused = say(chat, "the cat").stats.prompt_reused
    assert lengths[0] >= reused - 4 > 10


@pytest.mark.parametrize("kind", [kind for kind in tiny.KINDS if kind != "sliding window"])
def test_a_chat_that_is_taken_up_again_finds_its_cache(open_chat: OpenChat, kind: str) -> None:
    """What a long chat had read and written is kept with it, and the next reply is the one it would have given."""
    chat = open_chat(context=1024, kind=kind)
    say(chat, "the cat " * 300)
    chat.session.keep_cache()
    other = fresh(open_chat, chat, context=1024, kind=kind)
    reply, unbroken = say(other, "tree"), say(chat, "tree")
    assert reply.token_ids == unbroken.token_ids
    assert reply.stats.prompt_reused == unbroken.stats.prompt_reused > 256


def test_a_cache_that_does_not_fit_is_read_anew(open_chat: OpenChat) -> None:
    """A chat that grew in a large context can be taken up again in a smaller one."""
    chat = open_chat(context=1024)
    say(chat, "the cat " * 300)
    chat.session.keep_cache()
    other = fresh(open_chat, chat, context=256)
    assert say(other, "tree").finish_reason == "length"
    assert other.conversation.num_forgotten == 1


def test_nothing_can_be_taken_back_from_nothing(open_chat: OpenChat) -> None:
    """An empty conversation says so."""
    with pytest.raises(UsageError, match="nothing has been said yet"):
        open_chat().undo()


def test_a_message_asked_again_takes_the_place_of_the_last(open_chat: OpenChat) -> None:
    """An edited message replaces its exchange; without a seed a repeated one gets another answer."""
    chat = open_chat(params=SamplingParams(temperature=3, top_k=0, top_p=1))
    say(chat, "hello")
    first = say(chat, "the cat")
    second = say(chat, "the cat", again=True)
    assert first.token_ids != second.token_ids
    say(chat, "the tree", again=True)
    assert [exchange.question for exchange in chat.conversation.exchanges] == ["hello", "the tree"]


def test_a_reset_keeps_the_system_message(open_chat: OpenChat) -> None:
    """A new conversation has the same instructions, and finds them in the cache."""
    chat = open_chat(system="Return tokens of the cat.")
    say(chat, "hello")
    chat.reset()
    assert chat.conversation == Conversation("Return tokens of the cat.")
    assert say(chat, "the cat").stats.prompt_reused > 10


def test_a_stopped_reply_stays_marked(open_chat: OpenChat) -> None:
    """Ctrl-C in the reply keeps its text as an incomplete exchange; in the prompt it leaves no trace."""
    chat = open_chat()
    reply = stopped(chat, "hello", Writing, 3)
    assert chat.conversation.exchanges == (Exchange("hello", reply.text, complete=False),)
    assert 0 < len(reply.token_ids) < 12
    stopped(chat, "the cat", Reading)
    assert len(chat.conversation.exchanges) == 1
    say(chat, "the tree")
    assert [exchange.complete for exchange in chat.conversation.exchanges] == [False, True]


def test_a_full_context_forgets_the_older_half(open_chat: OpenChat) -> None:
    """Several exchanges go at a time, the system message stays, each reply has room, nothing is lost from the file."""
    chat = open_chat(system="Return the cat.", context=256, max_tokens=20)
    system = say(chat, "begin").stats.prompt_tokens
    went = []
    for number in range(12):
        other = fresh(open_chat, chat, context=256)
        with chat.asking(f"and the cat {number}") as turn:
            for _ in turn.reply:
                pass
        went.append(turn.num_forgotten)
        assert turn.reply.finish_reason == "length"
        assert system < turn.reply.stats.prompt_tokens <= 256 - 20
        assert chat.conversation.messages("?")[0].content == "Return the cat."
        assert say(other, f"and the cat {number}").token_ids == turn.reply.token_ids
    assert sum(went) == chat.conversation.num_forgotten > 0
    assert max(went) > 1
    assert went.count(0) > len(went) / 2
    assert len(chat.conversation.exchanges) == 13


def test_a_message_that_cannot_fit_is_refused_and_the_chat_lives(open_chat: OpenChat) -> None:
    """Both numbers are said, nothing is forgotten, also when it was to replace another one; the next reply comes."""
    chat = open_chat(context=256)
    say(chat, "hello")
    before = chat.conversation
    for again in (False, True):
        with pytest.raises(ContextError, match=r"the prompt has \d{3,} tokens, the context holds 256"):
            say(chat, "cat " * 400, again=again)
        assert chat.conversation == before
    assert say(chat, "the tree").finish_reason == "length"


def test_a_system_message_that_cannot_fit_is_refused(open_chat: OpenChat) -> None:
    """What no turn could do without must fit from the start."""
    with pytest.raises(ContextError):
        open_chat(system="cat " * 400, context=256)


def test_another_draft_model_changes_nothing_but_the_drafts(open_chat: OpenChat, folder: Path) -> None:
    """The draft model can be changed in the middle of a conversation; one that does not fit leaves the old one."""
    chat = open_chat(mode=Mode.DRAFT)
    say(chat, "hello")
    plain = fresh(open_chat, chat)
    plain.settings = ReplySettings(mode=Mode.OFF, max_tokens=12)
    with pytest.raises(PairError):
        chat.session.draft_with(ModelFile("stranger", folder / "stranger"))
    assert chat.session.draft_name == "draft"
    chat.session.draft_with(ModelFile("itself", folder / "llama"))
    reply = say(chat, "the cat")
    assert reply.token_ids == say(plain, "the cat").token_ids
    assert reply.stats.acceptance_rate == 1
    chat.session.draft_with(None)
    assert chat.session.mode_used(chat.settings) is Mode.LOOKUP
    assert say(chat, "the tree").token_ids == say(plain, "the tree").token_ids


@pytest.mark.parametrize("mode", list(Mode))
def test_a_stop_string_ends_history_and_cache_at_one_place(open_chat: OpenChat, mode: Mode) -> None:
    """What is after a stop string was never said: history, and the next reply, are those of plain decoding."""
    plain = open_chat()
    text = say(plain, "hello").text
    stop = text[4:7]
    chat, other = open_chat(mode=mode, stops=(stop,)), open_chat(stops=(stop,))
    for one in (chat, other):
        reply = say(one, "hello")
        assert one.conversation.last == Exchange("hello", text[: text.index(stop)])
        assert reply.finish_reason == "stop"
    assert say(chat, "the cat").token_ids == say(other, "the cat").token_ids
    assert say(fresh(open_chat, other), "the tree").token_ids == say(chat, "the tree").token_ids
