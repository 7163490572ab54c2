"""Where every reply to one prompt begins: caches that hold the prompt, processed once and restored for every run.

Knows open models and token ids, not what is run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from speclocal.decoding.loop import read, reading
from speclocal.jobs.modes import Mode
from speclocal.jobs.session import Session
from speclocal.jobs.wanted import ComparedMode
from speclocal.llama.checkpoints import State
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel

_WARM_UP = 128
"""Tokens that are read once before the clock starts: the first pass also fetches the weights from the disk."""


class Start:
    """A cache as every reply to one prompt finds it: with all of the prompt but its last token."""

    def __init__(self, model: LlamaModel | TwoLayouts, tokens: Sequence[int]) -> None:
        self.seconds = 0.0  # that processing took
        self._model = model
        self._tokens = tokens
        # What is saved of a sliding window cannot be gone back in, and of nothing there is nothing to save.
        self._saved = bool(tokens) and not model.weights.has_sliding_window
        self._state: State | None = None

    def process(self) -> Iterator[int]:
        """Process the tokens, from an empty cache, and yield how many are."""
        self._model.rollback(0)
        if warm_up := self._tokens[: min(_WARM_UP, self._model.max_pass)]:
            self._model.forward(warm_up, 0)
            self._model.rollback(0)
        resumed = time.perf_counter()
        for done in reading(self._model, self._tokens):
            self.seconds += time.perf_counter() - resumed
            yield done
            resumed = time.perf_counter()
        self._state = self._model.snapshot() if self._saved else None

    def restore(self) -> None:
        """Bring the cache to what it was after processing."""
        if self._state is None:
            read(self._model, self._tokens)  # reads only what a mode that does without has thrown away
        else:
            self._model.restore(self._state, self._tokens)


class Starts:
    """Both models as every reply to one prompt finds them.

    draft: None where no mode needs it at the beginning, or it cannot hold the prompt.
    """

    def __init__(self, session: Session, prompt: Sequence[int], modes: Sequence[ComparedMode]) -> None:
        assert session.target is not None
        self.target = Start(session.target, prompt[:-1])
        self.draft: Start | None = None
        self._draft_model = draft = session.draft
        needed = any(mode.mode is Mode.DRAFT for mode in modes)
        if draft and needed and len(prompt) <= draft.context_size and max(prompt) < draft.vocab_size:
            self.draft = Start(draft, prompt[:-1])

    def restore(self, mode: ComparedMode) -> None:
        """Bring both caches to where a reply in `mode` begins."""
        self.target.restore()
        if self.draft and mode.mode is Mode.DRAFT:
            self.draft.restore()
        elif self._draft_model:
            self._draft_model.rollback(0)
