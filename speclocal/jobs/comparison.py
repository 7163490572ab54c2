"""A comparison of drafting modes: everything that was measured, and enough to repeat it.

Knows what happened, not how it came about (compare.py) or what it means (measures.py). It goes to a JSON document and
comes back the same.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, Self

from speclocal.decoding.costs import WIDEST, Calibration
from speclocal.decoding.types import Round, SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.forks import Cause
from speclocal.jobs.modes import Mode
from speclocal.jobs.records import read_record

FORMAT = 1
"""Raised when an older speclocal could not read what is written."""
PLAIN = Mode.OFF.value
"""The name of the mode that all others are measured against."""
_SHORTEST, _LONGEST = 1e-9, 1e9  # seconds that anything in a comparison can take


@dataclass(frozen=True)
class Machine:
    """Where it was measured. cores: physical ones that the process may use."""

    cpu: str
    cores: int
    hardware_threads: int
    memory_bytes: int
    system: str


@dataclass(frozen=True)
class Versions:
    """What computed. llama_cpp: what llama.cpp says of its build and the processor's features."""

    speclocal: str
    llama_cpp_python: str
    llama_cpp: str
    python: str


@dataclass(frozen=True)
class ModelRecord:
    """One model file, and what its passes cost here."""

    name: str
    file: str
    size_bytes: int
    sha256: str
    calibration: Calibration


@dataclass(frozen=True)
class Conditions:
    """What was the same for every run.

    seed: that of the first repeat, each later one has the next number; None for new random numbers in every run, which
    makes every text another one unless it is greedy. layout, reading_layout: of the weights, while tokens are written
    and while prompts are read.
    """

    params: SamplingParams
    max_tokens: int
    repeats: int
    warm_up_tokens: int
    seed: int | None
    raw: bool
    context_size: int
    threads: int
    gpu_layers: int | None
    kv_type: str
    layout: str
    reading_layout: str
    flash_attention: str

    @property
    def texts_comparable(self) -> bool:
        """Whether every mode must write the same text, but for arithmetic."""
        return self.seed is not None or self.params.temperature == 0


@dataclass(frozen=True)
class TaskRecord:
    """What was asked. The prompt was processed once: its seconds for the target, and for the draft model if it was."""

    name: str
    kind: str
    text: str
    prompt_tokens: int
    prompt_seconds: float
    draft_prompt_seconds: float | None

    def __post_init__(self) -> None:
        _check_times(self.prompt_seconds, self.draft_prompt_seconds or 0.0)


@dataclass(frozen=True)
class Passes:
    """The rounds of one reply that had the same drafter and the same number of drafted tokens, summed up."""

    drafter: str
    drafted: int  # per round; the target's pass is one token wider
    rounds: int
    tested: int
    accepted: int
    emitted: int
    draft_seconds: float
    verify_seconds: float

    def __post_init__(self) -> None:
        if not 0 < self.rounds <= self.emitted:
            raise ValueError(f"{self.rounds} rounds with {self.emitted} tokens")
        _check_counts(self.drafted, self.rounds * self.drafted, self.tested, self.accepted)
        _check_times(self.draft_seconds, self.verify_seconds)


@dataclass(frozen=True)
class Run:
    """One reply. place: its number in the order in which all were made, for a drift of the machine.

    tested_at, accepted_at: by position in the draft, how many tokens there were tested and accepted. request_seconds:
    the whole request as it would have been, with the prompt processing of the models that the mode needs.
    """

    task: str
    mode: str
    repeat: int
    place: int
    seed: int | None
    finish: str
    token_ids: tuple[int, ...]
    decode_seconds: float
    request_seconds: float
    passes: tuple[Passes, ...]
    tested_at: tuple[int, ...]
    accepted_at: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _SHORTEST < self.decode_seconds <= self.request_seconds < _LONGEST:
            raise ValueError(f"a reply in {self.decode_seconds} of {self.request_seconds} seconds")
        if not 0 < self.num_tokens == sum(each.emitted for each in self.passes):
            raise ValueError(f"a reply of {self.num_tokens} tokens whose passes say otherwise")
        by_position = zip_longest(self.tested_at, self.accepted_at, fillvalue=0)
        if not all(0 <= accepted <= tested and tested > 0 for tested, accepted in by_position):
            raise ValueError("a reply that accepted more tokens than were tested, or positions without any")

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def tokens_per_second(self) -> float:
        return self.num_tokens / self.decode_seconds


