"""The tasks that modes are compared on where nothing else is asked for.

Knows texts of our own; models and modes are others' business.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True)
class Task:
    """Something a person asks for: one turn of a chat. kind: what the person is doing."""

    name: str
    kind: str
    text: str


def built_in_tasks() -> tuple[Task, ...]:
    """Return one task of every kind: chat, summary, code edit, extraction, prose."""
    entries = tomllib.loads(files("speclocal").joinpath("tasks.toml").read_text(encoding="utf-8"))["tasks"]
    return tuple(Task(entry["name"], entry["kind"], entry["text"].strip()) for entry in entries)
