"""Record what replay.py replays: a greedy reply, a draft model's guesses along it, and what passes take there.

Knows models through their protocol and a clock, not texts or files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.costs import READ, Calibration, curve_here
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.loop import decode, read
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.sampling import confidence
from speclocal.decoding.types import Finish, Model, SamplingParams


@dataclass(frozen=True)
class Recording:
    """A greedy reply of a target, and what its passes took with this text in the cache."""

    prompt: list[int]
    emitted: list[int]
    costs: Calibration


@dataclass(frozen=True)
class Guesses:
    """A draft model's likeliest token for every emitted token, its probability, and what the model's passes took."""

    tokens: list[int]
    confidences: list[float]
    costs: Calibration


def record_reply(
    target: Model,
    prompt: Sequence[int],
    budget: int,
    ends: Callable[[int], Finish | None],
    known: Calibration,
    clock: Callable[[], float],
) -> Recording:
    """Decode greedily without drafts, then measure passes at that context. Begins with an empty cache.

    known: what a short context costs; its `read_seconds` stand where the target does not read here.
    """
    tokens = list(prompt)
    target.rollback(0)  # passes of other widths could give other bits: read as a first prompt is read
    read(target, tokens[:-1])
    planner = FixedPlanner(NoDrafter(), 0)
    for _ in decode(target, tokens, planner, RatioRule(0), SamplingParams(), budget=budget, ends=ends, clock=clock):
        pass
    return Recording(list(prompt), tokens[len(prompt) :], _costs_along(target, prompt, tokens, known, clock))


def record_guesses(
    draft: Model, recording: Recording, num_shared: int, known: Calibration, clock: Callable[[], float]
) -> Guesses:
    """Let a draft model guess every emitted token, given all tokens before it. Begins with an empty cache.

    num_shared: how many ids mean the same to both models. From the first id on that the draft model lacks, or that
    its context has no place for, it guesses nothing.
    """
    prompt, emitted = recording.prompt, recording.emitted
    text = [*prompt, *emitted]
    known_to_draft = next((i for i, token in enumerate(text) if token >= num_shared), len(text))
    fed = text[len(prompt) - 1 : min(known_to_draft, draft.context_size, len(text) - 1)]
    if not fed:
        return Guesses([], [], known)
    began = clock()
    draft.rollback(0)
    read(draft, prompt[:-1])
    read_seconds = (clock() - began) / len(prompt) if len(prompt) > READ else known.read_seconds
    tokens, confidences = guesses_along(draft, fed, num_shared)
    costs = _costs_along(draft, prompt, [*prompt[:-1], *fed], known, clock)
    return Guesses(tokens, confidences, replace(costs, read_seconds=read_seconds))


def guesses_along(draft: Model, fed: Sequence[int], num_shared: int) -> tuple[list[int], list[float]]:
    """Append `fed` to the cache; return the model's likeliest token after each of them, and its probability."""
    tokens: list[int] = []
    confidences: list[float] = []
    for start in range(0, len(fed), draft.max_rows):
        chunk = fed[start : start + draft.max_rows]
        for row in draft.forward(chunk, len(chunk)):
            tokens.append(int(row[:num_shared].argmax()))
            confidences.append(confidence(row[:num_shared]))
    return tokens, confidences


def _costs_along(
    model: Model, prompt: Sequence[int], text: Sequence[int], known: Calibration, clock: Callable[[], float]
) -> Calibration:
    """Measure passes after the prompt, over what followed it; widths that do not fit cost what is known, in scale."""
    model.rollback(len(prompt) - 1)
    here = curve_here(model, text, clock)
    scale = here[1] / known.seconds[1]
    elsewhere = {width: scale * seconds for width, seconds in known.seconds.items()}
    return replace(known, seconds={**elsewhere, **here})
