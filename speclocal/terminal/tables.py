"""Tables of what there is.

Knows the catalogue's values, not how they were found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from speclocal.decoding.costs import NARROW, Calibration, Speeds
from speclocal.decoding.theory import expected_tokens
from speclocal.jobs.store import Store
from speclocal.jobs.summarize import Plan
from speclocal.llama.formats import Layout
from speclocal.terminal import words

_ALPHAS = (0.6, 0.8, 0.95)
_CURVE = 60  # columns of a curve's table without the plot
_BAR = 24
_BEGINNING = 60  # characters of a part that are shown


def curve_table(name: str, calibration: Calibration, room: int) -> Table:
    """Return a model's pass-cost curve, what each width can gain, and a plot if it fits into `room` columns."""
    one = calibration.seconds[1]
    widest = max(calibration.seconds.values())
    title = f"{name}: passes over tokens, and what drafts gain that are accepted at {', '.join(map(str, _ALPHAS))}"
    table = new_table("tokens", "time", "of one", "exact", *(f"at {alpha}" for alpha in _ALPHAS), title=title)
    for column in table.columns:
        column.justify = "right"
    bar_columns = min(_BAR, room - _CURVE)
    if bar_columns > 0:
        table.add_column("")
    for width, seconds in calibration.seconds.items():
        shares = [expected_tokens(alpha, width - 1) * one / seconds for alpha in _ALPHAS]
        cells = [str(width), words.duration(seconds), words.number(seconds / one), _exact(width, calibration)]
        cells += [f"{share:.2f}x" for share in shares]
        if bar_columns > 0:
            cells.append("\u2588" * max(1, round(bar_columns * seconds / widest)))
        table.add_row(*map(cell, cells))
    return table


def curve_words(calibration: Calibration) -> list[str]:
    """Return what a curve means, in sentences."""
    seconds = calibration.seconds
    one = seconds[1]
    sentences = []
    for alpha in _ALPHAS:
        gain, width = max((expected_tokens(alpha, width - 1) * one / taken, width) for width, taken in seconds.items())
        best = f"{gain:.2f}x with drafts of {width - 1}" if width > 1 else "nothing: plain decoding is fastest"
        sentences.append(f"free drafts accepted at {alpha}: at best {best}")
    avoid = [w for w, taken in seconds.items() if any(v > w and other <= taken for v, other in seconds.items())]
    if avoid:
        sentences.append(f"widths to avoid, since a wider pass costs no more: {', '.join(map(str, avoid))}")
    return sentences


def layout_words(layouts: Mapping[Layout, Speeds]) -> list[str]:
    """Return how fast each weight layout reads and writes."""
    return [
        f"weights {layout}: reads {words.number(1 / speeds.read_seconds)} tokens/s, "
        f"writes {words.number(1 / speeds.token_seconds)} tokens/s"
        for layout, speeds in layouts.items()
    ]


def plan_table(plan: Plan) -> Table:
    """Return the parts in which a text is read, and how each begins."""
    table = new_table("part", "tokens", "begins")
    table.columns[0].justify = table.columns[1].justify = "right"
    for number, part in enumerate(plan.parts, 1):
        beginning = " ".join(part.text[: 4 * _BEGINNING].split())[:_BEGINNING]
        table.add_row(*map(cell, (str(number), f"{part.num_tokens:,}", beginning)))
    return table


def plan_json(plan: Plan) -> dict[str, Any]:
    """Return a plan as plain values; the texts of its parts joined are the text."""
    return {
        "tokens": plan.num_tokens,
        "context_size": plan.context_size,
        "parts": [{"tokens": part.num_tokens, "text": part.text} for part in plan.parts],
    }


def stores_table(stores: Sequence[Store]) -> Table:
    """Return what is kept of earlier runs, and where."""
    table = new_table("kept", "files", "size", "at most", "in")
    for store in stores:
        sizes = [entry.num_bytes for entry in store.entries()]
        cells = (store.name, str(len(sizes)), words.size(sum(sizes)), words.size(store.limit_bytes), str(store.folder))
        table.add_row(*map(cell, cells))
    return table


def stores_json(stores: Sequence[Store]) -> dict[str, Any]:
    """Return what is kept of earlier runs as plain values."""
    return {
        store.name: {
            "files": len(store.entries()),
            "size_bytes": sum(entry.num_bytes for entry in store.entries()),
            "limit_bytes": store.limit_bytes,
            "folder": str(store.folder),
        }
        for store in stores
    }


def _exact(width: int, calibration: Calibration) -> str:
    """Return up to how many tokens of context passes of this width compute the bits of one-token passes."""
    depths = [found.depth for found in calibration.exact if width in found.widths]
    if not depths:
        return "no" if width <= max(NARROW) else "?"
    return "yes" if depths[-1] == calibration.exact[-1].depth else f"to {depths[-1]}"


def new_table(*columns: str, title: str = "") -> Table:
    """Return a table whose cells fold where they do not fit, so that nothing is lost."""
    heading = cell(title) if title else None
    table = Table(
        box=None, header_style="bold", pad_edge=False, title=heading, title_justify="left", title_style="bold"
    )
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def cell(text: str) -> Text:
    return Text(words.visible(text))
