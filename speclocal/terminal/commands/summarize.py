"""`speclocal summarize`: files of any length."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.jobs.modes import Style
from speclocal.terminal.app import ANSWER, command
from speclocal.terminal.options import ReplyOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View
    from speclocal.text.documents import Document


@command(ReplyOptions, ANSWER)
def summarize(
    *,
    file: Annotated[list[str], typer.Argument(help="The files to summarize as one text; - for stdin.")],
    encoding: Annotated[
        str, typer.Option("--encoding", help="Encoding of the file; default: found out.", metavar="NAME")
    ] = "",
    words: Annotated[int | None, typer.Option("--words", min=1, help="About how long; makes room for it.")] = None,
    style: Annotated[Style, typer.Option("--style", help="The form.")] = Style.PARAGRAPH,
    ask: Annotated[str, typer.Option("--ask", help="Answer this question instead.", metavar="QUESTION")] = "",
    language: Annotated[str, typer.Option("--language", help="Language to write in.", metavar="NAME")] = "",
    plan: Annotated[bool, typer.Option("--plan", help="Show in which parts the text is read, and stop.")] = False,
    options: ReplyOptions,
    view: "View",
) -> None:
    """Summarize files, or ask something about them, whatever their length."""
    from speclocal.jobs.requests import USUAL_REPEAT_PENALTY, Request
    from speclocal.jobs.summarize import Summarizer, joined
    from speclocal.terminal.opening import chosen, opened, show
    from speclocal.terminal.tables import plan_json, plan_table
    from speclocal.terminal.words import plan_words

    settings, choice = options.settings(USUAL_REPEAT_PENALTY), chosen(options)
    text = joined([_document(name, encoding, view) for name in file])
    request = Request(style, words, ask.strip(), language.strip())
    with opened(choice, options, view) as session:
        summarizer = Summarizer(session, request, settings, options.ctx, raw=options.raw)
        planned = summarizer.plan(text)
        if not plan:
            if len(planned.parts) > 1:
                view.note(plan_words(planned))
            reply = summarizer.reply(planned, view.taking_notes)
            show(reply, session, choice, options, view, parts=len(planned.parts))
        elif options.json:
            view.result(plan_json(planned))
        else:
            view.tables(plan_table(planned))
            view.text(f"\n{plan_words(planned)}\n")


def _document(name: str, encoding: str, view: "View") -> "Document":
    """Read a file or, by the name `-`, what is piped in; say what was done to it."""
    from speclocal.text.documents import read_document

    with view.waiting("standard input" if name == "-" else name):
        document = read_document(name, encoding=encoding or None, stdin=sys.stdin.buffer if sys.stdin else None)
    for note in document.notes:
        view.note(note)
    return document
