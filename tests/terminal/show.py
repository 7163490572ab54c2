"""A program for tests of the screen: shows a reply made of given pieces. Arguments: options and pieces as JSON."""

import json
import os
import sys
import time
from types import SimpleNamespace

from speclocal.decoding.stats import Stats
from speclocal.decoding.types import Fate
from speclocal.errors import SpeclocalError
from speclocal.jobs.reply import Reading, Writing
from speclocal.terminal.cli import main  # noqa: F401 (as in a real run, it is imported)
from speclocal.terminal.console import tell
from speclocal.terminal.render import View

asked = json.loads(sys.argv[1])


class Scripted:
    """A reply that says what it is told to, and waits for a file named `go` where it is told to."""

    finish_reason: str | None = None
    stats = Stats(prompt_tokens=5, tokens=7, rounds=3, drafted=6, tested=5, accepted=4, decode_seconds=1.0)
    estimated_speedup = None

    def __iter__(self):
        yield Reading(5, 5)
        for piece, fate in asked["pieces"]:
            if fate == "wait":
                while not os.path.exists("go"):
                    time.sleep(0.01)
            elif fate == "error":
                raise SpeclocalError(piece, "try again")
            else:
                time.sleep(asked.get("pause", 0))
                yield Writing(((piece, Fate(fate)),), SimpleNamespace())


try:
    with View() as view:
        view.answer(Scripted(), show_drafts=asked.get("show_drafts", False))
except SpeclocalError as error:
    tell(error)
