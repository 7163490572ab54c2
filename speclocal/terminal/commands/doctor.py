"""`speclocal doctor`: whether models work, fit each other and pay here."""

from typing import TYPE_CHECKING, Annotated

import typer

from speclocal.errors import UsageError
from speclocal.jobs.modes import TASK_TOKENS
from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import ModelOptions

if TYPE_CHECKING:
    from speclocal.jobs.doctor import Examination
    from speclocal.terminal.render import View


@command(ModelOptions, MACHINE)
def doctor(
    *,
    models: Annotated[
        list[str] | None,
        typer.Argument(help="A target, then draft models for it; none: this machine.", metavar="MODEL"),
    ] = None,
    drafts: Annotated[
        list[str] | None, typer.Option("--drafts", help="Draft models to rank; what follows them too.", metavar="DRAFT")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only read the files: measure nothing.")] = False,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", "-n", min=8, max=4096, help="Longest reply of a trial.")
    ] = TASK_TOKENS,
    options: ModelOptions,
    view: "View",
) -> None:
    """Check this machine, a model or a pair: what fits, what pays, and what to do."""
    from speclocal.jobs.doctor import read_files
    from speclocal.jobs.generate import choose_candidates, on_disk
    from speclocal.jobs.trial import Trial
    from speclocal.llama import log

    log.show(options.verbose)
    target, *others = [name for name in (options.model, *(models or [])) if name] or [""]
    names = [name for name in (options.draft, *(drafts or []), *others) if name]
    if not target:
        if names:
            raise UsageError("there is no target to draft for", "name it first: `speclocal doctor TARGET DRAFT`")
        _show_machine(options, view)
        return

    placement = options.placement()
    target_spec, draft_specs = choose_candidates(target, names)
    target_file = on_disk(target_spec, view.fetching)
    found = read_files(
        target_file, [on_disk(spec, view.fetching) for spec in draft_specs], placement.kv_type, max_tokens
    )
    if not quick:
        found = Trial(placement, options.draft_placement(), options.fixed_layout(), view.measuring, view.trying).run(
            found
        )
    _show(found, options, view)


def _show_machine(options: ModelOptions, view: "View") -> None:
    from speclocal.jobs.machine import look_around
    from speclocal.terminal.doctor_json import machine_json
    from speclocal.terminal.doctor_tables import disk_table, machine_table, places_table

    report = look_around()
    if options.json:
        view.result(machine_json(report))
    else:
        view.tables(machine_table(report), places_table(report), disk_table(report))


def _show(found: "Examination", options: ModelOptions, view: "View") -> None:
    from speclocal.terminal.doctor_json import examination_json
    from speclocal.terminal.doctor_tables import tables
    from speclocal.terminal.doctor_words import LEGEND, verdict

    if options.json:
        view.result(examination_json(found))
        return
    for note in found.notes:
        view.note(note)
    view.tables(*tables(found))
    if found.alone:
        view.text(f"{LEGEND}\n")
    view.text("\n" + "".join(f"{sentence}\n" for sentence in verdict(found)))