@dataclass(frozen=True)
class RoundRecord:
    """One round of a reply. position: of its first token, counted from the reply's first token."""

    position: int
    drafter: str
    drafted: int
    tested: int
    accepted: int
    emitted: int
    draft_seconds: float
    verify_seconds: float

    def __post_init__(self) -> None:
        _check_counts(self.drafted, self.drafted, self.tested, self.accepted)
        if not self.accepted < self.emitted + 1 <= self.accepted + 2:
            raise ValueError(f"a round of {self.emitted} tokens, {self.accepted} of them drafted")
        _check_times(self.draft_seconds, self.verify_seconds)

    @classmethod
    def of(cls, round_: Round, num_prompt_tokens: int) -> Self:
        """Return what is kept of a round."""
        return cls(
            position=round_.position - num_prompt_tokens,
            drafter=round_.drafted_by,
            drafted=round_.num_drafted,
            tested=round_.num_tested,
            accepted=round_.num_accepted,
            emitted=len(round_.verdicts),
            draft_seconds=round_.draft_seconds,
            verify_seconds=round_.verify_seconds,
        )


@dataclass(frozen=True)
class ReplyRounds:
    """One reply of a task and mode, round by round: the first one."""

    task: str
    mode: str
    text: str
    rounds: tuple[RoundRecord, ...]


@dataclass(frozen=True)
class ForkRecord:
    """Where a run left plain decoding, and why. The words are those of forks.py; None where a text had ended."""

    task: str
    mode: str
    repeat: int
    position: int
    plain_token: int | None
    other_token: int | None
    plain_text: str
    other_text: str
    gap: float | None
    moved: float | None
    widths: tuple[int, ...]
    cause: Cause


@dataclass(frozen=True)
class Comparison:
    """Modes side by side: one target, perhaps with a draft model, on one machine. complete: False after a stop."""

    started: str  # ISO 8601, with the time zone
    machine: Machine
    versions: Versions
    target: ModelRecord
    draft: ModelRecord | None
    conditions: Conditions
    modes: tuple[str, ...]
    tasks: tuple[TaskRecord, ...]
    runs: tuple[Run, ...]
    replies: tuple[ReplyRounds, ...]
    forks: tuple[ForkRecord, ...]
    complete: bool

    def __post_init__(self) -> None:
        compared = {(task.name, mode) for task in self.tasks for mode in self.modes}
        found = {
            *((run.task, run.mode) for run in self.runs),
            *((reply.task, reply.mode) for reply in self.replies),
            *((fork.task, fork.mode) for fork in self.forks),
        }
        for task, mode in found - compared:
            raise ValueError(f"something of `{mode}` on `{task}`, which were not compared")

    @property
    def title(self) -> str:
        """The models by name, those that were given as a path by the name of the file."""
        names = [Path(model.name).name for model in (self.target, self.draft) if model]
        return " with ".join(names)

    def runs_of(self, task: str, mode: str) -> tuple[Run, ...]:
        """Return the runs of a task and mode, in the order of their repeats."""
        return tuple(run for run in self.runs if (run.task, run.mode) == (task, mode))


def _check_counts(length: int, drafted: int, tested: int, accepted: int) -> None:
    """Raise ValueError for counts that no drafts of a length can have."""
    if not 0 <= length <= WIDEST or not 0 <= accepted <= tested <= drafted:
        raise ValueError(f"drafts of {length}: {drafted} tokens drafted, {tested} tested, {accepted} accepted")


def _check_times(*times: float) -> None:
    """Raise ValueError for seconds that nothing can have taken."""
    if not all(0 <= seconds < _LONGEST for seconds in times):
        raise ValueError(f"something that took {', '.join(map(str, times))} seconds")


def to_json(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return comparisons, one for every target, as the one document that `from_json` reads."""
    return {"format": FORMAT, "comparisons": [asdict(comparison) for comparison in comparisons]}


def from_json(document: Any) -> tuple[Comparison, ...]:
    """Return the comparisons of a document. Raises ValueError where it is not one, or is damaged."""
    if not isinstance(document, dict) or "comparisons" not in document:
        raise ValueError("it is not a comparison")
    if document.get("format") != FORMAT:
        raise ValueError(f"it has form {document.get('format')}, this speclocal reads form {FORMAT}")
    found = tuple(read_record(Comparison, each) for each in document["comparisons"])
    if not found:
        raise ValueError("it holds no comparison")
    return found


def load(path: Path) -> tuple[Comparison, ...]:
    """Return the comparisons of a file. Raises UsageError when it is none, or is damaged."""
    try:
        return from_json(json.loads(path.read_text(encoding="utf-8")))
    except OSError as exc:
        raise UsageError(f"`{path}` cannot be read: {exc.strerror}", "give a file that `compare` wrote") from exc
    except (ValueError, TypeError, OverflowError, RecursionError, UsageError) as exc:
        raise UsageError(
            f"`{path}` is no report of a comparison: {exc}", "give a file that `speclocal compare --json` wrote"
        ) from exc
