"""What the benchmarks ask for: the built-in tasks, and more of the kind from prompts.toml.

Knows texts only.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from speclocal.jobs.tasks import built_in_tasks

PROMPTS = Path(__file__).with_name("prompts.toml")


@dataclass(frozen=True)
class Prompt:
    """A user's turn of a chat. traces_only: recorded for replay, not run against other engines."""

    name: str
    kind: str
    text: str
    traces_only: bool = False


def load_prompts() -> list[Prompt]:
    """Return all prompts: the tasks first, the rest in the order of the file."""
    with PROMPTS.open("rb") as file:
        entries = tomllib.load(file)["prompts"]
    tasks = [Prompt(task.name, task.kind, task.text) for task in built_in_tasks()]
    return tasks + [Prompt(**{**entry, "text": entry["text"].strip()}) for entry in entries]
