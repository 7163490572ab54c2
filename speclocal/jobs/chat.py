"""A conversation with a model, turn by turn.

Knows a session and what has been said; terminals and files are others' business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from speclocal.jobs.conversation import Conversation, Exchange
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.saved_chats import SavedChat
from speclocal.jobs.session import Session
from speclocal.jobs.spelling import respelled
from speclocal.text.template import chat_prompt

_CONTEXT = 4096
"""Tokens of context where none is asked for, and training and memory allow more."""
_SHARES = 4
"""A reply finds one of so many parts of the context free, if it may be that long."""


@dataclass(frozen=True)
class Turn:
    """A reply to iterate over, and how many exchanges had to be forgotten for it."""

    reply: Reply
    num_forgotten: int


class Chat:
    """A conversation in one context, which keeps what it has read and written from turn to turn."""

    def __init__(
        self, session: Session, settings: ReplySettings, system: str = "", context_size: int | None = None
    ) -> None:
        """Open the contexts of `session`, which has none yet.

        Raises ContextError when not even the system message fits, ModelError when the chat template refuses it.
        """
        self.session = session
        self.settings = settings  # of the next reply
        self.conversation = Conversation(system)
        self._ids: list[int] = []  # of the last turn, as they were read and written
        opening = chat_prompt(self.conversation.messages("?"), session.vocab)
        session.open_context(len(opening), settings, context_size or min(session.largest_context, _CONTEXT))

    @contextmanager
    def asking(self, question: str, *, again: bool = False) -> Iterator[Turn]:
        """Give the reply to a message. What it has become by the end of the block is part of the conversation.

        A reply that was stopped counts too, unless it has no text yet.
        again: the last exchange makes way for this one.
        Raises ContextError when the message does not fit; all is then as before.
        """
        before = self.conversation.without_last() if again else self.conversation
        fitting, prompt = self._fitted(before, question)
        reply = self.session.reply(prompt, self.settings)
        try:
            yield Turn(reply, fitting.num_forgotten - before.num_forgotten)
        finally:
            self._ids = [*prompt, *reply.token_ids]
            if reply.text or reply.finish_reason:
                exchange = Exchange(question, reply.text, complete=bool(reply.finish_reason))
                self.conversation = fitting.with_exchange(exchange)

    def undo(self) -> Exchange:
        """Take the last exchange back, and return it. Raises UsageError where there is none."""
        last = self.conversation.last
        self.conversation = self.conversation.without_last()
        return last

    def reset(self) -> None:
        """Begin anew, with the same system message."""
        self.conversation = Conversation(self.conversation.system)

    def saved(self) -> SavedChat:
        """Return all that it takes to go on as if nothing had happened."""
        return SavedChat(self.conversation, self.settings, tuple(self._ids))

    def restore(self, saved: SavedChat) -> None:
        """Go on with a saved chat, and with its cache if that is still kept; else the next turn reads it again."""
        self.conversation, self.settings = saved.conversation, saved.settings
        known = range(self.session.vocab.size)
        self._ids = list(saved.ids) if all(token in known for token in saved.ids) else []
        self.session.recall(self._ids)

    def _fitted(self, conversation: Conversation, question: str) -> tuple[Conversation, list[int]]:
        """Return the prompt, and the conversation with so much forgotten that the prompt leaves room for a reply."""
        size = self.session.context_size
        limit = size - min(self.settings.max_tokens, size // _SHARES)
        prompt = self._prompt(conversation, question)
        while len(prompt) > limit and conversation.num_seen:
            conversation = conversation.forgetting()
            prompt = self._prompt(conversation, question)
        return conversation, prompt

    def _prompt(self, conversation: Conversation, question: str) -> list[int]:
        vocab = self.session.vocab
        return respelled(chat_prompt(conversation.messages(question), vocab), self._ids, vocab)
