"""Frozen dataclasses from the plain values that `dataclasses.asdict` and JSON make of them, checked.

Knows types, not what is recorded.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_record(kind: type[T], value: Any) -> T:
    """Return the dataclass that a plain value was made of; what it has beyond the fields is left out.

    A field with a default may be missing. Raises ValueError that names the first place that does not fit.
    """
    record: T = _read(kind, value, kind.__name__)
    return record


def _read(kind: Any, value: Any, place: str) -> Any:
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, value, place)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (inner,) = (each for each in arguments if each is not type(None))
        return _read(inner, value, place)
    if origin is tuple:
        items = _checked(list, value, place)
        return tuple(_read(arguments[0], item, f"{place}[{i}]") for i, item in enumerate(items))
    if origin is Mapping:
        entries = _checked(dict, value, place)
        return {arguments[0](key): _read(arguments[1], each, f"{place}.{key}") for key, each in entries.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    checked = _checked(kind, value, place)
    if isinstance(checked, float) and not math.isfinite(checked):
        raise ValueError(f"{place} is {checked}")
    return well_formed(checked) if isinstance(checked, str) else checked


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can hold: what it cannot, as parts of a file name, stands there by its number."""
    return text.encode(errors="backslashreplace").decode()


def _dataclass(kind: Any, value: Any, place: str) -> Any:
    entries = _checked(dict, value, place)
    hints = get_type_hints(kind)
    given = {}
    for field in dataclasses.fields(kind):
        if field.name in entries:
            given[field.name] = _read(hints[field.name], entries[field.name], f"{place}.{field.name}")
        elif field.default is dataclasses.MISSING:
            raise ValueError(f"{place} has no {field.name}")
    return kind(**given)


def _checked(kind: type[T], value: Any, place: str) -> T:
    """Return `value` if it is of a type; True is no number."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{place} is {value!r:.40}, not {kind.__name__}")
    return value
