"""Whether speculation is exact here: five checks with the models of a session.

Knows what must hold and how to look for it; how it is said is the terminal's.

1 greedy, 2 seeded: every mode writes the text of plain decoding, or arithmetic explains where it does not (forks.py).
3 distribution: many short replies from real p and q follow p (simulation.py, goodness.py).
4 cache: what is dropped is forgotten. 5 widths: passes that are called exact are exact (cache_checks.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from speclocal.decoding.acceptance import RatioRule
from speclocal.decoding.loop import decode, read
from speclocal.decoding.planner import FixedPlanner
from speclocal.decoding.theory import acceptance_rate, total_variation
from speclocal.decoding.types import Round, SamplingParams, tokens_of
from speclocal.errors import SpeclocalError
from speclocal.jobs.cache_checks import check_cache, check_widths
from speclocal.jobs.calibration import CalibrationProgress, calibration_of
from speclocal.jobs.erring import ErringDrafter
from speclocal.jobs.findings import BitsPart, BrokenOff, Check, ComparedReply, DistributionPart, Part, Sampled, TextPart
from speclocal.jobs.forks import fork_of, passes_of
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.goodness import fit
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import Session
from speclocal.jobs.simulation import Place, Reply, distributions_along, rows_at, simulate, wrong_copy
from speclocal.jobs.tasks import Task, built_in_tasks
from speclocal.jobs.trace import rounds_of
from speclocal.jobs.wrong_rules import WRONG_RULES
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel

FALSE_ALARM = 1e-6
"""The chance that samples of the right distribution fail any of the tests of a run, about."""
NUM_REPLIES = 4000
"""Simulated replies for every place and drafter."""

_COPY = "Repeat this text word for word:\n\n"  # what a drafter guesses well, so that whole drafts are accepted too
_BEGINNING = 300  # characters of a task: enough to copy from, and soon read
_NUM_REQUESTS = 4
_NUM_PLACES = 3
_ERRING_LENGTH = 4  # tokens of a draft that errs on purpose
_FEW = 8  # tokens that can come next at a place: more would take as many passes
_WARMER = 2.0  # times the temperature: what drafts where there is no draft model

Progress = Callable[[str], None]
"""Called with what is being done."""


@dataclass(frozen=True)
class VerifySettings:
    """What is checked. temperature, seed: of the seeded replies, and of p and q."""

    num_tokens: int = 32
    temperature: float = 0.8
    seed: int = 1
    strict: bool = False  # replies of exact widths only, which must not fork at all
    wrong_rules: bool = False  # also show that rules with a mistake are caught


class Verification:
    """The five parts, one after the other. Opens the session's contexts."""

    def __init__(
        self, session: Session, settings: VerifySettings, progress: Progress, measuring: CalibrationProgress
    ) -> None:
        """measuring: told how far the measurement of the target's widths is, which is made if it is not on disk."""
        self._session = session
        self._settings = settings
        self._progress = progress
        self._measuring = measuring
        self._prompts = [
            (name, prompt_tokens(session, request, raw=False)) for name, request in _requests(built_in_tasks())
        ]
        longest = max(len(prompt) for _, prompt in self._prompts)
        session.open_context(longest, ReplySettings(max_tokens=settings.num_tokens))
        assert session.target is not None
        self._target: LlamaModel | TwoLayouts = session.target
        wanted = (Mode.LOOKUP, Mode.DRAFT, Mode.AUTO) if self._target.can_rollback else ()
        used = dict.fromkeys(session.mode_used(ReplySettings(mode=mode)) for mode in wanted)
        self._modes = [mode for mode in used if mode is not Mode.OFF]
        self._seeded: dict[str, list[int]] = {}  # the plain replies, by request

    @property
    def _warm(self) -> SamplingParams:
        return SamplingParams(temperature=self._settings.temperature)

    def parts(self) -> Iterator[Part]:
        """Run the checks, and yield what each has found."""
        checks: Mapping[Check, Callable[[], Part]] = {
            Check.GREEDY: lambda: self._texts(Check.GREEDY, SamplingParams(), None),
            Check.SEEDED: lambda: self._texts(Check.SEEDED, self._warm, self._settings.seed),
            Check.DISTRIBUTION: self._distribution,
            Check.CACHE: self._cache,
            Check.WIDTHS: self._widths,
        }
        if self._target.can_rollback:  # the planner of mode auto needs part of this: all of it at once is quicker
            calibration_of(self._target.weights, self._measuring, deep=True)
        for name, check in checks.items():
            try:
                yield check()
            except SpeclocalError as error:
                yield BrokenOff(name, error)

    def _texts(self, name: Check, params: SamplingParams, seed: int | None) -> TextPart:
        compared = []
        for request, prompt in self._prompts:
            self._progress(f"{name}: {request}, plain")
            plain = tokens_of(self._rounds(prompt, Mode.OFF, params, seed))
            if seed is not None:
                self._seeded[request] = plain
            rule = ReplySettings(seed=seed).rule()
            for mode, write in self._ways(prompt, plain, params, seed):
                self._progress(f"{name}: {request}, {mode}")
                rounds = write()
                compared.append(
                    ComparedReply(
                        request,
                        mode,
                        num_tokens=sum(len(round_.verdicts) for round_ in rounds),
                        num_tested=sum(round_.num_tested for round_ in rounds),
                        num_accepted=sum(round_.num_accepted for round_ in rounds),
                        fork=fork_of(self._target, prompt, plain, tokens_of(rounds), passes_of(rounds), rule, params),
                    )
                )
        return TextPart(name, self._settings.strict, tuple(compared))

    def _ways(
        self, prompt: list[int], plain: list[int], params: SamplingParams, seed: int | None
    ) -> Iterator[tuple[str, Callable[[], list[Round]]]]:
        """Yield every way to write a reply with drafts, by name: the modes, and drafts that err on purpose."""
        for mode in self._modes:
            yield mode.value, partial(self._rounds, prompt, mode, params, seed)
        if length := self._erring_length(len(prompt)):
            yield ErringDrafter.name, partial(self._erring_rounds, prompt, plain, length, params, seed)

    def _erring_length(self, num_prompt: int) -> int:
        """Return the length of drafts that err on purpose, 0 where nothing may be drafted."""
        if not self._target.can_rollback:
            return 0
        if not self._settings.strict:
            return _ERRING_LENGTH
        calibration = calibration_of(self._target.weights, self._measuring, deep=True)
        exact = calibration.rereadable_widths(num_prompt + self._settings.num_tokens, num_droppable=0)
        return min(_ERRING_LENGTH, exact[-1] - 1)

    def _erring_rounds(
        self, prompt: list[int], plain: list[int], length: int, params: SamplingParams, seed: int | None
    ) -> list[Round]:
        """Return the rounds of the plain reply, drafted with an error in every third place."""
        drafter = ErringDrafter(plain, len(prompt), self._target.vocab_size)
        read(self._target, prompt[:-1])
        return list(
            decode(
                self._target,
                list(prompt),
                FixedPlanner(drafter, length),
                ReplySettings(seed=seed).rule(),
                params,
                budget=self._settings.num_tokens,
                ends=self._session.vocab.ends,
            )
        )

    def _rounds(self, prompt: list[int], mode: Mode, params: SamplingParams, seed: int | None) -> list[Round]:
        """Return the rounds of a reply."""
        settings = ReplySettings(
            mode=mode, max_tokens=self._settings.num_tokens, params=params, seed=seed, strict=self._settings.strict
        )
        return list(rounds_of(self._session.reply(prompt, settings)))

    def _distribution(self) -> DistributionPart:
        if not self._target.can_rollback:
            return DistributionPart((), {}, 0.0)
        tests = [
            (request, position, drafter, place)
            for request, prompt in self._prompts[:_NUM_PLACES]
            for position, drafter, place in self._places(request, prompt)
        ]

        def sampled(make_rule: Callable[[int], RatioRule]) -> tuple[Sampled, ...]:
            found = []
            for i, (request, position, drafter, place) in enumerate(tests):
                self._progress(f"distribution: {request}, drafts by {drafter}")
                begin = (self._settings.seed + i) * NUM_REPLIES
                counts = simulate(place, make_rule, range(begin, begin + NUM_REPLIES))
                acceptance = acceptance_rate(place.target[()], place.draft[()])
                one, two = fit(_first(counts), place.first), fit(counts, place.pairs)
                found.append(Sampled(request, position, drafter, acceptance, one, two))
            return tuple(found)

        wrong = {name: sampled(rule) for name, rule in WRONG_RULES.items()} if self._settings.wrong_rules else {}
        return DistributionPart(sampled(RatioRule), wrong, limit=FALSE_ALARM / (2 * len(tests)))

    def _places(self, request: str, prompt: list[int]) -> Iterator[tuple[int, str, Place]]:
        """Return a telling position of the plain seeded reply, with who drafts there and what both models say."""
        self._progress(f"distribution: {request}, p and q")
        if request not in self._seeded:  # that part broke off
            self._seeded[request] = tokens_of(self._rounds(prompt, Mode.OFF, self._warm, self._settings.seed))
        reply = self._seeded[request]
        params = SamplingParams(self._settings.temperature, top_k=_FEW)
        draft = self._session.draft
        drafting: LlamaModel | TwoLayouts
        if draft is not None and len(prompt) + len(reply) <= draft.context_size:
            drafting, draft_params, name = draft, params, f"`{self._session.draft_name}`"
        else:
            drafting, draft_params = self._target, replace(params, temperature=_WARMER * params.temperature)
            name = f"the model itself at temperature {draft_params.temperature:g}"
        num_shared = min(drafting.vocab_size, self._target.vocab_size)

        ps = distributions_along(self._target, prompt, reply, params)
        qs = distributions_along(drafting, prompt, reply, draft_params, num_shared)
        # The best place to see a mistake: the target is undecided, and the drafter thinks otherwise.
        telling = [(1 - p.probs.max()) * (0.1 + total_variation(p, q)) for p, q in zip(ps, qs, strict=True)]
        position = telling.index(max(telling))

        text = [*prompt, *reply[:position]]
        target = rows_at(self._target, text, params)
        firsts = target[()].ids.tolist()
        yield position, name, Place(target, rows_at(drafting, text, draft_params, firsts, num_shared))
        yield position, "a copy that errs", Place(target, wrong_copy(target))

    def _cache(self) -> BitsPart:
        self._progress("cache")
        _, text = self._prompts[0]
        return BitsPart(Check.CACHE, tuple(check_cache(self._target, text)))

    def _widths(self) -> BitsPart:
        if not self._target.can_rollback:
            return BitsPart(Check.WIDTHS, ())
        calibration = calibration_of(self._target.weights, self._measuring, deep=True)
        self._progress("widths")
        _, text = self._prompts[0]
        return BitsPart(Check.WIDTHS, tuple(check_widths(self._target, text, calibration)), calibration)


def _requests(tasks: Sequence[Task]) -> Iterator[tuple[str, str]]:
    """Return what is asked, by name: one task as it is and three to be copied, all shortened."""
    first, *rest = tasks[:_NUM_REQUESTS]
    yield first.name, first.text[:_BEGINNING]
    for task in rest:
        yield f"copy of {task.name}", _COPY + task.text[:_BEGINNING]


def _first(counts: Counter[Reply]) -> Counter[Reply]:
    """Return how often every first token came out."""
    firsts: Counter[Reply] = Counter()
    for reply, count in counts.items():
        firsts[reply[:1]] += count
    return firsts
