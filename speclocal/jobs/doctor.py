"""Whether models work, fit each other and pay here: what their files say, then what a short trial shows.

Knows files, sessions and measurements, and in which order they are asked; what a trial means is forecast.py's.

A candidate that cannot draft is no error: it is told with its reason, and the others go on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from speclocal.decoding.costs import Exactness, Speeds
from speclocal.decoding.recording import Recording, record_guesses, record_reply
from speclocal.errors import ModelError, SpeclocalError
from speclocal.jobs.calibration import CalibrationProgress, calibration_of, known_speeds, speeds_of
from speclocal.jobs.forecast import Forecast, forecast
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.jobs.tasks import Task, built_in_tasks
from speclocal.llama.devices import devices_for
from speclocal.llama.formats import KvType, Layout
from speclocal.llama.grants import free_memory
from speclocal.llama.peek import vocabulary_of
from speclocal.llama.placement import Placement
from speclocal.llama.vocab import Vocab, VocabularyComparison, compare_vocabularies
from speclocal.models.header import read_header
from speclocal.text.template import Message, chat_prompt

TrialProgress = Callable[[str, str], None]
"""Called before a task is tried: the names of the model and of the task."""

USUAL_CONTEXT = 4096
"""Tokens of the context for which memory is told; fewer where a model was trained on fewer."""


@dataclass(frozen=True)
class Facts:
    """What a model's file says of it.

    chat_template_problem: why a chat cannot be put into its template; empty where that works, or there is none.
    context_token_bytes: what every token of the context takes in memory.
    """

    name: str
    path: Path
    architecture: str
    quantization: str
    file_bytes: int
    trained_context: int | None
    context_token_bytes: float
    has_chat_template: bool
    chat_template_problem: str

    @property
    def file(self) -> ModelFile:
        return ModelFile(self.name, self.path)

    @property
    def usual_context(self) -> int:
        return min(USUAL_CONTEXT, self.trained_context or USUAL_CONTEXT)

    def memory_bytes(self, context: int) -> float:
        """Return about how much memory the model takes with a context of so many tokens."""
        return self.file_bytes + context * self.context_token_bytes


@dataclass(frozen=True)
class Measured:
    """What was measured of a model here. can_rollback: whether its cache can drop rejected tokens.

    exact: empty where passes of several tokens are of no use.
    """

    can_rollback: bool
    speeds: Speeds
    exact: tuple[Exactness, ...]


@dataclass(frozen=True)
class Candidate:
    """A draft model, judged for a target. obstacle: why it cannot draft; empty if it can, or that was not tried."""

    name: str
    facts: Facts | None = None
    vocabulary: VocabularyComparison | None = None
    measured: Measured | None = None
    forecast: Forecast | None = None
    obstacle: str = ""


@dataclass(frozen=True)
class Examination:
    """A target, what it does alone, and the draft models that were judged for it, the best first.

    notes: what else a person should know, as which tasks were left out. num_tokens: longest reply of a trial.
    free_bytes: of memory, before anything is loaded.
    """

    facts: Facts
    num_tokens: int
    free_bytes: int
    measured: Measured | None = None
    alone: Forecast | None = None
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """The draft model that makes replies fastest, None where none can draft."""
        return next((candidate for candidate in self.candidates if candidate.forecast), None)


def read_files(target: ModelFile, drafts: Sequence[ModelFile], kv_type: KvType, num_tokens: int) -> Examination:
    """Judge models by their files alone: nothing is loaded but vocabularies.

    Raises ModelError where the target's file cannot be used.
    """
    with _opened_file(target, kv_type) as (facts, vocab):
        candidates = tuple(_read_candidate(vocab, draft, kv_type) for draft in drafts)
    return Examination(facts, num_tokens, free_memory(), candidates=candidates)


def _read_candidate(target: Vocab, draft: ModelFile, kv_type: KvType) -> Candidate:
    try:
        with _opened_file(draft, kv_type) as (facts, vocab):
            found = compare_vocabularies(target, vocab)
            return Candidate(draft.name, facts, found, obstacle=found.obstacle)
    except ModelError as exc:
        return Candidate(draft.name, obstacle=exc.message)


@contextmanager
def _opened_file(model: ModelFile, kv_type: KvType) -> Iterator[tuple[Facts, Vocab]]:
    """Give what a file says, and its vocabulary."""
    header = read_header(model.path)
    with vocabulary_of(model.path, model.name, header.chat_template) as vocab:
        width = (header.key_length or 0) + (header.value_length or 0)
        yield (
            Facts(
                model.name,
                model.path,
                header.architecture,
                header.quantization,
                model.path.stat().st_size,
                header.context_length,
                sum(header.num_kv_heads) * width * kv_type.number_bytes,
                bool(header.chat_template),
                _template_problem(vocab),
            ),
            vocab,
        )


def _template_problem(vocab: Vocab) -> str:
    try:
        chat_prompt([Message("user", "hello")], vocab)
    except SpeclocalError as exc:
        return exc.message
    return ""


@dataclass(frozen=True)
class Trial:
    """How models are tried on the built-in tasks: where they run, and who is told how far it is."""

    placement: Placement
    layout: Layout | None  # of the weights; None for the fastest
    measuring: CalibrationProgress
    trying: TrialProgress

    def run(self, examined: Examination) -> Examination:
        """Return the examination of the files with all that a trial adds to it.

        Raises ModelError where the target cannot be loaded.
        """
        target = examined.facts.file
        if self.layout is None:
            self._settle_layout(target)
        with Session(target, None, self.placement, self.measuring, self.layout) as session:
            tasks, notes = _fitting_tasks(session, examined.num_tokens)
            examined = replace(examined, notes=notes)
            if not tasks:
                return examined
            settings = ReplySettings(max_tokens=examined.num_tokens)
            session.open_context(max(len(prompt) for _, prompt in tasks), settings)
            assert session.target is not None
            if not session.target.can_rollback:
                speeds = speeds_of(session.target.weights, self.measuring)
                return replace(examined, measured=Measured(False, speeds, ()))
            known = calibration_of(session.target.weights, self.measuring, deep=True)
            examined = replace(examined, measured=Measured(True, known.speeds, known.exact))

            ends, recorded = _ends(session.vocab), []
            for task, prompt in tasks:
                self.trying(target.name, task.name)
                recording = record_reply(session.target, prompt, examined.num_tokens, ends, known, time.perf_counter)
                recorded.append((task, recording))
            alone = Forecast(tuple(forecast(task, recording, known, None, None) for task, recording in recorded))
            tried = [self._try(session, candidate, recorded) for candidate in examined.candidates]
            return replace(examined, alone=alone, candidates=ranked(tried))

    def _settle_layout(self, target: ModelFile) -> None:
        """Measure the layouts of the weights if that was not done: the trial then has the one that replies will have."""
        if devices_for(self.placement):  # on a GPU there is one layout
            return
        known = (known_speeds(target.path, self.placement.in_layout(layout)) for layout in Layout)
        if not all(known):
            with Session(target, None, self.placement, self.measuring) as session:
                session.compare_layouts()

    def _try(self, session: Session, candidate: Candidate, recorded: Sequence[tuple[Task, Recording]]) -> Candidate:
        """Return what a candidate does on the recorded replies."""
        if candidate.obstacle or candidate.facts is None:
            return candidate
        try:
            session.draft_with(candidate.facts.file)
            if session.draft is None:
                return replace(candidate, obstacle="its cache cannot drop rejected tokens")
            return self._tried(session, candidate, recorded)
        except ModelError as exc:
            return replace(candidate, obstacle=exc.message)

    def _tried(self, session: Session, candidate: Candidate, recorded: Sequence[tuple[Task, Recording]]) -> Candidate:
        assert session.target is not None
        assert session.draft is not None
        known = calibration_of(session.target.weights, self.measuring)
        draft_known = calibration_of(session.draft.weights, self.measuring)
        num_shared = min(session.target.vocab_size, session.draft.vocab_size)
        forecasts = []
        for task, recording in recorded:
            self.trying(candidate.name, task.name)
            guesses = record_guesses(session.draft, recording, num_shared, draft_known, time.perf_counter)
            forecasts.append(forecast(task, recording, known, guesses, draft_known))
        measured = Measured(True, draft_known.speeds, draft_known.exact)
        return replace(candidate, measured=measured, forecast=Forecast(tuple(forecasts)))


def ranked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates with the one that makes replies fastest first, and those that cannot draft last."""
    return tuple(sorted(candidates, key=lambda found: -found.forecast.speedup if found.forecast else 0.0))


def _fitting_tasks(session: Session, num_tokens: int) -> tuple[list[tuple[Task, list[int]]], tuple[str, ...]]:
    """Return the built-in tasks that fit the context the model was trained on, with their ids, and what is left out."""
    fitting, notes = [], []
    for task in built_in_tasks():
        prompt = prompt_tokens(session, task.text, raw=False)
        if len(prompt) + num_tokens <= session.trained_context:
            fitting.append((task, prompt))
        else:
            notes.append(
                f"`{task.name}` is left out: {len(prompt)} tokens and a reply of {num_tokens} do not fit the context "
                f"of {session.trained_context} that `{session.target_name}` was trained on"
            )
    return fitting, tuple(notes)


def _ends(vocab: Vocab) -> Callable[[int], str]:
    return lambda token: "eos" if vocab.is_end(token) else ""
