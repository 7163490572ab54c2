"""Run drafting modes side by side, so that nothing but the mode differs between two replies.

Knows open models, tasks and modes, and the order of runs; what the numbers mean is measures.py's.

Fair by construction:
- One context for every run: same threads, size, formats and attention.
- A prompt is processed once. Its state is kept and restored before every run, that of the draft model likewise where
  the mode is to draft with it. So decode seconds hold no prompt processing; request_seconds add what the mode needs.
- Before the first run that counts, every mode writes a few tokens that do not.
- Runs are interleaved: all modes once, then all again, beginning with another one every time, so that a machine that
  becomes slower does so for all of them.
- Mode `auto` begins every run as in a first reply: with the measured costs, with nothing learned from earlier runs, and
  with a draft model that has read nothing. To keep it over the runs would let it learn the very text it is timed on.
  What the draft model then reads is part of auto's decision, and so of its decode time.
- The time in which progress is shown is taken out of the time of the reply.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from speclocal.errors import ContextError, UsageError
from speclocal.jobs.calibration import CalibrationProgress
from speclocal.jobs.circumstances import Hashing
from speclocal.jobs.comparison import PLAIN, ReplyRounds, RoundRecord, TaskRecord
from speclocal.jobs.forks import Pass, fork_of
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.recording import fork_record, nothing_yet, run_record, task_record
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import Session
from speclocal.jobs.starts import Starts
from speclocal.jobs.tasks import Task
from speclocal.jobs.trace import rounds_of
from speclocal.jobs.wanted import ComparedMode, Wanted

T = TypeVar("T")


@dataclass(frozen=True)
class Progress:
    """How far a comparison is. doing: in words; share: of all runs; seconds_left: None before the first run."""

    doing: str
    share: float
    seconds_left: float | None


class Comparing:
    """A comparison as it grows: iterate for progress. `so_far` may be asked for at any time, also after a stop."""

    def __init__(
        self,
        session: Session,
        wanted: Wanted,
        hashing: Hashing = lambda name: None,
        measuring: CalibrationProgress = lambda name, share: None,
    ) -> None:
        """Open contexts, and measure the models if that was not done before.

        Raises ContextError for a task that does not fit, UsageError for a mode that these models do not allow, unless
        such may be skipped: then with a note of the session.
        """
        self._session = session
        self._prompts = _prompts(session, wanted)
        longest = max(map(len, self._prompts.values()))
        session.open_context(longest, ReplySettings(max_tokens=wanted.max_tokens))
        tasks = tuple(task for task in wanted.tasks if task.name in self._prompts)
        self._wanted = replace(wanted, tasks=tasks, modes=_possible(session, wanted))
        self._began = time.perf_counter()
        self._explained: set[tuple[str, str, tuple[int, ...]]] = set()  # texts by task and mode that were looked into
        self._num_done = 0.0  # runs, with the share of the one that is being made
        self.so_far = nothing_yet(session, self._wanted, hashing, measuring)

    def __iter__(self) -> Iterator[Progress]:
        self._began = time.perf_counter()
        for number, task in enumerate(self._wanted.tasks):
            yield from self._compare(task, number)
        self.so_far = replace(self.so_far, complete=True)

    def _compare(self, task: Task, number: int) -> Iterator[Progress]:
        """Run every mode on one task, the one with this number."""
        prompt, modes = self._prompts[task.name], self._wanted.modes
        starts = Starts(self._session, prompt, modes)
        for done in starts.target.process():
            yield self._progress(f"{task.name}: {done} of {len(prompt)} prompt tokens read")
        for done in starts.draft.process() if starts.draft else ():
            yield self._progress(f"{task.name}: {done} of {len(prompt)} prompt tokens read by the draft model")
        record = task_record(task, len(prompt), starts)
        self.so_far = replace(self.so_far, tasks=(*self.so_far.tasks, record))

        for mode in modes:
            yield self._progress(f"{task.name}: warming up {mode.name}")
            starts.restore(mode)
            settings = replace(self._wanted.settings(mode, 0), max_tokens=self._wanted.warm_up_tokens)
            for _ in self._session.reply(prompt, settings, afresh=True):
                pass
        for repeat in range(self._wanted.repeats):
            passes = {}
            for mode in rotated(modes, number + repeat):
                starts.restore(mode)
                passes[mode] = yield from self._write(record, mode, repeat)
            starts.target.restore()
            self._explain_forks(task, repeat, passes)

    def _write(self, task: TaskRecord, mode: ComparedMode, repeat: int) -> Generator[Progress, None, list[Pass]]:
        """Make one run; return the target's passes."""
        settings, num_before, shown_seconds = self._wanted.settings(mode, repeat), self._num_done, 0.0
        rounds: list[RoundRecord] = []  # a round itself holds distributions, which are large
        reply = self._session.reply(self._prompts[task.name], settings, afresh=True)
        for round_ in rounds_of(reply):
            rounds.append(RoundRecord.of(round_, task.prompt_tokens))
            self._num_done = num_before + reply.stats.tokens / settings.max_tokens
            paused = time.perf_counter()
            yield self._progress(f"{task.name}: {mode.name}, {repeat + 1} of {self._wanted.repeats}")
            shown_seconds += time.perf_counter() - paused
        self._num_done = num_before + 1
        decode_seconds = reply.stats.decode_seconds - shown_seconds
        place = len(self.so_far.runs)
        run = run_record(task, mode, repeat, place, settings.seed, reply, rounds, decode_seconds)
        self.so_far = replace(self.so_far, runs=(*self.so_far.runs, run))
        if repeat == 0:
            told = ReplyRounds(task.name, mode.name, reply.text, tuple(rounds))
            self.so_far = replace(self.so_far, replies=(*self.so_far.replies, told))
        return [Pass(each.drafted + 1, each.emitted) for each in rounds]

    def _explain_forks(self, task: Task, repeat: int, passes: Mapping[ComparedMode, list[Pass]]) -> None:
        """Find out why modes left plain decoding in one repeat, where they must not; once for every text they wrote.

        The target's cache holds the prompt but for its last token.
        """
        if not self.so_far.conditions.texts_comparable:
            return
        target, prompt = self._session.target, self._prompts[task.name]
        assert target is not None
        written = {run.mode: run.token_ids for run in self.so_far.runs if (run.task, run.repeat) == (task.name, repeat)}
        for mode in passes:
            other = written[mode.name]
            if mode.name == PLAIN or (task.name, mode.name, other) in self._explained:
                continue
            self._explained.add((task.name, mode.name, other))
            settings = self._wanted.settings(mode, repeat)
            fork = fork_of(target, prompt, written[PLAIN], other, passes[mode], settings.rule(), settings.params)
            if fork:
                record = fork_record(fork, task.name, mode, repeat, self._session.vocab)
                self.so_far = replace(self.so_far, forks=(*self.so_far.forks, record))

    def _progress(self, doing: str) -> Progress:
        share = self._num_done / (len(self._wanted.tasks) * len(self._wanted.modes) * self._wanted.repeats)
        taken = time.perf_counter() - self._began
        return Progress(doing, share, taken * (1 - share) / share if share else None)


