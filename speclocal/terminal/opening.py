"""What commands that run models have in common: models opened as the options say, and a reply shown.

Knows options, jobs and the view; what is asked of the models is each command's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from speclocal.jobs.generate import Choice, choose_models, open_session
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply
from speclocal.jobs.session import Session
from speclocal.llama import log
from speclocal.llama.devices import devices_for
from speclocal.terminal.options import MachineOptions, ModelOptions, ReplyOptions
from speclocal.terminal.render import View, reply_json


def chosen(options: ModelOptions) -> Choice:
    """Return the models that are asked for. Raises UsageError where there are none such, or no such devices."""
    if not options.rpc:  # workers are met when the models are loaded
        devices_for(options.placement())
    devices_for(options.draft_placement(), layers_option="--draft-gpu-layers")
    mode = options.mode if isinstance(options, ReplyOptions) else Mode.AUTO
    return choose_models(options.model, options.draft, mode)


@contextmanager
def opened(choice: Choice, options: MachineOptions, view: View) -> Iterator[Session]:
    """Open models as the options say, fetched if they are not on this disk; the view shows what takes time."""
    log.show(options.verbose)
    with open_session(
        choice,
        options.placement(),
        view.fetching,
        view.measuring,
        options.fixed_layout(),
        draft_placement=options.draft_placement(),
        context=options.ctx if isinstance(options, ReplyOptions) else None,
    ) as session:
        yield session


def show(reply: Reply, session: Session, choice: Choice, options: ReplyOptions, view: View, **about: object) -> None:
    """Show a reply as it grows, and with `--json` all that is known of it, `about` included."""
    for note in session.notes:
        view.note(note)
    view.answer(reply, show_drafts=options.show_drafts)
    if options.json:
        models = {"model": choice.target.name, "draft": choice.draft.name if choice.draft else None}
        mode = session.mode_used(options.settings())
        view.result(reply_json(reply, **models, mode=mode, seed=options.seed, **about))
