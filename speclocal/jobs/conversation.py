"""What has been said so far, and how much of it the model still sees.

Knows messages, not models.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from speclocal.errors import UsageError
from speclocal.text.template import Message


@dataclass(frozen=True)
class Exchange:
    """A message and its answer."""

    question: str
    answer: str
    complete: bool = True  # False: stopped before its end


@dataclass(frozen=True)
class Conversation:
    """Exchanges in their order. The oldest are forgotten when the context fills: kept here, not shown to the model."""

    system: str = ""
    exchanges: tuple[Exchange, ...] = ()
    num_forgotten: int = 0

    @property
    def last(self) -> Exchange:
        """The last exchange. Raises UsageError where there is none."""
        if not self.exchanges:
            raise UsageError("nothing has been said yet", "type a message first")
        return self.exchanges[-1]

    @property
    def num_seen(self) -> int:
        """How many exchanges the model sees."""
        return len(self.exchanges) - self.num_forgotten

    def messages(self, question: str) -> list[Message]:
        """Return what the model sees when it is asked `question`."""
        messages = [Message("system", self.system)] if self.system else []
        for exchange in self.exchanges[self.num_forgotten :]:
            messages += [Message("user", exchange.question), Message("assistant", exchange.answer)]
        return [*messages, Message("user", question)]

    def with_exchange(self, exchange: Exchange) -> Conversation:
        """Return the conversation with one exchange more."""
        return replace(self, exchanges=(*self.exchanges, exchange))

    def without_last(self) -> Conversation:
        """Return the conversation before its last exchange. There must be one."""
        exchanges = self.exchanges[:-1]
        return replace(self, exchanges=exchanges, num_forgotten=min(self.num_forgotten, len(exchanges)))

    def forgetting(self) -> Conversation:
        """Return the conversation with the older half of what the model sees forgotten.

        Half, so that the next turns find their beginning in the cache: with every exchange that goes, all after it
        must be read again.
        """
        return replace(self, num_forgotten=self.num_forgotten + (self.num_seen + 1) // 2)
