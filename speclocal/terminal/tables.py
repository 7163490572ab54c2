"""Tables of what there is.

Knows the catalogue's values, not how they were found.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from speclocal.models.sources import ListedModel, ListedPair
from speclocal.terminal import words


def show(*tables: Table) -> None:
    """Print tables on stdout; outside a terminal wide enough for their text."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    for table in tables:
        console.print(table)


def models_table(models: Sequence[ListedModel], default: str) -> Table:
    """Return the models of the catalogue, and where each one is."""
    table = _table("model", "size", "licence", "on disk")
    for model in models:
        spec = model.spec
        name = f"{spec.name} (default)" if spec.name == default else spec.name
        size = words.size(spec.size_bytes) if spec.size_bytes else "?"
        table.add_row(*map(_cell, (name, size, spec.licence or "?", "yes" if model.path else "no")))
    return table


def pairs_table(pairs: Sequence[ListedPair]) -> Table:
    """Return the pairs of the catalogue, and which are complete."""
    table = _table("pair", "target", "draft", "on disk")
    for pair in pairs:
        table.add_row(
            *map(_cell, (pair.spec.name, pair.spec.target, pair.spec.draft, "yes" if pair.complete else "no"))
        )
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


def _cell(text: str) -> Text:
    return Text(words.visible(text))
