"""What the tests of the command line share: how a command is run, what it leaves, and which models it finds.

Knows the words of the command line, not pytest.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUMMARY = re.compile(
    r"[\d,]+ tokens? in [\d.,]+ (?:ms|s)(?:: [\d.,]+ tokens/s)?(?:, about [\d.,]+x plain)?"
    r"(?:, \d+ rounds, [\d.,]+ tokens per round(?:, acceptance \d\.\d\d)?)?"
    r", prompt: [\d,]+ tokens? in [\d.,]+ (?:ms|s)\n"
    r"(?:rounds: [^\n]+; time: [^\n]+\n)?(?:draft model off: [^\n]+\n)?"
)
"""The line at the end of every reply, and what mode `auto` says of itself below it."""

COMMAND = [sys.executable, "-m", "speclocal"]


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on stdout; anything else there is an error."""
        value: dict[str, Any] = json.loads(self.out)
        return value


Run = Callable[..., Ran]


@dataclass(frozen=True)
class Models:
    """Tiny model files that lie in one folder."""

    folder: Path
    target: str = "target.gguf"
    draft: str = "draft.gguf"  # guesses well for `target`
    stranger: str = "stranger.gguf"  # has another vocabulary
    sentencepiece: str = "sentencepiece.gguf"  # has a vocabulary of another kind
    recurrent: str = "recurrent.gguf"  # has a cache that cannot drop tokens
    short: str = "short.gguf"  # was trained on 64 tokens
    cut: str = "cut.gguf"  # ends in the middle
    unloadable: str = "unloadable.gguf"  # has a sound header, and llama.cpp makes nothing of it
    page: str = "page.gguf"  # is an HTML page