def rotated(modes: Sequence[T], by: int) -> list[T]:
    """Return `modes` in their order, beginning with a later one."""
    first = by % len(modes)
    return [*modes[first:], *modes[:first]]


def _prompts(session: Session, wanted: Wanted) -> dict[str, list[int]]:
    """Return the token ids of every task that fits the context the model was trained on, by name."""
    fitting = {}
    for task in wanted.tasks:
        tokens = prompt_tokens(session, task.text, raw=wanted.raw)
        if len(tokens) + wanted.max_tokens <= session.trained_context:
            fitting[task.name] = tokens
            continue
        problem = (
            f"{len(tokens)} tokens and a reply of {wanted.max_tokens} do not fit the context of "
            f"{session.trained_context} that `{session.target_name}` was trained on"
        )
        if not wanted.may_skip_tasks:
            raise ContextError(f"`{task.name}`: {problem}", "give a shorter text, or a smaller `--max-tokens`")
        session.notes.append(f"`{task.name}` is left out: {problem}")
    if not fitting:
        raise ContextError(
            f"no task fits the context of {session.trained_context} that `{session.target_name}` was trained on",
            "give a prompt of your own, or a smaller `--max-tokens`",
        )
    return fitting


def _possible(session: Session, wanted: Wanted) -> tuple[ComparedMode, ...]:
    """Return the modes that run with the open models as they are, and not as another one."""
    possible = []
    for mode in wanted.modes:
        used = session.mode_used(wanted.settings(mode, 0))
        if used is mode.mode:
            possible.append(mode)
            continue
        reason = "no draft model" if used is Mode.LOOKUP else "the target's cache can neither drop tokens nor be copied"
        if not wanted.may_skip_modes:
            raise UsageError(f"mode `{mode.name}` cannot run: {reason}", "leave it out of `--modes`")
        session.notes.append(f"`{mode.name}` is left out: {reason}")
    if len(possible) < 2:
        raise UsageError("there is nothing to compare with plain decoding", "see the notes above")
    return tuple(possible)
