"""Tables of models: the catalogue, its pairs, and what other programs keep on this disk.

Knows the listing's values, not how they were found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from speclocal.models.listing import ListedModel, ListedPair, Listing
from speclocal.terminal import words
from speclocal.terminal.tables import cell, new_table


def models_table(models: Sequence[ListedModel], default: str) -> Table:
    """Return the models of the catalogue, and whether each one is here."""
    table = new_table("model", "size", "quantization", "context", "licence", "on disk")
    for model in models:
        name = f"{model.name} (default)" if model.name == default else model.name
        table.add_row(*map(cell, (name, *_about(model), model.flaw or ("yes" if model.path else "no"))))
    return table


def pairs_table(pairs: Sequence[ListedPair]) -> Table:
    """Return the pairs of the catalogue, and which are complete."""
    table = new_table("pair", "target", "draft", "on disk")
    for pair in pairs:
        table.add_row(*map(cell, (pair.spec.name, pair.spec.target, pair.spec.draft, "yes" if pair.complete else "no")))
    return table


def others_table(models: Sequence[ListedModel]) -> Table:
    """Return the models of other programs, by the names under which they can be used where they lie."""
    table = new_table("found here", "size", "quantization", "context", "licence", "usable")
    for model in models:
        table.add_row(*map(cell, (model.name, *_about(model), model.flaw or "yes")))
    return table


def listing_json(listed: Listing) -> dict[str, Any]:
    """Return the listing as plain values."""
    return {
        "models": [_plain(model) for model in listed.models],
        "pairs": [
            {"name": pair.spec.name, "target": pair.spec.target, "draft": pair.spec.draft, "on_disk": pair.complete}
            for pair in listed.pairs
        ],
        "found": [_plain(model) for model in listed.elsewhere],
    }


def _about(model: ListedModel) -> tuple[str, str, str, str]:
    """Return size, quantization, context and licence as a table shows them."""
    context = f"{model.context_length:,}" if model.context_length else "?"
    size = words.size(model.size_bytes) if model.size_bytes else "?"
    return size, model.quantization or "?", context, model.licence or "?"


def _plain(model: ListedModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "size_bytes": model.size_bytes,
        "quantization": model.quantization,
        "context_length": model.context_length,
        "licence": model.licence,
        "path": str(model.path) if model.path else None,
        "flaw": model.flaw or None,
    }
