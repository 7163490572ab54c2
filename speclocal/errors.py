"""The error tree: what went wrong, and the way out.

SpeclocalError          anything a person can act on
├── UsageError          the command or its input is wrong (exit code 2)
├── ModelError          a model cannot be found, read, loaded or run
│   ├── DownloadError   a model cannot be fetched
│   ├── DamagedModelError a model's file is not whole, or not what it says
│   ├── OutOfMemoryError a model, or its context, does not fit in memory
│   ├── WorkerError     another machine went away with its part of a model
│   └── PairError       a draft model does not fit its target
├── LogitsError         a model produced numbers that are not a distribution
└── ContextError        the text does not fit the context

Knows no library: llama.cpp's and the Hub's errors are translated where they are raised.
"""

from pathlib import Path


class SpeclocalError(Exception):
    """Something a person can act on: what happened, with the value, and what to do next."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(SpeclocalError):
    """The command or its input is wrong."""

    exit_code = 2


class ModelError(SpeclocalError):
    """A model cannot be found, read, loaded or run."""


class DownloadError(ModelError):
    """A model cannot be fetched."""


class DamagedModelError(ModelError):
    """A model's file is not whole, or not what it says.

    reason: what is wrong with it, in words that follow its name and a colon.
    """

    def __init__(self, path: Path, reason: str, hint: str = "fetch it again") -> None:
        super().__init__(f"`{path.name}` is damaged: {reason}", hint)
        self.path = path
        self.reason = reason


class OutOfMemoryError(ModelError):
    """A model, or its context, does not fit in memory."""


class WorkerError(ModelError):
    """Another machine went away with its part of a model."""


class PairError(ModelError):
    """A draft model does not fit its target."""


class LogitsError(SpeclocalError):
    """A model produced numbers that are not a distribution."""


class ContextError(SpeclocalError):
    """The text does not fit the context."""

    exit_code = 2
