"""What commands that run models have in common: models opened as the options say, and a reply shown.

Knows options, jobs and the view; what is asked of the models is each command's own.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

from speclocal.errors import UsageError
from speclocal.jobs.generate import Choice, choose_models, open_session
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply
from speclocal.jobs.session import Session
from speclocal.llama import log
from speclocal.llama.devices import devices_for
from speclocal.terminal.options import MachineOptions, ModelOptions, ReplyOptions
from speclocal.terminal.render import View, reply_json
from speclocal.text.documents import MAX_BYTES, read_document


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


def asked(prompt: str, view: View) -> str:
    """Return what a prompt on the command line and text that is piped in ask together.

    Raises UsageError when there is neither.
    """
    text = "\n\n".join(part for part in (prompt, _piped(view)) if part.strip())
    if not text:
        raise UsageError("there is no prompt", 'give one: `speclocal generate "..."`, or pipe text into it')
    return text


def _piped(view: View) -> str:
    """Return what is piped in as text; nothing at a terminal, or from a blank pipe."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    with view.waiting("standard input"):
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not data.strip():
        return ""
    document = read_document("-", stdin=BytesIO(data), keep_html=True)
    for note in document.notes:
        view.note(note)
    return document.text


def show(reply: Reply, session: Session, choice: Choice, options: ReplyOptions, view: View, **about: object) -> None:
    """Show a reply as it grows, and with `--json` all that is known of it, `about` included."""
    for note in session.notes:
        view.note(note)
    view.answer(reply, show_drafts=options.show_drafts)
    if options.json:
        models = {"model": choice.target.name, "draft": choice.draft.name if choice.draft else None}
        mode = session.mode_used(options.settings())
        view.result(reply_json(reply, **models, mode=mode, seed=options.seed, **about))
