"""A draft model: a smaller model of the same vocabulary guesses token by token.

Knows a model through the same protocol as the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.loop import common_prefix, read
from speclocal.decoding.sampling import PENALTY_WINDOW, distribution
from speclocal.decoding.types import Distribution, Logits, Model, Proposal, Rule, SamplingParams, StopRule


class ModelDrafter:
    """Drafts with `model`, whose cache it keeps at a part of the text plus its own last guesses.

    num_shared: how many token ids, counted from 0, mean the same to drafter and target. The rest of the drafter's
    logits is never looked at, and a text with an id it lacks gets no draft.
    tail: how many unread tokens it reads at most, the last ones of the text; None for all that fit its context.

    Between rounds the cache holds the text from `_start` on as far as it was read, and after that the last guesses.
    """

    name = "draft"

    def __init__(self, model: Model, num_shared: int | None = None, tail: int | None = None) -> None:
        self.model = model
        self.num_shared = model.vocab_size if num_shared is None else num_shared
        self.tail = tail
        self._start = 0
        self._agreed = 0  # how many leading tokens of the cache are known to be those of the text

    def begin(self, tokens: Sequence[int]) -> None:
        self._agreed = 0
        if self._agree(tokens) == 0:
            self._start = 0

    def backlog(self, tokens: Sequence[int]) -> int | None:
        """Return how many tokens will be read before the first guess; None where one of them has an id it lacks."""
        unread = tokens[sum(self._reading(tokens)) :]
        return len(unread) if self._knows(unread) else None

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, stop: StopRule) -> Proposal:
        start, agreed = self._reading(tokens)
        if size <= 0 or not self._knows(tokens[start + agreed :]) or not stop.wants_step(()):
            return Proposal()
        context = list(tokens[-PENALTY_WINDOW:])
        drafted: list[int] = []
        distributions: list[Distribution] = []
        logits = self._catch_up(tokens, start, agreed)
        while stop.wants_token(len(drafted), logits):
            q = distribution(logits, context, params)
            token = rule.draft(q, len(tokens) + len(drafted), len(tokens))
            context.append(token)
            drafted.append(token)
            distributions.append(q)
            full = len(drafted) == size or len(self.model.cached) == self.model.context_size
            if full or not stop.wants_step(drafted):
                break
            logits = self.model.forward([token], 1)[0, : self.num_shared]
        return Proposal(tuple(drafted), tuple(distributions))

    def _knows(self, tokens: Sequence[int]) -> bool:
        """Return whether all of some tokens mean the same to drafter and target."""
        return max(tokens) < self.num_shared

    def _agree(self, tokens: Sequence[int]) -> int:
        """Return how much of the cache can stay. The last token of the text is always read anew, for its logits."""
        text = tokens[self._start : len(tokens) - 1]
        self._agreed = common_prefix(self.model.cached, text, min(self._agreed, len(text)))
        return self._agreed

    def _reading(self, tokens: Sequence[int]) -> tuple[int, int]:
        """Return where in the text the cache should begin, and how much of it is there."""
        agreed, length = self.model.nearest(self._agree(tokens)), len(tokens) - self._start
        fits = length <= self.model.context_size
        if fits and (self.tail is None or length - agreed <= self.tail):
            return self._start, agreed
        half = max(1, self.model.context_size // 2)  # leaves room to go on
        return max(0, len(tokens) - min(self.tail or half, half)), 0

    def _catch_up(self, tokens: Sequence[int], start: int, agreed: int) -> Logits:
        """Read the text from `start + agreed` on, and return the logits after its last token: [num_shared]."""
        text = tokens[start:]
        last_pass = max(agreed, len(text) - self.model.max_pass)
        read(self.model, text[:last_pass], agreed)
        self._start, self._agreed = start, len(text)
        return self.model.forward(text[last_pass:], 1)[0, : self.num_shared]
