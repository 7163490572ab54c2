"""Where a reply leaves plain decoding, and whether arithmetic explains it.

Knows two replies of one prompt and the passes that made them; who drafted plays no part.

Passes of different width may differ in the last bits of their logits, and a near-tie can then fall the other way: that
is arithmetic. The test: run passes of the same widths, begun at the same places, over the reply itself. No drafter
guesses in them and no rule accepts, so all they know of the reply is its text and its widths. If the target's own
choice after every token is the next token of the reply, the reply follows from the widths. If not, it is a bug, unless
the model mixes experts: there a row may also depend on the rows beside it, which the test does not repeat.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate

import numpy as np

from speclocal.decoding.loop import common_prefix
from speclocal.decoding.sampling import distribution
from speclocal.decoding.types import Logits, Model, Round, Rule, SamplingParams


class Cause(StrEnum):
    """Why a reply is not that of plain decoding."""

    ARITHMETIC = "arithmetic"  # plain passes of the same widths write the same tokens
    BUG = "bug"  # they do not


@dataclass(frozen=True)
class Pass:
    """One target pass: how many tokens it ran over, and how many the round emitted from it."""

    width: int
    num_emitted: int


@dataclass(frozen=True)
class Fork:
    """The first difference between a reply and plain decoding.

    gap: between the two largest logits there, in a pass over one token. moved: by how much the logits there differ at
    most between that pass and the one of the reply. Both are None where the passes could not be run again.
    """

    position: int  # in the reply, counted from 0
    plain_token: int | None  # None where that reply had ended
    other_token: int | None
    gap: float | None
    moved: float | None
    widths: tuple[int, ...]  # of the reply's passes, up to the one in which it forks
    cause: Cause


@dataclass(frozen=True)
class Choice:
    """The target's own next token at some place of a text, and the logits it was chosen by, valid until the next."""

    token: int
    logits: Logits


@dataclass(frozen=True)
class _Way:
    """What the target itself chooses along a reply, and a copy of its logits at the fork."""

    chosen: list[int]
    logits: Logits | None


def fork_of(
    target: Model,
    prompt: Sequence[int],
    plain: Sequence[int],
    other: Sequence[int],
    passes: Sequence[Pass],
    rule: Rule,
    params: SamplingParams,
) -> Fork | None:
    """Return the first difference between plain decoding's reply and another one, explained.

    target: its cache begins with all of `prompt` but the last token, processed as it was for both replies; it holds
    just that afterwards. passes: those that wrote the other reply. rule, params: those of the replies. For a rule that
    draws anew in every reply there is nothing to explain: take one with the seed that both had, and at temperature 0
    any.
    """
    position = common_prefix(plain, other)
    if position == len(plain) == len(other):
        return None
    num_emitted = list(accumulate(each.num_emitted for each in passes))
    forking = bisect_right(num_emitted, position)  # the pass that emitted the token at `position`

    upto = list(plain[: position + 1])
    other_way = _along(target, prompt, other, passes, rule, params, position)
    plain_way = _along(target, prompt, upto, [Pass(1, 1)] * (position + 1), rule, params, position)
    target.rollback(min(len(prompt) - 1, len(target.cached)))

    both_go_on = position < min(len(plain), len(other))
    explained = both_go_on and other_way.chosen == list(other) and plain_way.chosen == upto
    a, b = plain_way.logits, other_way.logits
    return Fork(
        position=position,
        plain_token=plain[position] if position < len(plain) else None,
        other_token=other[position] if position < len(other) else None,
        gap=None if a is None else top_two_gap(a),
        moved=None if a is None or b is None else float(np.abs(a - b).max()),
        widths=tuple(each.width for each in passes[: forking + 1]),
        cause=Cause.ARITHMETIC if explained else Cause.BUG,
    )


def passes_of(rounds: Sequence[Round]) -> list[Pass]:
    """Return the target passes of finished rounds."""
    return [Pass(round_.num_drafted + 1, len(round_.verdicts)) for round_ in rounds]


def plain_choices(
    target: Model,
    prompt: Sequence[int],
    reply: Sequence[int],
    passes: Sequence[Pass],
    rule: Rule,
    params: SamplingParams,
) -> Iterator[Choice]:
    """Yield the target's own choice for every token of `reply`, by passes of the given widths over the reply itself.

    A pass begins where the round began that it stands for, and where that one held rejected tokens holds the tokens
    that follow in the reply: rows look back only, so what stands there must not matter. It then drops them, as the
    round did. Ends early where the cache holds anything but the text: with a rollback that fails, nothing is explained.
    """
    text = [*prompt, *reply]
    end = len(prompt)
    if len(target.cached) >= end:
        target.rollback(end - 1)
    for each in passes:
        if list(target.cached) != text[: end - 1]:
            return
        tokens = text[end - 1 : end - 1 + each.width]
        tokens += tokens[-1:] * (each.width - len(tokens))
        logits = target.forward(tokens, each.width)
        for row in range(each.num_emitted):
            p = distribution(logits[row], text[: end + row], params)
            yield Choice(rule.choose(p, end + row), logits[row])
        end += each.num_emitted
        target.rollback(end - 1)


def top_two_gap(logits: Logits) -> float:
    """Return by how much the largest logit exceeds the second largest."""
    second, first = np.partition(logits, -2)[-2:]
    return float(first) - float(second)


def _along(
    target: Model,
    prompt: Sequence[int],
    reply: Sequence[int],
    passes: Sequence[Pass],
    rule: Rule,
    params: SamplingParams,
    position: int,
) -> _Way:
    """Return what the target chooses along a reply by passes of given widths, with its logits [V] at `position`."""
    chosen: list[int] = []
    logits = None
    for i, choice in enumerate(plain_choices(target, prompt, reply, passes, rule, params)):
        chosen.append(choice.token)
        if i == position:
            logits = choice.logits.copy()
    return _Way(chosen, logits)
