"""stdout and stderr where there is none, or where it fails.

Knows streams, not what is written to them.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO


def prepare() -> None:
    """Give output a place where it has none, and let no character that a terminal lacks end it."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (open to the end)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def drop(stream: TextIO) -> None:
    """Send what is left for a stream that failed nowhere, so that Python does not fail on it again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
