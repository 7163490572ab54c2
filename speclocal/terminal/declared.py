"""The fields of a dataclass as the options of a command.

Knows how a function tells Typer what it takes, not which options there are.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, get_args, get_type_hints

from speclocal.terminal.options import OPTION_PANELS, Options


def with_options(command: Callable[..., None], kind: type[Options], *, hidden: frozenset[str]) -> Callable[..., None]:
    """Let a command with a parameter `options` take every field of `kind` on the command line, panel by panel.

    hidden: its parameters that do not come from the command line.
    """
    hints = get_type_hints(kind, include_extras=True)

    def panel(field: dataclasses.Field[Any]) -> int:
        return OPTION_PANELS.index(get_args(hints[field.name])[1].rich_help_panel)

    fields = sorted(dataclasses.fields(kind), key=panel)

    @wraps(command)
    def wrapper(**arguments: Any) -> None:
        values = {field.name: arguments.pop(field.name) for field in fields}
        command(**arguments, options=kind(**values))

    own = inspect.signature(command).parameters.values()
    given = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=_default(field), annotation=hints[field.name]
        )
        for field in fields
    ]
    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own if parameter.name not in hidden]
    wrapper.__signature__ = inspect.Signature([*kept, *given])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *given)}
    return wrapper


def _default(field: dataclasses.Field[Any]) -> Any:
    return [] if field.default is dataclasses.MISSING else field.default
