"""Tables that fit: of columns that do not all have room, the least important are left out.

Knows columns of finished cells, not what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from speclocal.terminal.tables import cell, new_table

_GAP = 2  # columns of the terminal between two of a table


@dataclass(frozen=True)
class Column:
    """A heading and its cells. importance: the lowest go first; text stands left, numbers right."""

    name: str
    cells: Sequence[str | Text]
    importance: int
    right: bool = True

    @property
    def width(self) -> int:
        return max(cell_len(str(text)) for text in (self.name, *self.cells))


def fitted(columns: Sequence[Column], room: int, title: str = "") -> Table:
    """Return a table of the columns that fit `room`; the most important one is never left out."""
    kept = list(columns)
    while room_left(kept, room) < -_GAP and len(kept) > 1:
        kept.remove(min(kept, key=lambda column: column.importance))
    table = new_table(*(column.name for column in kept), title=title)
    for shown, column in zip(table.columns, kept, strict=True):
        shown.justify = "right" if column.right else "left"
    for row in zip(*(column.cells for column in kept), strict=True):
        table.add_row(*(text if isinstance(text, Text) else cell(text) for text in row))
    return table


def room_left(columns: Sequence[Column], room: int) -> int:
    """Return how wide one more column could be."""
    return room - sum(column.width + _GAP for column in columns)
