"""Who drafts a reply: a mode and what was measured of the models become a planner.

Knows open models and measurements; contexts and memory are session.py's.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from speclocal.decoding.costs import Calibration, PassCosts
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.drafters.model import ModelDrafter
from speclocal.decoding.planner import AutoPlanner, FixedPlanner
from speclocal.decoding.types import Planner
from speclocal.errors import SpeclocalError
from speclocal.jobs.calibration import CalibrationProgress, calibration_of, confirmed_calibration, forget_disproved
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.llama.layouts import TwoLayouts
from speclocal.llama.model import LlamaModel

FIXED_LENGTH = {Mode.LOOKUP: 8, Mode.DRAFT: 4}
"""Draft lengths where none is asked for."""
AUTO_TAIL = 256
"""How much of a long text a draft model reads in mode `auto`: its guesses hardly need more, and reading costs."""


def fixed_planner(mode: Mode, size: int | None, draft: ModelDrafter | None) -> FixedPlanner:
    """Return the planner of a mode that leaves nothing to decide; without a `size` drafts have the mode's own."""
    if mode is Mode.OFF:
        return FixedPlanner(NoDrafter(), 0)
    drafter = LookupDrafter() if mode is Mode.LOOKUP or draft is None else draft
    return FixedPlanner(drafter, size or FIXED_LENGTH[mode])


def auto_planner(
    calibration: Calibration,
    num_droppable: int,
    draft: ModelDrafter | None = None,
    draft_calibration: Calibration | None = None,
) -> AutoPlanner:
    """Return the planner of mode `auto` that knows measured costs and has learned nothing yet.

    num_droppable: how many tokens of a pass the target drops at no cost.
    """
    draft_costs = PassCosts(draft_calibration.undisturbed()) if draft_calibration else None
    lookup = LookupDrafter(min_match=1)
    return AutoPlanner(PassCosts(calibration.undisturbed()), lookup, draft, draft_costs, num_droppable=num_droppable)


class Planners:
    """Makes the planner of every reply for a target and perhaps a draft model; models are measured when that is due."""

    def __init__(
        self,
        target: LlamaModel | TwoLayouts,
        draft: LlamaModel | None,
        measuring: CalibrationProgress,
        notes: list[str],
    ) -> None:
        """notes: grows by what a person should know about the planners that are made."""
        self._target = target
        self._draft = draft
        self._measuring = measuring
        self._notes = notes
        self._auto: AutoPlanner | None = None  # kept over replies: it goes on learning
        self._draft_calibration: Calibration | None = None

    def close(self) -> None:
        """Forget a calibration that the target's own passes have disproved."""
        if self._auto:
            with suppress(OSError, SpeclocalError):  # the file may be gone by now
                forget_disproved(self._target.weights, self._auto.pricing.costs.seconds(1))

    def mode_used(self, settings: ReplySettings) -> Mode:
        """Return what a mode amounts to with these models."""
        if not self._target.can_rollback:
            return Mode.OFF
        wanted = settings.mode
        if wanted is Mode.AUTO and settings.num_draft_tokens is not None:
            wanted = Mode.DRAFT  # a fixed length leaves auto nothing to decide
        return Mode.LOOKUP if wanted is Mode.DRAFT and self._draft is None else wanted

    def planner(self, settings: ReplySettings, *, afresh: bool = False) -> Planner:
        """Return who decides over the drafts of a reply. afresh: one that has learned nothing from earlier replies."""
        mode = self.mode_used(settings)
        if settings.strict and mode is not Mode.OFF:
            return self._strict(mode)
        if mode is Mode.AUTO:
            if afresh:
                return self.fresh_auto()
            self._auto = self._auto or self.fresh_auto()
            return self._auto
        return fixed_planner(mode, settings.num_draft_tokens, self._model_drafter() if self._draft else None)

    def fresh_auto(self) -> AutoPlanner:
        """Return a planner of mode `auto` that knows the measured costs and has learned nothing yet."""
        return self._auto_planner(calibration_of(self._target.weights, self._measuring))

    def _auto_planner(self, calibration: Calibration, *, with_draft: bool = True) -> AutoPlanner:
        if self._draft is None or not with_draft:
            return auto_planner(calibration, self._target.num_droppable)
        self._draft_calibration = self._draft_calibration or confirmed_calibration(self._draft, self._measuring)
        drafter = self._model_drafter(AUTO_TAIL)
        return auto_planner(calibration, self._target.num_droppable, drafter, self._draft_calibration)

    def _strict(self, mode: Mode) -> Planner:
        """Return a planner for passes of exact widths only, which makes the text that of plain decoding bit for bit."""
        calibration = calibration_of(self._target.weights, self._measuring, deep=True)
        shallow, deep = calibration.exact
        if deep.widths == (1,):
            until = f"past {shallow.depth} tokens of context, " if len(shallow.widths) > 1 else ""
            self._notes.append(
                f"strict: {until}no pass over several tokens computes the bits of one-token passes here, so decoding "
                "is plain there; `--kv-type bf16` can change that"
            )
        planner = self._auto_planner(calibration, with_draft=mode is not Mode.LOOKUP)
        planner.exact_widths = partial(calibration.rereadable_widths, num_droppable=self._target.num_droppable)
        return planner

    def _model_drafter(self, tail: int | None = None) -> ModelDrafter:
        assert self._draft is not None
        return ModelDrafter(self._draft, min(self._draft.vocab_size, self._target.vocab_size), tail)
