"""`speclocal predict`: the calculator."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import UsageError
from speclocal.jobs.modes import MAX_DRAFT_TOKENS
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import Options

if TYPE_CHECKING:
    from speclocal.jobs.prediction import Curve, Saving
    from speclocal.terminal.render import View

_MOST = 1e15


@command(Options, MACHINE)
def predict(
    *,
    alpha: Annotated[float | None, typer.Option("--alpha", min=0, max=1, help="Acceptance rate of a draft.")] = None,
    gamma: Annotated[
        int | None, typer.Option("--gamma", min=0, max=MAX_DRAFT_TOKENS, help="Draft length; default: the best.")
    ] = None,
    cost_ratio: Annotated[
        float | None,
        typer.Option("--cost-ratio", min=0, help="Draft step / target pass; default: 0, or that of CURVE."),
    ] = None,
    verify_cost: Annotated[
        str,
        typer.Option(
            "--verify-cost",
            help="Costs of passes by width, as 1:1,2:1.57,4:2.56, or a file of `calibrate --json`; - for stdin.",
            metavar="CURVE",
        ),
    ] = "",
    tokens_per_day: Annotated[
        float | None, typer.Option("--tokens-per-day", min=0, help="Tokens that are written each day.")
    ] = None,
    ms_per_token: Annotated[
        float | None, typer.Option("--ms-per-token", help="Milliseconds saved on each of them.")
    ] = None,
    plain_ms_per_token: Annotated[
        float | None,
        typer.Option("--plain-ms-per-token", min=0, help="Or: what each takes without drafts; the speedup saves."),
    ] = None,
    options: Options,
    view: "View",
) -> None:
    """Compute what drafts are worth from their acceptance, length and cost. Needs no model."""
    from speclocal.jobs.prediction import predict
    from speclocal.terminal.predictions import predictions_json, predictions_table, saving_words

    curve = _curve(verify_cost, view) if verify_cost else None
    predictions = {}
    if alpha is not None:
        c = cost_ratio if cost_ratio is not None else (curve.cost_ratio if curve else None) or 0.0
        if curve:
            predictions["measured"] = predict(alpha, gamma, c, curve.verify_ratio)
        length = predictions["measured"].gamma if curve else gamma  # both columns speak of the same drafts
        predictions = {"textbook": predict(alpha, length, c), **predictions}
    speedup = [*predictions.values()][-1].speedup if predictions else None
    saving = _saving(tokens_per_day, ms_per_token, plain_ms_per_token, speedup)
    if not predictions and not saving:
        raise UsageError("there is nothing to predict from", "give `--alpha`, the acceptance rate of drafted tokens")
    if options.json:
        view.result(predictions_json(predictions, saving))
        return
    if predictions:
        first = predictions["textbook"]
        view.sentences(
            [f"drafts of {first.gamma}, accepted at {first.alpha:.3f}, cost ratio {first.cost_ratio:.3f}", ""]
        )
        view.tables(predictions_table(predictions))
    if saving:
        view.sentences([*([""] if predictions else []), saving_words(saving)])


def _curve(given: str, view: "View") -> "Curve":
    """Return the pass-cost curve that is given as pairs, as a file, or on stdin."""
    from speclocal.jobs.prediction import looks_like_pairs, read_curve

    if looks_like_pairs(given):
        return read_curve(given)
    try:
        if given == "-":
            with view.waiting("standard input"):
                return read_curve(sys.stdin.read() if sys.stdin else "")
        return read_curve(Path(given).expanduser().read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not text"
        raise UsageError(
            f"`{given}` cannot be read as a curve: {reason}",
            "write it as 1:1,2:1.57,4:2.56, or name a file made by `speclocal calibrate --json > curve.json`",
        ) from exc


def _saving(tokens: float | None, saved: float | None, plain: float | None, speedup: float | None) -> "Saving | None":
    """Return what is saved a day. A token's plain time needs a speedup, which takes its part of it."""
    from speclocal.jobs.prediction import Saving

    if tokens is None and saved is None and plain is None:
        return None
    for option, value in (("--tokens-per-day", tokens), ("--ms-per-token", saved), ("--plain-ms-per-token", plain)):
        if value is not None and not abs(value) < _MOST:
            raise UsageError(f"`{option}` is {value}", f"give a number below {_MOST:g}")
    if tokens is None:
        raise UsageError("a time for each token says nothing alone", "give `--tokens-per-day` too")
    if (saved is None) == (plain is None):
        raise UsageError(
            "what each token saves is " + ("not known" if saved is None else "given twice"),
            "give `--ms-per-token`, the milliseconds saved on each, or `--plain-ms-per-token`, what each takes now",
        )
    if plain is not None:
        if speedup is None:
            raise UsageError("what drafts save is not known without a speedup", "give `--alpha` too")
        saved = plain * (1 - 1 / speedup)
    assert saved is not None
    return Saving(tokens, saved)
