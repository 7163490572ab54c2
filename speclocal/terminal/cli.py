"""The commands: parse, do the job, render. The only place where errors become exit codes.

Knows which job belongs to which command. What a job needs is imported when it runs, so `--help` answers at once.
"""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

import speclocal
from speclocal.errors import SpeclocalError, UsageError
from speclocal.jobs.modes import Style
from speclocal.terminal import streams
from speclocal.terminal.options import ModelOptions, Options, ReplyOptions, with_options

if TYPE_CHECKING:
    from speclocal.jobs.generate import Choice
    from speclocal.jobs.reply import Reply
    from speclocal.jobs.session import Session
    from speclocal.terminal.render import View
    from speclocal.text.documents import Document

INTERRUPTED = 130
_SUMMARY_PENALTY = 1.1
"""The usual repeat penalty of summaries: small models easily fall into repeating a sentence of a long text."""

_Misuse: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
"""All kinds of wrong command lines; typer has no name for them."""

app = typer.Typer(
    help="Make a local language model answer faster without changing its answer.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line, and leave with its exit code."""
    streams.prepare()
    try:
        code = _run()
        sys.stdout.flush()
        sys.exit(code)
    except _Misuse as error:
        _fail(_in_house_form(error))
    except SpeclocalError as error:
        _fail(error)
    except BrokenPipeError:  # the reader has enough, as `| head` does
        streams.drop(sys.stdout)
    except OSError as error:
        streams.drop(sys.stdout)
        _fail(SpeclocalError(f"{error.filename or 'the output cannot be written'}: {error.strerror or error}"))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _run() -> int:
    """Run the command and return its exit code; every other end is an exception."""
    command = typer.main.get_command(app)
    try:
        with command.make_context("speclocal", sys.argv[1:]) as context:
            command.invoke(context)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


def _fail(error: SpeclocalError) -> NoReturn:
    from speclocal.terminal.console import tell

    tell(error)
    sys.exit(error.exit_code)


def _in_house_form(error: typer.BadParameter) -> UsageError:
    """Return what typer says of a wrong command line as an error like others."""
    said = error.format_message().replace("'", "`").replace("Value error, ", "").rstrip(".")
    path = error.ctx.command_path if error.ctx else "speclocal"
    return UsageError(said[:1].lower() + said[1:], f"see `{path} --help`")


def _command(options_class: type[Options]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command: with options on the command line, and a view of what it does."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def viewed(*, options: Options, **arguments: Any) -> None:
            from speclocal.terminal.render import View

            try:
                with View(quiet=options.json) as view:
                    command(options=options, view=view, **arguments)
            except (SpeclocalError, OSError):
                if options.debug:
                    traceback.print_exc()
                raise

        return app.command()(with_options(viewed, options_class, hidden=frozenset({"options", "view"})))

    return decorate


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"speclocal {speclocal.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(UsageError.exit_code)


@_command(ReplyOptions)
def generate(
    *,
    prompt: Annotated[str, typer.Argument(help="What to say to the model; text on stdin is added to it.")] = "",
    options: ReplyOptions,
    view: "View",
) -> None:
    """Answer a prompt."""

    def text() -> str:
        parts = [part for part in (prompt, _piped(view)) if part.strip()]
        if not parts:
            raise UsageError("there is no prompt", 'give one: `speclocal generate "..."`, or pipe text into it')
        return "\n\n".join(parts)

    _answer(text, options, view)


@_command(ReplyOptions)
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
    from speclocal.jobs.generate import choose_models, open_session
    from speclocal.jobs.requests import Request
    from speclocal.jobs.summarize import Summarizer, joined
    from speclocal.llama import log
    from speclocal.terminal.tables import plan_json, plan_table
    from speclocal.terminal.words import plan_words

    settings, placement = options.settings(_SUMMARY_PENALTY), options.placement()
    choice = choose_models(options.model, options.draft, options.mode)
    text = joined([_document(name, encoding, view) for name in file])
    request = Request(style, words, ask.strip(), language.strip())
    log.show(options.verbose)
    with open_session(choice, placement, view.fetching, view.measuring, options.fixed_layout()) as session:
        summarizer = Summarizer(session, request, settings, options.ctx, raw=options.raw)
        planned = summarizer.plan(text)
        if not plan:
            if len(planned.parts) > 1:
                view.note(plan_words(planned))
            reply = summarizer.reply(planned, view.taking_notes)
            _show(reply, session, choice, options, view, parts=len(planned.parts))
        elif options.json:
            view.result(plan_json(planned))
        else:
            view.tables(plan_table(planned))
            view.text(f"\n{plan_words(planned)}\n")


@_command(Options)
def cache(
    *,
    clear: Annotated[bool, typer.Option("--clear", help="Delete it, too.")] = False,
    options: Options,
    view: "View",
) -> None:
    """Show what is kept of earlier runs: processed prompts, and notes on parts of long texts."""
    from speclocal.jobs.store import NOTES, PROMPTS
    from speclocal.terminal.tables import stores_json, stores_table

    stores = [PROMPTS, NOTES]
    if options.json:
        view.result(stores_json(stores))
    else:
        view.tables(stores_table(stores))
    if clear:
        for store in stores:
            store.clear()
        view.note("all of this is deleted")


@_command(ReplyOptions)
def chat(
    *,
    system: Annotated[str, typer.Option("--system", help="What the model should keep to.", metavar="TEXT")] = "",
    options: ReplyOptions,
    view: "View",
) -> None:
    """Talk with a model; `/help` lists what else can be typed. Lines that are piped in are messages."""
    from speclocal.terminal import chat as talk

    talk.chat(system, options, view)


@_command(ModelOptions)
def calibrate(*, options: ModelOptions, view: "View") -> None:
    """Measure what passes cost on this machine, and which widths are exact."""
    from dataclasses import asdict

    from speclocal.jobs.generate import choose_models, open_session
    from speclocal.llama import log
    from speclocal.terminal.tables import curve_table, curve_words, layout_words

    choice, layout = choose_models(options.model, options.draft), options.fixed_layout()
    log.show(options.verbose)
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
        view.tables(curve_table(name, curve, view.columns))
        view.text("\n" + "".join(f"{sentence}\n" for sentence in curve_words(curve)) + "\n")
    view.text("".join(f"{sentence}\n" for sentence in layout_words(layouts)))


@_command(Options)
def models(*, options: Options, view: "View") -> None:
    """List the models and pairs of the catalogue, and what is on this disk."""
    from speclocal.models.catalog import load_catalog
    from speclocal.models.sources import listing
    from speclocal.terminal.tables import listing_json, models_table, pairs_table

    catalog = load_catalog()
    listed = listing(catalog)
    if options.json:
        view.result(listing_json(listed))
        return
    view.tables(models_table(listed.models, catalog.default), pairs_table(listed.pairs))


def _piped(view: "View") -> str:
    """Return what is piped in as text; nothing at a terminal, or from a blank pipe."""
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    from speclocal.text.documents import MAX_BYTES, read_document

    with view.waiting("standard input"):
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
    if not data.strip():
        return ""
    document = read_document("-", stdin=BytesIO(data), keep_html=True)
    for note in document.notes:
        view.note(note)
    return document.text


def _document(name: str, encoding: str, view: "View") -> "Document":
    """Read a file or, by the name `-`, what is piped in; say what was done to it."""
    from speclocal.text.documents import read_document

    with view.waiting("standard input" if name == "-" else name):
        document = read_document(name, encoding=encoding or None, stdin=sys.stdin.buffer if sys.stdin else None)
    for note in document.notes:
        view.note(note)
    return document


def _answer(text: Callable[[], str], options: ReplyOptions, view: "View") -> None:
    """Check the options, get the text, open the models, and show the answer as it grows."""
    from speclocal.jobs.generate import choose_models, open_session, prompt_tokens
    from speclocal.llama import log

    settings, placement = options.settings(), options.placement()
    choice = choose_models(options.model, options.draft, options.mode)
    prompt = text()
    log.show(options.verbose)
    with open_session(choice, placement, view.fetching, view.measuring, options.fixed_layout()) as session:
        tokens = prompt_tokens(session, prompt, raw=options.raw)
        session.open_context(len(tokens), settings, options.ctx)
        reply = session.reply(tokens, settings)
        _show(reply, session, choice, options, view)


def _show(
    reply: "Reply", session: "Session", choice: "Choice", options: ReplyOptions, view: "View", **about: object
) -> None:
    """Show a reply as it grows, and with `--json` all that is known of it, `about` included."""
    from speclocal.terminal.render import reply_json

    for note in session.notes:
        view.note(note)
    view.answer(reply, show_drafts=options.show_drafts)
    if options.json:
        models = {"model": choice.target.name, "draft": choice.draft.name if choice.draft else None}
        mode = session.mode_used(options.settings())
        view.result(reply_json(reply, **models, mode=mode, seed=options.seed, **about))
