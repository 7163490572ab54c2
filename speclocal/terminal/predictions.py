"""What the calculator says: tables, bars and sentences.

Knows predictions, not where their numbers come from. They are compared with those of books, so they have three
decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.table import Table

from speclocal.jobs.modes import MAX_DRAFT_TOKENS
from speclocal.jobs.prediction import Prediction, Saving
from speclocal.terminal import words
from speclocal.terminal.tables import cell, new_table


def predictions_table(predictions: Mapping[str, Prediction]) -> Table:
    """Return predictions side by side, each under its name."""
    table = new_table("", *predictions)
    for column in table.columns[1:]:
        column.justify = "right"
    columns = [_lines(prediction) for prediction in predictions.values()]
    for label in columns[0]:
        table.add_row(cell(label), *(cell(column[label]) for column in columns))
    return table


def saving_words(saving: Saving) -> str:
    """Return how much time is saved, in one sentence."""
    what = "lost" if saving.ms_saved_per_token < 0 else "saved"
    return (
        f"{saving.tokens_per_day:,.0f} tokens a day, {words.number(abs(saving.ms_saved_per_token))} ms {what} on each: "
        f"{words.number(abs(saving.hours_per_day))} hours {what} a day"
    )


def predictions_json(predictions: Mapping[str, Prediction], saving: Saving | None) -> dict[str, Any]:
    """Return predictions and what they save as plain values."""
    found: dict[str, Any] = {name: asdict(prediction) for name, prediction in predictions.items()}
    if saving:
        found["saving"] = {**asdict(saving), "hours_per_day": saving.hours_per_day}
    return found


def break_even_words(prediction: Prediction) -> str:
    """Return the acceptance at which drafts begin to pay."""
    if prediction.gamma == 0:
        return "no draft"
    return "never pays" if prediction.break_even is None else f"{prediction.break_even:.3f}"


def best_words(prediction: Prediction) -> str:
    """Return the best draft length and what it gains."""
    if prediction.best_gamma == 0:
        return "0: plain decoding"
    longest = " or more" if prediction.best_gamma == MAX_DRAFT_TOKENS else ""
    return f"{prediction.best_gamma}{longest}, {prediction.best_speedup:.3f}x"


def _lines(prediction: Prediction) -> dict[str, str]:
    """Return what a prediction says, by label."""
    return {
        "tokens per round": f"{prediction.tokens_per_round:.4f}",
        "cost of drafting": f"{prediction.gamma * prediction.cost_ratio:.3f}",
        f"cost of the pass over {prediction.gamma + 1}": f"{prediction.verify_ratio:.3f}",
        "cost of the round": f"{prediction.round_cost:.3f}",
        "speedup": f"{prediction.speedup:.3f}x",
        "best draft length": best_words(prediction),
        "break-even acceptance": break_even_words(prediction),
    }
