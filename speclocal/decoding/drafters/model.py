"""A draft model: a smaller model of the same vocabulary guesses token by token.

Knows a model through the same protocol as the target.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.decoding.loop import read
from speclocal.decoding.sampling import PENALTY_WINDOW, distribution
from speclocal.decoding.types import Distribution, Model, Proposal, Rule, SamplingParams, Worth


class ModelDrafter:
    """Drafts with `model`, whose cache it keeps at a prefix of the text plus its own last guesses.

    num_shared: how many token ids, counted from 0, mean the same to drafter and target. The rest of the drafter's
    logits is never looked at, and a text with an id it lacks gets no draft.
    """

    name = "draft"

    def __init__(self, model: Model, num_shared: int | None = None) -> None:
        self.model = model
        self.num_shared = model.vocab_size if num_shared is None else num_shared
        self._agreed = 0  # how many leading tokens of cache and text are known to be the same
        self._readable = True

    def begin(self, tokens: Sequence[int]) -> None:
        self._agreed = 0
        self._readable = max(tokens, default=0) < self.num_shared

    def propose(self, tokens: Sequence[int], size: int, params: SamplingParams, rule: Rule, worth: Worth) -> Proposal:
        size = min(size, self.model.context_size - len(tokens) + 1)
        if size <= 0 or not self._catch_up(tokens):
            return Proposal()
        context = list(tokens[-PENALTY_WINDOW:])
        drafted: list[int] = []
        distributions: list[Distribution] = []
        unread = tokens[-1]
        for i in range(size):
            logits = self.model.forward([unread], 1)[0, : self.num_shared]
            q = distribution(logits, context, params)
            if not worth(i, q):
                break
            unread = rule.draft(q, len(tokens) + i, len(tokens))
            context.append(unread)
            drafted.append(unread)
            distributions.append(q)
        return Proposal(tuple(drafted), tuple(distributions))

    def _catch_up(self, tokens: Sequence[int]) -> bool:
        """Bring the model's cache to all of `tokens` but the last; return False where an id is not shared."""
        if not self._readable or tokens[-1] >= self.num_shared:
            self._readable = False
            return False
        for _ in read(self.model, tokens[:-1], self._agreed):
            pass
        self._agreed = len(tokens) - 1
        return True
