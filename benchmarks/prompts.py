"""What the benchmarks ask for, from prompts.toml.

Knows texts only.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

PROMPTS = Path(__file__).with_name("prompts.toml")


@dataclass(frozen=True)
class Prompt:
    """A user's turn of a chat. traces_only: recorded for replay, not run against other engines."""

    name: str
    kind: str
    text: str
    traces_only: bool = False


def load_prompts() -> list[Prompt]:
    """Return all prompts, in the order of the file."""
    with PROMPTS.open("rb") as file:
        entries = tomllib.load(file)["prompts"]
    return [Prompt(**{**entry, "text": entry["text"].strip()}) for entry in entries]
