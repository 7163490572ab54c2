"""Answer a prompt.

Knows models by name and prompts as text, and how they become a session and token ids; shows nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from speclocal.errors import UsageError
from speclocal.jobs.calibration import CalibrationProgress
from speclocal.jobs.modes import Mode
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.models.catalog import ModelSpec, load_catalog
from speclocal.models.references import resolve
from speclocal.models.sources import fetch
from speclocal.text.template import Message, chat_prompt, raw_prompt

FetchProgress = Callable[[str, int, int | None], None]
"""Called while a model is fetched: its name, bytes so far, bytes in all where known."""


def ignore(*_: object) -> None:
    """Be the progress nobody asked for."""


@dataclass(frozen=True)
class Choice:
    """The models of a session; they need not be on this disk yet."""

    target: ModelSpec
    draft: ModelSpec | None


def choose_models(target: str, draft: str, mode: Mode = Mode.AUTO) -> Choice:
    """Return the specs of two references; an empty target is the default model, a pair brings its draft model.

    A mode that does not draft with a model gets none. Raises UsageError when mode `draft` has none to use.
    """
    catalog = load_catalog()
    reference = resolve(target or catalog.default, catalog)
    draft_spec = resolve(draft, catalog).target if draft else reference.draft
    if mode is Mode.DRAFT and draft_spec is None:
        raise UsageError("mode `draft` needs a draft model", "give one with `--draft`, or use `--mode lookup`")
    return Choice(reference.target, draft_spec if mode in (Mode.AUTO, Mode.DRAFT) else None)


def choose_candidates(target: str, drafts: Sequence[str]) -> tuple[ModelSpec, tuple[ModelSpec, ...]]:
    """Return the specs of a target and of draft models to judge for it, each once; a pair brings its own."""
    catalog = load_catalog()
    reference = resolve(target or catalog.default, catalog)
    specs = [resolve(draft, catalog).target for draft in drafts]
    if reference.draft and not specs:
        specs = [reference.draft]
    return reference.target, tuple({spec.name: spec for spec in specs}.values())


def open_session(
    choice: Choice,
    placement: Placement,
    fetching: FetchProgress = ignore,
    measuring: CalibrationProgress = ignore,
    layout: Layout | None = None,
    *,
    draft_placement: Placement | None = None,
    context: int | None = None,
) -> Session:
    """Fetch what is not on this disk, and load it."""

    target = on_disk(choice.target, fetching)
    draft = on_disk(choice.draft, fetching) if choice.draft else None
    return Session(target, draft, placement, measuring, layout, draft_placement=draft_placement, context=context)


def change_draft(session: Session, name: str, fetching: FetchProgress = ignore) -> None:
    """Let a session draft with the model of a reference, fetched if it is not on this disk."""
    session.draft_with(on_disk(resolve(name, load_catalog()).target, fetching))


def on_disk(spec: ModelSpec, fetching: FetchProgress = ignore) -> ModelFile:
    """Return a model's file, fetched if it is not on this disk."""
    return ModelFile(spec.name, fetch(spec, partial(fetching, spec.name)))


def prompt_tokens(session: Session, text: str, *, raw: bool) -> list[int]:
    """Return the token ids of a prompt: as the user's turn of a chat, or with `raw` as it stands."""
    if raw:
        return raw_prompt(text, session.vocab)
    return chat_prompt([Message("user", text)], session.vocab)
