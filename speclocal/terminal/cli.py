"""The commands: parse, do the job, render. The only place where errors become exit codes.

Knows which job belongs to which command. What a job needs is imported when it runs, so `--help` answers at once.
"""

import os
import sys
from collections.abc import Callable
from functools import wraps
from io import BufferedReader
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

import speclocal
from speclocal.errors import SpeclocalError, UsageError
from speclocal.terminal.options import Options, with_options

if TYPE_CHECKING:
    from speclocal.terminal.render import View

INTERRUPTED = 130

app = typer.Typer(
    help="Make a local language model answer faster without changing its answer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal may lack a character; text must not end for that
    app(prog_name="speclocal")


def _answering(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its options, and turn what can go wrong into a message and an exit code."""

    @wraps(command)
    def guarded(*, options: Options, **arguments: Any) -> None:
        from speclocal.terminal.render import View

        with View(show_drafts=options.show_drafts, quiet=options.json) as view:
            try:
                command(options=options, view=view, **arguments)
            except SpeclocalError as error:
                if options.debug:
                    raise
                view.error(error)
                raise typer.Exit(error.exit_code) from error
            except KeyboardInterrupt:
                raise typer.Exit(INTERRUPTED) from None
            except BrokenPipeError:  # the reader has enough, as `| head` does; keep Python from flushing into the pipe
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                raise typer.Exit(0) from None

    return with_options(guarded, hidden=frozenset({"options", "view"}))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"speclocal {speclocal.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    pass


@app.command()
@_answering
def generate(
    *,
    prompt: Annotated[str, typer.Argument(help="What to say to the model; text on stdin is added to it.")] = "",
    options: Options,
    view: "View",
) -> None:
    """Answer a prompt."""

    def text() -> str:
        parts = [part for part in (prompt, _piped()) if part.strip()]
        if not parts:
            raise UsageError("there is no prompt", 'give one: `speclocal generate "..."`, or pipe text into it')
        return "\n\n".join(parts)

    _answer(text, options, view)


@app.command()
@_answering
def summarize(
    *,
    file: Annotated[str, typer.Argument(help="The file to summarize; - for stdin.")],
    options: Options,
    view: "View",
) -> None:
    """Summarize a file in one paragraph."""
    from speclocal.jobs.summarize import summary_prompt
    from speclocal.text.documents import read_document

    def text() -> str:
        document = read_document(file, stdin=sys.stdin.buffer)
        for note in document.notes:
            view.note(note)
        return summary_prompt(document)

    _answer(text, options, view)


@app.command()
@_answering
def calibrate(*, options: Options, view: "View") -> None:
    """Measure what passes cost on this machine, and which widths are exact."""
    from dataclasses import asdict

    from speclocal.jobs.generate import choose_models, open_session
    from speclocal.terminal.tables import curve_table, curve_words, layout_words, show

    choice, layout = choose_models(options.model, options.draft), options.fixed_layout()
    with open_session(choice, options.placement(), view.fetching, view.measuring, layout) as session:
        curves, layouts = session.calibrate(), session.compare_layouts()
    if options.json:
        view.result(
            {
                "models": {name: asdict(curve) for name, curve in curves.items()},
                "layouts": {name: asdict(speeds) for name, speeds in layouts.items()},
            }
        )
        return
    for name, curve in curves.items():
        show(curve_table(name, curve))
        view.text("".join(f"{sentence}\n" for sentence in curve_words(curve)) + "\n")
    view.text("".join(f"{sentence}\n" for sentence in layout_words(layouts)))


@app.command()
def models() -> None:
    """List the models and pairs of the catalogue, and what is on this disk."""
    from speclocal.models.catalog import load_catalog
    from speclocal.models.sources import listing
    from speclocal.terminal.tables import models_table, pairs_table, show

    catalog = load_catalog()
    listed = listing(catalog)
    show(models_table(listed.models, catalog.default), pairs_table(listed.pairs))


def _piped() -> str:
    """Return what is piped in as text; nothing at a terminal, or from an empty pipe."""
    if sys.stdin is None or sys.stdin.isatty() or not cast(BufferedReader, sys.stdin.buffer).peek(1):
        return ""
    from speclocal.text.documents import read_document

    return read_document("-", stdin=sys.stdin.buffer, keep_html=True).text


def _answer(text: Callable[[], str], options: Options, view: "View") -> None:
    """Check the options, get the text, open the models, and show the answer as it grows."""
    from speclocal.jobs.generate import choose_models, open_session, prompt_tokens
    from speclocal.llama import log
    from speclocal.terminal.render import reply_json

    settings, placement = options.settings(), options.placement()
    choice = choose_models(options.model, options.draft, options.mode)
    prompt = text()
    log.show(options.verbose)
    with open_session(choice, placement, view.fetching, view.measuring, options.fixed_layout()) as session:
        tokens = prompt_tokens(session, prompt, raw=options.raw)
        session.open_context(len(tokens), settings, options.ctx)
        reply = session.reply(tokens, settings)
        for note in session.notes:
            view.note(note)
        view.answer(reply)
        if options.json:
            about = {
                "model": choice.target.name,
                "draft": choice.draft.name if choice.draft else None,
                "mode": session.mode_used(settings),
                "seed": options.seed,
            }
            view.result(reply_json(reply, **about))
