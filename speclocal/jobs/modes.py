"""The choices of a job by name.

Knows words only, so that the command line can offer them without loading anything.
"""

from enum import StrEnum

MAX_DRAFT_TOKENS = 64
MAX_SEED = 2**63 - 1
TASK_TOKENS = 128
"""Longest reply to a built-in task where no other length is asked for, so that figures can be set side by side."""


class Mode(StrEnum):
    """Who drafts."""

    AUTO = "auto"
    OFF = "off"
    LOOKUP = "lookup"
    DRAFT = "draft"


class Style(StrEnum):
    """The form of a summary."""

    PARAGRAPH = "paragraph"
    BULLETS = "bullets"
    TLDR = "tldr"


class LayoutChoice(StrEnum):
    """How weights lie in a CPU's memory; auto takes what is fastest for the job, where that is known."""

    AUTO = "auto"
    FILE = "file"
    REPACKED = "repacked"


class Server(StrEnum):
    """A server that a pair can be exported to."""

    LLAMA = "llama-server"
    VLLM = "vllm"
