"""The command line as a whole, and what makes a function one of its commands.

Knows no command; each registers itself here.
"""

import inspect
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

import speclocal
from speclocal.errors import SpeclocalError, UsageError
from speclocal.terminal.declared import with_options
from speclocal.terminal.options import Options
from speclocal.terminal.secrets import redacted

PANELS = ANSWER, MACHINE, MODELS = "Answer", "This machine", "Models"
"""The panels of the help page, in order."""

_SETTINGS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    help="Make a local language model answer faster without changing its answer.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=_SETTINGS,
)


def command(
    options_class: type[Options], panel: str, group: typer.Typer = app
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command: with options on the command line, and a view of what it does.

    It is called with its own arguments, `options` and `view`. panel: where the help page lists it. group: the commands
    it is one of.
    """
    return _registered(options_class, group.command(rich_help_panel=panel))


def group_of(name: str, options_class: type[Options], panel: str) -> Callable[[Callable[..., None]], typer.Typer]:
    """Make a function a command that has commands of its own, and runs where none of them is asked for."""

    def decorate(job: Callable[..., None]) -> typer.Typer:
        group = typer.Typer(context_settings=_SETTINGS)
        app.add_typer(group, name=name, rich_help_panel=panel)

        @wraps(job)
        def alone(*, context: typer.Context, **arguments: Any) -> None:
            if context.invoked_subcommand is None:
                job(**arguments)

        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        own = inspect.signature(job)
        alone.__signature__ = own.replace(parameters=[context, *own.parameters.values()])  # type: ignore[attr-defined]
        _registered(options_class, group.callback(invoke_without_command=True))(alone)
        return group

    return decorate


def _registered(
    options_class: type[Options], register: Callable[[Callable[..., None]], Callable[..., None]]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let `register` have a function with all its options, which opens a view and shows tracebacks if asked to."""

    def decorate(job: Callable[..., None]) -> Callable[..., None]:
        @wraps(job)
        def viewed(*, options: Options, **arguments: Any) -> None:
            from speclocal.terminal.render import View

            try:
                with View(quiet=options.json) as view:
                    job(options=options, view=view, **arguments)
            except (SpeclocalError, OSError):
                if options.debug:
                    sys.stderr.write(redacted(traceback.format_exc()))
                raise

        return register(with_options(viewed, options_class, hidden=frozenset({"options", "view"})))

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
