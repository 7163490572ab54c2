"""The command line as a whole, and what makes a function one of its commands.

Knows no command; each registers itself here.
"""

import traceback
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

import speclocal
from speclocal.errors import SpeclocalError, UsageError
from speclocal.terminal.options import Options, with_options

PANELS = ANSWER, MACHINE, MODELS = "Answer", "This machine", "Models"
"""The panels of the help page, in order."""

app = typer.Typer(
    help="Make a local language model answer faster without changing its answer.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(options_class: type[Options], panel: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command: with options on the command line, and a view of what it does.

    It is called with its own arguments, `options` and `view`. panel: where the help page lists it.
    """

    def decorate(job: Callable[..., None]) -> Callable[..., None]:
        @wraps(job)
        def viewed(*, options: Options, **arguments: Any) -> None:
            from speclocal.terminal.render import View

            try:
                with View(quiet=options.json) as view:
                    job(options=options, view=view, **arguments)
            except (SpeclocalError, OSError):
                if options.debug:
                    traceback.print_exc()
                raise

        return app.command(rich_help_panel=panel)(
            with_options(viewed, options_class, hidden=frozenset({"options", "view"}))
        )

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
