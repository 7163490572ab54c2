"""Whether models pay here: a target answers the built-in tasks once, and every draft model guesses along.

Knows sessions, recordings and measurements, and in which order they are made; what they mean is forecast.py's.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from speclocal.decoding.recording import Recording, record_guesses, record_reply
from speclocal.errors import ModelError
from speclocal.jobs.calibration import (
    CalibrationProgress,
    calibration_of,
    confirmed_calibration,
    known_speeds,
    speeds_of,
)
from speclocal.jobs.doctor import Candidate, Examination, Measured, ranked
from speclocal.jobs.forecast import Forecast, forecast
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.jobs.tasks import Task, built_in_tasks
from speclocal.llama.devices import devices_for
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement

TrialProgress = Callable[[str, str], None]
"""Called before a task is tried: the names of the model and of the task."""


@dataclass(frozen=True)
class Trial:
    """How models are tried on the built-in tasks: where they run, and who is told how far it is."""

    placement: Placement
    draft_placement: Placement
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
        with self._opened(target, self.layout) as session:
            raw = bool(examined.facts.chat_template_problem)
            tasks, notes = _fitting_tasks(session, examined.num_tokens, raw=raw)
            examined = replace(examined, notes=notes)
            if not tasks:
                return examined
            settings = ReplySettings(max_tokens=examined.num_tokens)
            session.open_context(max(len(prompt) for _, prompt in tasks), settings)
            examined = replace(examined, notes=(*notes, *session.notes))
            assert session.target is not None
            if not session.target.can_rollback:
                speeds = speeds_of(session.target.weights, self.measuring)
                return replace(examined, measured=Measured(False, speeds, ()))
            known = confirmed_calibration(session.target, self.measuring, deep=True)
            examined = replace(examined, measured=Measured(True, known.speeds, known.exact))

            droppable = session.target.num_droppable
            ends, recorded = session.vocab.ends, []
            for task, prompt in tasks:
                self.trying(target.name, task.name)
                recording = record_reply(session.target, prompt, examined.num_tokens, ends, known, time.perf_counter)
                recorded.append((task, recording))
            alone = Forecast(tuple(forecast(task, recording, known, droppable) for task, recording in recorded))
            tried = [self._try(session, candidate, recorded) for candidate in examined.candidates]
            return replace(examined, alone=alone, candidates=ranked(tried))

    def _opened(self, target: ModelFile, layout: Layout | None) -> Session:
        return Session(target, None, self.placement, self.measuring, layout, draft_placement=self.draft_placement)

    def _settle_layout(self, target: ModelFile) -> None:
        """Measure the layouts of the weights if that was not done: the trial then has that of later replies."""
        if self.placement.rpc or devices_for(self.placement):  # on a GPU there is one layout
            return
        known = (known_speeds(target.path, self.placement.in_layout(layout)) for layout in Layout)
        if not all(known):
            with self._opened(target, None) as session:
                session.compare_layouts()

    def _try(self, session: Session, candidate: Candidate, recorded: Sequence[tuple[Task, Recording]]) -> Candidate:
        """Return what a candidate does on the recorded replies."""
        if candidate.obstacle or candidate.facts is None:
            return candidate
        num_notes = len(session.notes)
        try:
            session.draft_with(candidate.facts.file)
            if session.draft is None:  # the session says why
                said = "; ".join(session.notes[num_notes:])
                return replace(candidate, obstacle=said.removeprefix(f"`{candidate.name}` cannot draft: "))
            return self._tried(session, candidate, recorded)
        except ModelError as exc:
            return replace(candidate, obstacle=exc.message)

    def _tried(self, session: Session, candidate: Candidate, recorded: Sequence[tuple[Task, Recording]]) -> Candidate:
        assert session.target is not None
        assert session.draft is not None
        known = calibration_of(session.target.weights, self.measuring)
        draft_known = confirmed_calibration(session.draft, self.measuring)
        droppable = session.target.num_droppable
        num_shared = min(session.target.vocab_size, session.draft.vocab_size)
        forecasts = []
        for task, recording in recorded:
            self.trying(candidate.name, task.name)
            guesses = record_guesses(session.draft, recording, num_shared, draft_known, time.perf_counter)
            forecasts.append(forecast(task, recording, known, droppable, guesses, draft_known))
        measured = Measured(True, draft_known.speeds, draft_known.exact)
        return replace(candidate, measured=measured, forecast=Forecast(tuple(forecasts)))


def _fitting_tasks(
    session: Session, num_tokens: int, *, raw: bool
) -> tuple[list[tuple[Task, list[int]]], tuple[str, ...]]:
    """Return the built-in tasks that fit the context the model was trained on, with their ids, and what is left out."""
    fitting, notes = [], []
    for task in built_in_tasks():
        prompt = prompt_tokens(session, task.text, raw=raw)
        if len(prompt) + num_tokens <= session.trained_context:
            fitting.append((task, prompt))
        else:
            notes.append(
                f"`{task.name}` is left out: {len(prompt)} tokens and a reply of {num_tokens} do not fit the context "
                f"of {session.trained_context} that `{session.target_name}` was trained on"
            )
    return fitting, tuple(notes)
