"""What is compared: modes with or without a fixed draft length, tasks, and how replies are made.

Knows what a person asks for, not what the models allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from speclocal.decoding.types import SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.modes import MAX_DRAFT_TOKENS, MAX_SEED, Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.tasks import Task, built_in_tasks


@dataclass(frozen=True)
class ComparedMode:
    """Who drafts, and how long the drafts are where that is fixed."""

    mode: Mode
    num_draft_tokens: int | None = None

    @property
    def name(self) -> str:
        return self.mode.value if self.num_draft_tokens is None else f"{self.mode.value}:{self.num_draft_tokens}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the mode of a name like `auto` or `lookup:10`. Raises UsageError where there is none such."""
        name, _, length = text.strip().partition(":")
        if name not in list(Mode):
            raise UsageError(f"there is no mode `{text.strip()}`", f"choose from {', '.join(Mode)}")
        if not length and ":" not in text:
            return cls(Mode(name))
        if name not in (Mode.LOOKUP, Mode.DRAFT):
            raise UsageError(f"mode `{name}` has no fixed draft length", f"write `{name}`, or `lookup:10`, `draft:4`")
        if not length.isdecimal() or len(length) > 9 or not 1 <= int(length) <= MAX_DRAFT_TOKENS:
            raise UsageError(
                f"`{text.strip():.40}` asks for drafts of `{length:.20}` tokens",
                f"give a number from 1 to {MAX_DRAFT_TOKENS}",
            )
        return cls(Mode(name), int(length))


def parse_modes(text: str) -> tuple[ComparedMode, ...]:
    """Return the modes of a list like `off,lookup:10,auto`, each once, with plain decoding among them.

    Raises UsageError for a name that is no mode, and where plain decoding is all there is.
    """
    named = dict.fromkeys(ComparedMode.parse(name) for name in text.split(",") if name.strip())
    plain = ComparedMode(Mode.OFF)
    modes = tuple(named) if plain in named else (plain, *named)
    if len(modes) < 2:
        raise UsageError(f"`{text}` leaves nothing to compare with plain decoding", "give `--modes off,lookup,auto`")
    return modes


def parse_tasks(text: str) -> tuple[Task, ...]:
    """Return the built-in tasks of a list of names or kinds like `chat,code edit`, each once, in their own order.

    Raises UsageError for a name that no task has.
    """
    tasks = built_in_tasks()
    wanted = {name.strip() for name in text.split(",") if name.strip()}
    for name in sorted(wanted):
        if not any(name in (task.name, task.kind) for task in tasks):
            known = ", ".join(f"{task.name} ({task.kind})" for task in tasks)
            raise UsageError(f"there is no task `{name}`", f"choose from {known}")
    if not wanted:
        raise UsageError("`--tasks` names no task", f"choose from {', '.join(task.name for task in tasks)}")
    return tuple(task for task in tasks if task.name in wanted or task.kind in wanted)


@dataclass(frozen=True)
class Wanted:
    """What is compared, and over what.

    seed: that of the first repeat, each later one takes the next; None for new random numbers in every run.
    may_skip_modes, may_skip_tasks: whether what does not fit a model is left out, with a note, or an error.
    """

    modes: tuple[ComparedMode, ...]
    tasks: tuple[Task, ...]
    params: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = 128
    repeats: int = 3
    seed: int | None = None
    raw: bool = False
    may_skip_modes: bool = False
    may_skip_tasks: bool = False
    warm_up_tokens: int = 8

    def __post_init__(self) -> None:
        names = [task.name for task in self.tasks]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"two tasks are called `{twice[0]}`", "give the file another name")

    def settings(self, mode: ComparedMode, repeat: int) -> ReplySettings:
        """Return those of one run."""
        return ReplySettings(
            mode=mode.mode,
            num_draft_tokens=mode.num_draft_tokens,
            max_tokens=self.max_tokens,
            params=self.params,
            seed=None if self.seed is None else (self.seed + repeat) % (MAX_SEED + 1),
        )
