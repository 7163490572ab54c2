"""The round: plan, draft, verify, commit, roll back, yield.

Knows the order of things; who drafts, how long and which rule decides are handed in.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence

from speclocal.decoding.sampling import PENALTY_WINDOW, distribution
from speclocal.decoding.types import (
    Fate,
    Finish,
    Logits,
    Model,
    Planner,
    Proposal,
    Round,
    Rule,
    SamplingParams,
    Verdict,
)


def read(model: Model, tokens: Sequence[int], agreed: int = 0) -> None:
    """Bring the model's cache to hold exactly `tokens`; see `reading`."""
    for _ in reading(model, tokens, agreed):
        pass


def reading(model: Model, tokens: Sequence[int], agreed: int = 0) -> Iterator[int]:
    """Bring the model's cache to hold exactly `tokens`, and yield how many it holds after every pass.

    What the cache shares with `tokens` is kept, as far as it can go back there; the first number yielded is how much
    that was.
    agreed: how many leading tokens are known to be shared.
    """
    kept = model.nearest(common_prefix(model.cached, tokens, agreed))
    model.rollback(kept)
    yield kept
    for start in range(kept, len(tokens), model.max_pass):
        model.forward(tokens[start : start + model.max_pass], 0)
        yield min(start + model.max_pass, len(tokens))


def decode(
    target: Model,
    tokens: MutableSequence[int],
    planner: Planner,
    rule: Rule,
    params: SamplingParams,
    *,
    budget: int,
    ends: Callable[[int], Finish | None] = lambda token: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Round]:
    """Continue `tokens` by up to `budget` tokens, a round at a time.

    Before the first and after every round the target's cache holds every token but the last; `read` sees to the first.
    `tokens` grows in place. A consumer may stop after any round. The text may grow to `target.context_size + 1`
    tokens: the last one needs no place in the cache.
    ends: asked once for every emitted token, in order; a reason to end makes it the last.
    """
    planner.begin(tokens)
    while budget > 0 and len(tokens) <= target.context_size:
        started = clock()
        start = len(tokens)

        # plan and draft
        limit = min(budget - 1, target.context_size - start, target.max_rows - 1)
        plan = planner.plan(tokens, limit)
        proposal = plan.drafter.propose(tokens, min(plan.size, limit), params, rule, plan.stop)
        drafted = clock()

        # verify: one pass, judged from left to right; commit what was emitted
        try:
            logits = target.forward([tokens[-1], *proposal.tokens], len(proposal.tokens) + 1)
            verified = clock()
            verdicts, finish = [], None
            for verdict in _judge(logits, proposal, tokens, rule, params):
                verdicts.append(verdict)
                if finish := ends(verdict.token):
                    break
            tokens.extend(verdict.token for verdict in verdicts)
        except BaseException:
            if target.nearest(len(tokens) - 1) == len(tokens) - 1:  # else reading back is left to the next `read`
                target.rollback(len(tokens) - 1)
            raise

        # roll back: rejected tokens leave the cache
        target.rollback(len(tokens) - 1)

        budget -= len(verdicts)
        if finish is None and budget == 0:
            finish = Finish.LENGTH
        if finish is None and len(tokens) > target.context_size:
            finish = Finish.CONTEXT
        round_ = Round(
            position=start,
            drafter=plan.drafter.name,
            proposal=proposal,
            verdicts=tuple(verdicts),
            draft_seconds=drafted - started,
            verify_seconds=verified - drafted,
            seconds=clock() - started,
            finish=finish,
        )
        planner.observe(round_)
        yield round_
        if finish:
            return


def _judge(
    logits: Logits, proposal: Proposal, tokens: Sequence[int], rule: Rule, params: SamplingParams
) -> Iterator[Verdict]:
    """Judge the draft from left to right up to the first rejection; a draft kept whole earns one token more.

    logits: [g + 1, V], the target's after `tokens` and after every token of the draft. Rows are looked at one by one,
    so none after the last verdict is ever turned into a distribution.
    """
    context = [*tokens[-PENALTY_WINDOW:], *proposal.tokens]
    num_before = len(context) - len(proposal.tokens)
    position = len(tokens)

    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.distributions, strict=True)):
        p = distribution(logits[i], context[: num_before + i], params)
        verdict = rule.judge(p, q, token, position + i)
        yield verdict
        if verdict.fate is not Fate.ACCEPTED:
            return

    p = distribution(logits[len(proposal.tokens)], context, params)
    yield Verdict(rule.choose(p, position + len(proposal.tokens)), Fate.OWN)


def common_prefix(a: Sequence[int], b: Sequence[int], agreed: int = 0) -> int:
    """Return how many leading tokens `a` and `b` share, given that the first `agreed` are known to be the same."""
    end = min(len(a), len(b))
    if a[agreed:end] == b[agreed:end]:  # at the speed of C: the usual case
        return end
    return next(i for i in range(agreed, end) if a[i] != b[i])
