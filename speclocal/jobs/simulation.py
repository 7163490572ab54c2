"""Many replies of a few tokens from distributions of real models, by the real loop, drafter and rule.

Knows two open models and a text; what is concluded from the samples is others' business.

A place is the end of a text. There, p and q are measured for the next token, and again after every token that can come
next: enough for all replies of two tokens. The tables that come of this stand in for the models, over the few tokens
that occur, so that thousands of replies take a second or two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np

from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode, read
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.sampling import distribution
from speclocal.decoding.types import Distribution, Ids, Logits, Model, Rule, SamplingParams

Reply = tuple[int, ...]
"""The first tokens after a place."""
Rows = Mapping[Reply, Distribution]
"""The distribution of the next token at a place, and after every token that can come next."""

DEPTH = 2
"""Tokens of a simulated reply."""
DRAFT_LENGTHS = (2, 1, 2, 1, 0)
"""Of the replies, in turns: whole drafts, drafts that earn the target's own token, and plain decoding."""
_NOWHERE = -1  # stands for a token that neither model can emit
_AS_IT_IS = SamplingParams(temperature=1.0, top_k=0, top_p=1.0)  # a table holds distributions, sampled as they are


@dataclass(frozen=True)
class Place:
    """The distributions of target and drafter at the end of a text, and after every token the target can emit there."""

    target: Rows
    draft: Rows

    @property
    def first(self) -> dict[Reply, float]:
        """The chance of every first token."""
        return dict(zip(((token,) for token in self._ids(())), self.target[()].probs.tolist(), strict=True))

    @property
    def pairs(self) -> dict[Reply, float]:
        """The chance of every first two tokens."""
        return {
            (*start, token): chance * prob
            for start, chance in self.first.items()
            for token, prob in zip(self._ids(start), self.target[start].probs.tolist(), strict=True)
        }

    def _ids(self, start: Reply) -> list[int]:
        ids: list[int] = self.target[start].ids.tolist()
        return ids


def rows_at(
    model: Model,
    text: Sequence[int],
    params: SamplingParams,
    firsts: Sequence[int] | None = None,
    num_shared: int | None = None,
) -> Rows:
    """Return a model's distributions at the end of `text`, by one-token passes.

    firsts: the tokens after which to look on; by default those that the model itself can emit.
    num_shared: how many token ids, counted from 0, it shares with the target; by default all.
    """
    read(model, text[:-1])
    rows: dict[Reply, Distribution] = {(): distribution(model.forward(text[-1:], 1)[0, :num_shared], text, params)}
    for token in rows[()].ids.tolist() if firsts is None else firsts:
        if num_shared is None or token < num_shared:
            rows[(token,)] = distribution(model.forward([token], 1)[0, :num_shared], [*text, token], params)
            model.rollback(len(text))
    return rows


def distributions_along(
    model: Model, prompt: Sequence[int], reply: Sequence[int], params: SamplingParams, num_shared: int | None = None
) -> list[Distribution]:
    """Return a model's distribution of every token of `reply`, by one pass over as many as fit into it."""
    read(model, prompt[:-1])
    text, begin = [*prompt, *reply], len(prompt)
    num_rows = min(len(reply), model.max_rows)
    logits = model.forward(text[begin - 1 : begin - 1 + num_rows], num_rows)
    return [distribution(row[:num_shared], text[: begin + i], params) for i, row in enumerate(logits)]


def wrong_copy(rows: Rows) -> Rows:
    """Return the one-hot distributions of a drafter that always copies the target's second choice."""

    def second(p: Distribution) -> int:
        return int(p.ids[p.probs.argsort()[-min(2, p.ids.size)]])

    return {start: Distribution.one_hot(second(p)) for start, p in rows.items()}


def simulate(place: Place, make_rule: Callable[[int], Rule], seeds: range) -> Counter[Reply]:
    """Return how often the first two tokens came out, over one reply for every seed.

    A token that neither model can emit is counted as -1.
    """
    ids = np.unique(np.concatenate([p.ids for rows in (place.target, place.draft) for p in rows.values()]))
    target, draft = _Table(place.target, ids), _Table(place.draft, ids)
    planners = [FixedPlanner(ModelDrafter(draft), length) for length in DRAFT_LENGTHS]
    counts: Counter[Reply] = Counter()
    for seed, planner in zip(seeds, cycle(planners), strict=False):
        tokens = [target.start]
        target.rollback(0)
        for _ in decode(target, tokens, planner, make_rule(seed), _AS_IT_IS, budget=DEPTH + 1):
            if len(tokens) > DEPTH:
                break
        counts[tuple(tokens[1 : 1 + DEPTH])] += 1
    names = np.append(ids, _NOWHERE)  # the place after the last id is that of the token which begins a text
    return Counter({tuple(names[list(reply)].tolist()): count for reply, count in counts.items()})


class _Table:
    """A model that says what stands in a table. Its tokens are places in `ids`, and one more that begins a text."""

    context_size = max_pass = max_rows = DEPTH + 2

    def __init__(self, rows: Rows, ids: Ids) -> None:
        self.start = ids.size
        self.vocab_size = ids.size + 1
        self.cached: list[int] = []
        self._rows = {
            (self.start, *ids.searchsorted(reply).tolist()): self._logits(ids.searchsorted(p.ids), p)
            for reply, p in rows.items()
        }
        self._whatever = np.zeros(self.vocab_size, dtype=np.float32)  # after what is rejected, or not looked at

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        self.cached.extend(tokens)
        ends = range(len(self.cached) - num_rows + 1, len(self.cached) + 1)
        return np.array([self._rows.get(tuple(self.cached[:end]), self._whatever) for end in ends])

    def nearest(self, length: int) -> int:
        return length

    def rollback(self, length: int) -> None:
        del self.cached[length:]

    def _logits(self, places: Ids, p: Distribution) -> Logits:
        logits = np.full(self.vocab_size, -np.inf, dtype=np.float32)
        logits[places] = np.log(p.probs)
        return logits
