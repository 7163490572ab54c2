"""Measure what the tour shows: passes, memory, one drafted reply, and the ratio rule at one of its positions.

Knows an open session; the figures that follow are explanation.py's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import psutil

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.loop import decode, read
from speclocal.decoding.sampling import distribution
from speclocal.decoding.stats import Stats
from speclocal.decoding.theory import acceptance_rate
from speclocal.decoding.types import Distribution, Fate, Round, SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.calibration import CalibrationProgress, confirmed_calibration
from speclocal.jobs.drafting import fixed_planner
from speclocal.jobs.explanation import Drafts, Explanation, Given, MeasuredModel, ShownRound, Simulation
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import Session
from speclocal.jobs.simulation import distributions_along
from speclocal.jobs.tasks import built_in_tasks
from speclocal.jobs.trace import drafted_tokens
from speclocal.llama.context import kv_bytes
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.vocab import Vocab

NUM_DRAWS = 4000
PARAMS = SamplingParams(temperature=0.7)
"""Sampling, since greedy decoding would show chances of 0 and 1 alone."""

_SEED = 1  # of the tour's random numbers: the same tour twice
_REPLY = 96  # tokens of the reply whose drafts are judged
_MEMORY = 256 << 20  # bytes of the plain read: more than caches hold
_SHORT_SIGHT = 8  # tokens that the target sees where it guesses for itself
_TELLING = 0.6  # the acceptance of the position that is shown: drafts are kept, and are not
_BEFORE = 12  # tokens of the text before that position


def default_prompt() -> str:
    """Return what is asked where nothing else is: an edit of code, which gives every drafter something to guess."""
    return next(task.text for task in built_in_tasks() if task.kind == "code edit")


def explain(
    session: Session, prompt: str, measuring: CalibrationProgress, given: Given, *, raw: bool = False
) -> Explanation:
    """Measure, and return all that the tour shows. The session has no context yet."""
    ids = prompt_tokens(session, prompt, raw=raw)
    settings = ReplySettings(max_tokens=_REPLY, params=PARAMS)
    session.open_context(len(ids), settings)
    assert session.target is not None
    weights = session.target.weights
    if not session.target.can_rollback:
        raise UsageError(
            f"the cache of `{weights.name}` can neither drop tokens nor be copied, so nothing is ever drafted for it",
            "take another model for the tour",
        )
    target = _measured(session.target, measuring)
    draft = _measured(session.draft, measuring) if session.draft else None
    reply = _reply(session, ids, given.gamma)
    return Explanation(
        prompt=prompt,
        prompt_tokens=len(ids),
        temperature=PARAMS.temperature,
        target=target,
        draft=draft,
        threads=weights.placement.threads,
        memory_bytes_per_second=read_bandwidth(weights.placement.threads) if weights.on_cpu else None,
        drafts=_drafts(reply, session.vocab),
        simulation=_simulation(session, reply),
        given=given,
    )


def read_bandwidth(num_threads: int) -> float:
    """Return the bytes per second that a plain read of memory reaches here, the best of a few."""
    size = min(_MEMORY, psutil.virtual_memory().available // 4)
    parts = np.array_split(np.ones(size // 8, dtype=np.int64), num_threads)
    taken = []
    with ThreadPoolExecutor(num_threads) as threads:
        for _ in range(6):
            began = time.perf_counter()
            list(threads.map(np.bitwise_or.reduce, parts))
            taken.append(time.perf_counter() - began)
    return size / min(taken)


def _measured(model: LlamaModel | TwoLayouts, measuring: CalibrationProgress) -> MeasuredModel:
    weights = model.weights
    return MeasuredModel(
        weights.name,
        weights.size_bytes,
        weights.num_weights,
        kv_bytes(weights),
        confirmed_calibration(model, measuring),
    )


@dataclass(frozen=True)
class _Reply:
    """A reply with all its rounds."""

    prompt: list[int]
    tokens: list[int]
    drafter: str
    length: int
    rounds: list[Round]


def _reply(session: Session, prompt: list[int], length: int | None) -> _Reply:
    """Return a reply that was drafted by the draft model, or by lookup where there is none."""
    target, draft, text = session.target, session.draft, list(prompt)
    assert target is not None
    drafter = ModelDrafter(draft, min(draft.vocab_size, session.vocab.size)) if draft else None
    planner = fixed_planner(Mode.DRAFT if drafter else Mode.LOOKUP, length, drafter)
    read(target, prompt[:-1])
    rounds = list(decode(target, text, planner, RatioRule(_SEED), PARAMS, budget=_REPLY, ends=session.vocab.ends))
    return _Reply(prompt, text[len(prompt) :], planner.drafter.name, planner.size, rounds)


def _drafts(reply: _Reply, vocab: Vocab) -> Drafts:
    stats = Stats()
    for round_ in reply.rounds:
        stats.add(round_)
    drafted = [round_ for round_ in reply.rounds if round_.num_drafted]
    # the most telling round: one that keeps something and rejects something, the longer the better
    shown = max(drafted, key=lambda r: (r.num_accepted < r.num_tested, r.num_accepted), default=None)
    return Drafts(
        drafter=reply.drafter,
        length=reply.length,
        tokens=stats.tokens,
        rounds=stats.rounds,
        drafted=stats.drafted,
        tested=stats.tested,
        accepted=stats.accepted,
        draft_seconds=stats.draft_seconds,
        shown=_shown(shown, vocab) if shown else None,
    )


def _shown(round_: Round, vocab: Vocab) -> ShownRound:
    last = round_.verdicts[-1]
    return ShownRound(
        drafted=tuple(drafted_tokens(round_)),
        texts=tuple(map(vocab.shown, round_.proposal.tokens)),
        own=None if last.fate is Fate.ACCEPTED else vocab.shown(last.token),
        corrected=last.fate is Fate.CORRECTION,
        num_emitted=len(round_.verdicts),
    )


def _simulation(session: Session, reply: _Reply) -> Simulation:
    """Apply the ratio rule many times at the position of the reply that shows most."""
    target, draft = session.target, session.draft
    assert target is not None
    text = [*reply.prompt, *reply.tokens]
    tokens = reply.tokens[: min(model.max_rows for model in (target, draft) if model is not None)]
    ps = distributions_along(target, reply.prompt, tokens, PARAMS)
    if draft is not None and len(text) <= draft.context_size and max(text) < draft.vocab_size:
        guesser = draft.weights.name
        qs = distributions_along(draft, reply.prompt, tokens, PARAMS, min(draft.vocab_size, target.vocab_size))
    else:
        guesser = f"{session.target_name} itself seeing only the last {_SHORT_SIGHT} tokens"
        qs = _short_sighted(session, text, range(len(reply.prompt), len(reply.prompt) + len(tokens)))
    best = min(range(len(ps)), key=lambda i: abs(acceptance_rate(ps[i], qs[i]) - _TELLING) + (ps[i].ids.size < 3))
    before = tokens[max(0, best - _BEFORE) : best]
    context = b"".join(session.vocab.piece(token) for token in before).decode("utf-8", "replace")
    return simulate(ps[best], qs[best], session.vocab, context, guesser)


def simulate(p: Distribution, q: Distribution, vocab: Vocab, before: str, guesser: str) -> Simulation:
    """Draw from q and let the ratio rule decide, NUM_DRAWS times, each as if at a position of its own."""
    rule = RatioRule(_SEED)
    verdicts = [rule.judge(p, q, rule.draft(q, i, i), i) for i in range(NUM_DRAWS)]
    ids = np.union1d(p.ids, q.ids).tolist()
    ids.sort(key=lambda token: (-p.prob(token), -q.prob(token)))
    emitted = [verdict.token for verdict in verdicts]
    return Simulation(
        before=before,
        guesser=guesser,
        texts=tuple(vocab.shown(token) for token in ids),
        p=p.probs_of(np.array(ids)),
        q=q.probs_of(np.array(ids)),
        counts=np.array([emitted.count(token) for token in ids], dtype=np.float64),
        num_draws=NUM_DRAWS,
        num_accepted=sum(verdict.fate is Fate.ACCEPTED for verdict in verdicts),
    )


def _short_sighted(session: Session, tokens: Sequence[int], positions: range) -> list[Distribution]:
    """Return what the target makes of every position if it sees the last few tokens alone."""
    assert session.target is not None
    with_little = LlamaModel(session.target.weights, _SHORT_SIGHT)
    found = []
    try:
        for position in positions:
            seen = tokens[max(0, position - _SHORT_SIGHT) : position]
            with_little.rollback(0)
            found.append(distribution(with_little.forward(seen, 1)[0], seen, PARAMS))
    finally:
        with_little.close()
    return found
