"""Pages of text, tables and bars, shown on a terminal or in a file of plain text.

Knows the parts of a page, not what it is about; the same parts become HTML in pages.py.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from speclocal.terminal import words
from speclocal.terminal.render import View

_BAR = 24  # columns of the longest bar
_WIDTH = 80  # columns of a paragraph at most
_TITLE = 2  # lines
_STYLES = {"accepted": "green", "rejected": "red", "target": "cyan", "dim": "dim"}


@dataclass(frozen=True)
class Cell:
    """A cell of a table. share: of the longest bar; None: none. tone: `accepted`, `rejected`, `target` or `dim`."""

    text: str
    tone: str = ""
    share: float | None = None


@dataclass(frozen=True)
class Grid:
    """A table. Columns whose header begins with `<` hold texts or bars and stand to the left, others to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Facts:
    """Figures with their names, one a line, and what is to be said of each."""

    rows: tuple[tuple[str, str, str], ...]


Part = str | Grid | Facts
"""A part of a page; a text is a paragraph."""


@dataclass(frozen=True)
class Sheet:
    """One page."""

    title: str
    parts: tuple[Part, ...]


def show_sheet(sheet: Sheet, view: View) -> None:
    """Print a page."""
    width = min(_WIDTH, view.columns)
    view.text(f"{sheet.title}\n{'=' * min(width, len(sheet.title))}\n")
    for part in sheet.parts:
        view.text("\n")
        if isinstance(part, str):
            view.text(textwrap.fill(words.visible(part), width) + "\n")
        else:
            view.tables(_table(part, width))


def divided(sheet: Sheet, columns: int, rows: int) -> list[Sheet]:
    """Return a page as pages of at most so many lines, without parting a paragraph or a table, which may be longer."""
    used, screens = 0, [Sheet(sheet.title, ())]
    for part in sheet.parts:
        height = 1 + _height(part, columns)
        if screens[-1].parts and used + height > rows - _TITLE:
            screens.append(Sheet(f"{sheet.title} (goes on)", ()))
            used = 0
        screens[-1] = Sheet(screens[-1].title, (*screens[-1].parts, part))
        used += height
    return screens


def grid(*columns: str, rows: Sequence[Sequence[Cell | str]]) -> Grid:
    """Return a table of cells and texts."""
    return Grid(columns, tuple(tuple(Cell(each) if isinstance(each, str) else each for each in row) for row in rows))


def bar(text: str, value: float, largest: float, tone: str = "") -> Cell:
    """Return a cell with a bar of `value` where the longest means `largest`."""
    return Cell(text, tone, min(1.0, float(value) / float(largest)) if largest > 0 else 0.0)


def _height(part: Part, columns: int) -> int:
    """Return how many lines a part takes, with those of cells that are folded."""
    width = min(_WIDTH, columns)
    if isinstance(part, str):
        return len(textwrap.wrap(words.visible(part), width))
    return len(Console(width=columns).render_lines(_table(part, width)))


def _table(part: Grid | Facts, width: int) -> Table:
    return _facts(part) if isinstance(part, Facts) else _grid(part, width)


def _facts(facts: Facts) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for row in facts.rows:
        table.add_row(*(Text(words.visible(text)) for text in row))
    return table


def _grid(grid: Grid, room: int) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for header in grid.columns:
        justify: Literal["left", "right"] = "left" if header.startswith("<") else "right"
        table.add_column(Text(header.removeprefix("<")), justify=justify, overflow="fold")
    columns = [[row[i] for row in grid.rows] for i in range(len(grid.columns))]
    widths = [max((len(cell.text) for cell in column if cell.share is not None), default=0) for column in columns]
    longest = _longest_bar(grid, widths, room)
    for row in grid.rows:
        table.add_row(*(_cell(cell, width, longest) for cell, width in zip(row, widths, strict=True)))
    return table


def _longest_bar(grid: Grid, widths: Sequence[int], room: int) -> int:
    """Return the columns of the longest bar, so that a table fits into `room` where that can be.

    widths: of the texts before bars, 0 in columns without any.
    """
    texts = [max(len(row[i].text) for row in grid.rows) for i in range(len(widths))]
    plain = [max(len(grid.columns[i]), texts[i]) for i, width in enumerate(widths) if not width]
    taken = sum(plain) + sum(width + 1 for width in widths if width) + 2 * len(widths)
    return max(0, min(_BAR, (room - taken) // max(1, sum(width > 0 for width in widths))))


def _cell(cell: Cell, width: int, longest: int) -> Text:
    """Return a cell; in a column with bars its text is `width` wide, so that they begin below each other."""
    style = _STYLES.get(cell.tone, "")
    text = Text(f"{words.visible(cell.text):>{width}}", style=style)
    if cell.share is None:
        return text
    blocks = max(min(longest, cell.share > 0), round(longest * cell.share))  # the smallest value shows, too
    return text + Text(" " + "\u2588" * blocks, style=style)
