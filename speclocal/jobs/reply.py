"""One reply: its settings, and its events as it grows.

Knows a model, a planner and a prompt of token ids; where they come from is session.py's.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from speclocal.decoding.acceptance import CoupledRule, RatioRule
from speclocal.decoding.loop import decode, reading
from speclocal.decoding.planner import AutoPlanner
from speclocal.decoding.stats import Stats
from speclocal.decoding.types import Fate, Finish, Model, Planner, Round, Rule, SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.modes import MAX_DRAFT_TOKENS, MAX_SEED, Mode
from speclocal.jobs.prompts import KeptPrompts
from speclocal.llama.vocab import Vocab
from speclocal.text.stream import TextStream


@dataclass(frozen=True)
class ReplySettings:
    """What one reply may look like, and who drafts it."""

    mode: Mode = Mode.AUTO
    num_draft_tokens: int | None = None  # None: the mode's own choice
    max_tokens: int = 512
    params: SamplingParams = field(default_factory=SamplingParams)
    seed: int | None = None  # None: a new one for every reply
    stops: tuple[str, ...] = ()
    strict: bool = False  # only passes whose bits are those of one-token passes

    def __post_init__(self) -> None:
        if self.num_draft_tokens is not None and not 1 <= self.num_draft_tokens <= MAX_DRAFT_TOKENS:
            raise UsageError(
                f"a draft of {self.num_draft_tokens} tokens", f"give a number from 1 to {MAX_DRAFT_TOKENS}"
            )
        if self.seed is not None and not 0 <= self.seed <= MAX_SEED:
            raise UsageError(f"seed {self.seed} is out of range", f"give a number from 0 to {MAX_SEED}")
        if self.strict and self.num_draft_tokens is not None:
            raise UsageError("`--strict` chooses the draft lengths itself", "leave out `-g`, or `--strict`")
        TextStream(self.stops)  # checks them

    def rule(self) -> Rule:
        """Return the coupled rule for a given seed (same text in every mode), else the ratio rule (fastest)."""
        return RatioRule(secrets.randbits(63)) if self.seed is None else CoupledRule(self.seed)


@dataclass(frozen=True)
class Reading:
    """How much of the prompt is in the cache."""

    done: int
    total: int


@dataclass(frozen=True)
class Writing:
    """Text that became final in a round, in order, each piece with the fate of the token that completed it."""

    pieces: tuple[tuple[str, Fate], ...]
    round: Round


@dataclass(frozen=True)
class DraftModelVerdict:
    """A draft model's cost ratio, acceptance so far (or expected, where it never drafted), and predicted speedup."""

    cost_ratio: float
    acceptance: float
    speedup: float


class Reply:
    """A reply as it grows: iterate for events. Text, ids and stats are up to date at any time, also after a stop."""

    def __init__(
        self,
        target: Model,
        vocab: Vocab,
        planner: Planner,
        tokens: list[int],
        settings: ReplySettings,
        kept: KeptPrompts | None = None,
    ) -> None:
        """kept: where processed prompts are looked for, and kept."""
        self.stats = Stats(prompt_tokens=len(tokens))
        self.finish_reason: Finish | None = None
        self._target = target
        self._vocab = vocab
        self._planner = planner
        self._tokens = tokens
        self._settings = settings
        self._kept = kept
        self._stream = TextStream(settings.stops)
        self._fresh: list[str] = []  # the text of every token of the round being judged

    @property
    def text(self) -> str:
        return self._stream.text

    @property
    def estimated_speedup(self) -> float | None:
        """How much faster than plain decoding this was, by the measured cost of a one-token pass; None if unknown."""
        if not isinstance(self._planner, AutoPlanner) or not self.stats.decode_seconds:
            return None
        return self._planner.pricing.plain_seconds(self.stats.tokens) / self.stats.decode_seconds

    @property
    def why_no_draft_model(self) -> DraftModelVerdict | None:
        """What spoke against the draft model, where there is one that drafted nothing."""
        planner = self._planner
        if not isinstance(planner, AutoPlanner) or not planner.draft or self.stats.drafted_by_drafter.get("draft"):
            return None
        pricing = planner.pricing
        cost_ratio = pricing.draft_costs.seconds(1) / pricing.costs.seconds(1)
        return DraftModelVerdict(cost_ratio, pricing.draft_acceptance.typical, pricing.draft_model_speedup())

    @property
    def token_ids(self) -> list[int]:
        return self._tokens[self.stats.prompt_tokens :]

    def __iter__(self) -> Iterator[Reading | Writing]:
        yield from self._read()
        yield from self._write()

    def _read(self) -> Iterator[Reading]:
        """Process the prompt up to its last token, which belongs to the first round."""
        started = time.perf_counter()
        wanted = self._tokens[:-1]
        if self._kept:
            self._kept.recall(wanted)
        for i, done in enumerate(reading(self._target, wanted)):
            if i == 0:
                self.stats.prompt_reused = done
            self.stats.prompt_seconds = time.perf_counter() - started
            yield Reading(done, len(wanted))
        if self._kept:
            self._kept.keep(len(wanted) - self.stats.prompt_reused)

    def _write(self) -> Iterator[Writing]:
        settings, started = self._settings, time.perf_counter()
        rounds = decode(
            self._target,
            self._tokens,
            self._planner,
            settings.rule(),
            settings.params,
            budget=settings.max_tokens,
            ends=self._ends,
        )
        fate = Fate.OWN
        for round_ in rounds:
            self.stats.add(round_)
            self.stats.decode_seconds = time.perf_counter() - started
            self.finish_reason = round_.finish
            fates = [verdict.fate for verdict in round_.verdicts]
            fate = fates[-1]
            pieces = tuple(zip(self._fresh, fates, strict=True))
            self._fresh = []
            yield Writing(pieces, round_)
            self.stats.decode_seconds = time.perf_counter() - started
        self.finish_reason = self.finish_reason or Finish.LENGTH
        if rest := self._stream.finish():
            yield Writing(((rest, fate),), round_)

    def _ends(self, token: int) -> Finish | None:
        """Take the text of an emitted token, and say whether the reply ends with it."""
        if self._vocab.is_end(token):
            self._fresh.append("")
            return Finish.EOS
        self._fresh.append(self._stream.push(self._vocab.piece(token)))
        return Finish.STOP if self._stream.stopped is not None else None
