"""Models opened once and reused over replies: weights, contexts, and who can draft.

Knows what must fit before anything runs, and in which order it is checked; shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from speclocal.decoding.costs import Calibration, Speeds
from speclocal.errors import ContextError, OutOfMemoryError, PairError, UsageError
from speclocal.jobs.calibration import CalibrationProgress, calibration_of
from speclocal.jobs.drafting import Planners
from speclocal.jobs.layouts import layout_speeds, open_reader, writing_layout
from speclocal.jobs.modes import Mode
from speclocal.jobs.placing import Places
from speclocal.jobs.prompts import KeptPrompts, find_kept
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.llama.context import kv_bytes
from speclocal.llama.formats import Layout
from speclocal.llama.grants import free_memory
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.remote import open_context
from speclocal.llama.vocab import Vocab, compare_vocabularies
from speclocal.llama.weights import Weights

_CONTEXT_SHARE = 0.45
"""How much of the free memory contexts may take: less than half, since the prompt may be read in a second layout."""


@dataclass(frozen=True)
class ModelFile:
    """A model on this disk, and what a person calls it."""

    name: str
    path: Path


class Session:
    """A target and perhaps a draft model, with their contexts. Use it as a context manager: it frees them."""

    def __init__(
        self,
        target: ModelFile,
        draft: ModelFile | None,
        placement: Placement,
        measuring: CalibrationProgress = lambda name, share: None,
        layout: Layout | None = None,
        *,
        draft_placement: Placement | None = None,
        context: int | None = None,
    ) -> None:
        """Load the weights and check that they fit each other.

        draft_placement: of the draft model; None for that of the target.
        context: the size that will be asked for, if any; layers are placed beside it.
        measuring: told how far the measurements are that mode `auto` needs once per model and machine.
        layout: of the weights; None takes what is fastest where that is known.
        Raises ModelError when a file cannot be loaded, OutOfMemoryError when the target does not fit in memory,
        PairError when the vocabularies differ, UsageError when there are no such devices.
        """
        self.notes: list[str] = []  # what a person should know, each said once
        self.target: LlamaModel | TwoLayouts | None = None
        self.draft: LlamaModel | None = None
        self._measuring = measuring
        self._layout = layout
        self._planners: Planners | None = None  # of the open contexts
        self._kept: KeptPrompts | None = None  # where prompts are kept on disk
        self._reader: Weights | None = None
        self._draft_weights: Weights | None = None
        writing = layout or writing_layout(target.path, placement)
        self._places = Places(
            placement.in_layout(writing),
            draft_placement or placement.for_draft(None),
            context,
            fixed_layout=bool(layout),
        )
        self._target_weights = self._places.load_target(target.path, target.name)
        try:
            if draft is not None:
                with self._lookup_without_room():
                    self._draft_weights = self._load_draft(draft)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def vocab(self) -> Vocab:
        return self._target_weights.vocab

    @property
    def target_name(self) -> str:
        return self._target_weights.name

    @property
    def draft_name(self) -> str | None:
        return self.draft.weights.name if self.draft else None

    @property
    def trained_context(self) -> int:
        return self._target_weights.trained_context

    @property
    def context_size(self) -> int:
        """How many tokens the open context holds."""
        assert self.target is not None, "open_context comes first"
        return self.target.context_size

    @property
    def context_bytes(self) -> float:
        """About how many bytes every token of a context takes."""
        return sum(kv_bytes(weights) for weights in (self._target_weights, self._draft_weights) if weights is not None)

    @property
    def largest_context(self) -> int:
        """The most tokens that the training of the target and the free memory allow."""
        affordable = int(_CONTEXT_SHARE * free_memory() / max(1.0, self.context_bytes))
        return max(1, min(self._places.largest_context(self.trained_context), affordable))

    def open_context(
        self,
        num_prompt_tokens: int,
        settings: ReplySettings,
        asked: int | None = None,
        keep: Sequence[int] | None = None,
    ) -> None:
        """Create the contexts, large enough for a prompt and its reply or as large as `asked`.

        keep: the first prompt, if processed prompts shall be looked for and kept on disk.
        Raises ContextError when the prompt does not fit.
        """
        trained = self.trained_context
        kept = find_kept(self._target_weights, keep) if keep else None
        needed = max(num_prompt_tokens + settings.max_tokens, kept.num_tokens if kept else 0)
        size = asked or min(needed, trained)
        if size > trained:
            self.notes.append(f"a context of {size} tokens is more than the {trained} the model was trained on")
        if num_prompt_tokens > size:
            raise ContextError(
                f"the prompt has {num_prompt_tokens} tokens; the context of `{self._target_weights.name}` holds {size}",
                f"give a `--ctx` of at least {num_prompt_tokens + 1}"
                if num_prompt_tokens < trained
                else "shorten the input",
            )
        self._make_room(size)
        self.target = writer = open_context(self._target_weights, size)
        if self._layout is None:
            may_measure = settings.mode is Mode.AUTO
            num_unread = num_prompt_tokens - (kept.num_shared if kept else 0)
            self._reader = open_reader(self._target_weights, num_unread, self._measuring if may_measure else None)
        if self._reader is not None:
            self.target = TwoLayouts(writer, open_context(self._reader, size))
        if keep is not None:
            self._kept = KeptPrompts(self.target)
        if not writer.can_rollback:
            self.notes.append("drafting is off: the cache of this model can neither drop tokens nor be copied")
        self._prepare_drafting(size)

    def reply(self, prompt: Sequence[int], settings: ReplySettings, *, afresh: bool = False) -> Reply:
        """Return a reply to iterate over. Contexts must be open; what the cache shares with `prompt` is reused.

        afresh: drafted as in a first reply, by a planner that has learned nothing from earlier ones.
        Raises ModelError when a worker took the model along and it cannot be loaded anew; it is tried at every call.
        """
        assert self.target is not None, "open_context comes first"
        if self._target_weights.lost:
            self._load_anew()
        if not prompt:
            raise UsageError("the prompt is empty", "give some text")
        if len(prompt) > self.target.context_size:
            raise ContextError(
                f"the prompt has {len(prompt)} tokens, the context holds {self.target.context_size}",
                "give a larger `--ctx`, or shorten the input",
            )
        planner = self._open_planners.planner(settings, afresh=afresh)
        return Reply(self.target, self.vocab, planner, list(prompt), settings, self._kept)

    def keep_cache(self) -> None:
        """Keep what the target has read and written on disk, if it is worth it, for `recall` in any later session."""
        assert self.target is not None, "open_context comes first"
        KeptPrompts(self.target).keep(len(self.target.cached))

    def recall(self, tokens: Sequence[int]) -> None:
        """Bring the beginning of `tokens` into the target's cache, if it is kept on disk and worth it."""
        assert self.target is not None, "open_context comes first"
        KeptPrompts(self.target).recall(tokens)

    def draft_with(self, draft: ModelFile | None) -> None:
        """Draft with another model from here on, or with none. Contexts must be open.

        A model that cannot be loaded, or does not fit the target, is an error and changes nothing.
        """
        size, weights = self.context_size, self._load_draft(draft) if draft else None
        self._close_draft()
        self._draft_weights = weights
        self._prepare_drafting(size)

    def mode_used(self, settings: ReplySettings) -> Mode:
        """Return what a mode amounts to with these models and settings."""
        return self._open_planners.mode_used(settings)

    def close(self) -> None:
        """Free contexts, then weights. Safe to call twice."""
        if self._planners:
            self._planners.close()
        self._planners = None
        for owner in (self.draft, self.target, self._reader, self._draft_weights, self._target_weights, self._places):
            if owner is not None:
                owner.close()

    def calibrate(self) -> dict[str, Calibration]:
        """Measure the models anew, as they are placed, and return what was found by name."""
        models = (self._target_weights, self._draft_weights)
        return {w.name: calibration_of(w, self._measuring, deep=True, anew=True) for w in models if w is not None}

    def compare_layouts(self) -> dict[Layout, Speeds]:
        """Return how fast the target reads and writes in each layout of its weights, measured if it is not known."""
        return layout_speeds(self._target_weights, self._measuring)

    def _load_anew(self) -> None:
        """Load the target again after a worker took a part of it along; its cache is empty then."""
        lost, size = self._target_weights, self.context_size
        weights = Weights(lost.path, lost.placement, lost.name)
        try:
            target = open_context(weights, size)
        except BaseException:
            weights.close()
            raise
        lost.close()
        self.target, self._target_weights = target, weights
        self._kept = self._kept and KeptPrompts(target)
        if self.draft is not None:
            self.draft.close()
            self.draft = None
        if self._draft_weights is lost:
            self._draft_weights = weights
        self._prepare_drafting(size)

    def _load_draft(self, draft: ModelFile) -> Weights:
        """Return the weights of a draft model that fits the target, which may draft for itself."""
        if draft.path == self._target_weights.path:
            return self._target_weights
        weights, note = self._places.load_draft(draft.path, draft.name)
        try:
            _check_pair(self._target_weights, weights)
        except BaseException:
            weights.close()
            raise
        self._note(note)
        return weights

    def _make_room(self, size: int) -> None:
        """Place the weights beside a context of this size: the target first, the draft model in what is left."""
        self._places.place_target(size)
        self.notes += self._places.notes
        draft = self._draft_weights
        if draft is not None and draft is not self._target_weights:
            with self._lookup_without_room():
                self._note(self._places.move_draft(draft))
        self._places.move_target(self._target_weights)

    @contextmanager
    def _lookup_without_room(self) -> Iterator[None]:
        """Go on without a draft model where there is no memory for it, and say so."""
        try:
            yield
        except OutOfMemoryError as error:
            self._close_draft()
            self.notes.append(f"{error.message}: drafting by prompt lookup")

    def _note(self, note: str) -> None:
        if note:
            self.notes.append(note)

    def _close_draft(self) -> None:
        """Free the draft model."""
        if self.draft is not None:
            self.draft.close()
        if self._draft_weights is not None and self._draft_weights is not self._target_weights:
            self._draft_weights.close()
        self.draft = self._draft_weights = None

    def _prepare_drafting(self, size: int) -> None:
        """Open the draft model's context, if there is one that can draft, and decide anew who drafts."""
        assert self.target is not None
        if self._draft_weights is not None and self.target.can_rollback:
            with self._lookup_without_room():
                draft, note = self._places.draft_context(self._draft_weights, size)
                self._note(note)
                if draft.can_rollback:
                    self.draft = draft
                else:
                    self.notes.append(
                        f"`{self._draft_weights.name}` cannot draft: its cache can neither drop tokens nor be copied"
                    )
                    draft.close()
        self._planners = Planners(self.target, self.draft, self._measuring, self.notes)

    @property
    def _open_planners(self) -> Planners:
        assert self._planners is not None, "open_context comes first"
        return self._planners


def _check_pair(target: Weights, draft: Weights) -> None:
    """Raise PairError unless every token id that both have means the same text."""
    if obstacle := compare_vocabularies(target.vocab, draft.vocab).obstacle:
        raise PairError(
            f"`{draft.name}` cannot draft for `{target.name}`: {obstacle}",
            f"run `speclocal doctor {target.name} {draft.name}` to see what differs, "
            "or leave out `--draft` to draft by prompt lookup",
        )
