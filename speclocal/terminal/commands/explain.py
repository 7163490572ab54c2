"""`speclocal explain`: a tour of speculative decoding with this machine's own numbers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import UsageError
from speclocal.jobs.modes import MAX_DRAFT_TOKENS
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import ModelOptions, Raw

if TYPE_CHECKING:
    from speclocal.terminal.render import View

_FIGURES = "Figures"


@command(ModelOptions, MACHINE)
def explain(
    *,
    prompt: Annotated[str, typer.Argument(help="What is answered for it; default: an edit of code.")] = "",
    all_: Annotated[bool, typer.Option("--all", help="Print all pages as plain text.")] = False,
    html: Annotated[Path | None, typer.Option("--html", help="Write them as one page.", metavar="FILE")] = None,
    alpha: Annotated[
        float | None,
        typer.Option("--alpha", min=0, max=1, help="Acceptance rate; default: measured.", rich_help_panel=_FIGURES),
    ] = None,
    gamma: Annotated[
        int | None,
        typer.Option("--gamma", min=1, max=MAX_DRAFT_TOKENS, help="Draft length.", rich_help_panel=_FIGURES),
    ] = None,
    cost_ratio: Annotated[
        float | None,
        typer.Option(
            "--cost-ratio", min=0, help="Draft step / target pass; default: measured.", rich_help_panel=_FIGURES
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=1, max=2**24, help="Length of a reply.", rich_help_panel=_FIGURES)
    ] = None,
    bandwidth: Annotated[
        float | None,
        typer.Option(
            "--bandwidth", min=0.001, help="Of the memory, in GB/s; default: measured.", rich_help_panel=_FIGURES
        ),
    ] = None,
    batch: Annotated[
        int | None,
        typer.Option("--batch", min=1, max=4096, help="Replies written at once.", rich_help_panel=_FIGURES),
    ] = None,
    raw: Raw = False,
    options: ModelOptions,
    view: "View",
) -> None:
    """Explain speculative decoding in six pages, with your model and what is measured here."""
    from speclocal.jobs.explain import default_prompt, explain
    from speclocal.jobs.explanation import Given
    from speclocal.jobs.prediction import check_cost_ratio
    from speclocal.terminal.opening import chosen, opened
    from speclocal.terminal.outputs import check_outputs, write_whole
    from speclocal.terminal.pages import explanation_page
    from speclocal.terminal.sheets import show_sheet
    from speclocal.terminal.tour import tour, walk

    if bandwidth is not None and not bandwidth < float("inf"):
        raise UsageError(f"a bandwidth of {bandwidth} GB/s", "give a number")
    if cost_ratio is not None:
        check_cost_ratio(cost_ratio)
    check_outputs({"--html": str(html or "")}, [options.model, options.draft])
    given = Given(alpha, gamma, cost_ratio, tokens, bandwidth and bandwidth * 1e9, batch)
    with opened(chosen(options), options, view) as session:
        found = explain(session, prompt or default_prompt(), view.measuring, given, raw=raw)
        notes = session.notes
    for note in notes:
        view.note(note)
    sheets = tour(found)
    if html:
        write_whole(html, explanation_page(found, sheets))
        view.note(f"written: {html}")
    if options.json:
        view.result(found.plain_values())
    elif html and not all_:
        return
    elif all_ or not view.at_keyboard:
        for i, sheet in enumerate(sheets):
            view.text("\n\n" * bool(i))
            show_sheet(sheet, view)
    else:
        walk(sheets, view)
