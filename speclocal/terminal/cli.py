"""From the command line to an exit code: the only place where errors become one.

Knows that there are commands; what they do is theirs. What a job needs is imported when it runs, so `--help` answers at
once.
"""

import sys
from typing import NoReturn

import typer

from speclocal.errors import SpeclocalError, UsageError
from speclocal.terminal import streams
from speclocal.terminal.app import PANELS, app
from speclocal.terminal.commands import (  # noqa: F401 (each adds itself to `app`)
    cache,
    calibrate,
    chat,
    compare,
    doctor,
    explain,
    export,
    generate,
    models,
    predict,
    pull,
    summarize,
    trace,
    verify,
    worker,
)

app.registered_commands.sort(key=lambda command: PANELS.index(str(command.rich_help_panel)))

INTERRUPTED = 130

_Misuse: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
"""All kinds of wrong command lines; typer has no name for them."""


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
