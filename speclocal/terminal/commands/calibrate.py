"""`speclocal calibrate`: what passes cost here."""

from typing import TYPE_CHECKING

from speclocal.terminal.app import MACHINE, command
from speclocal.terminal.options import ModelOptions

if TYPE_CHECKING:
    from speclocal.terminal.render import View


@command(ModelOptions, MACHINE)
def calibrate(*, options: ModelOptions, view: "View") -> None:
    """Measure what passes cost on this machine, and which widths are exact."""
    from dataclasses import asdict

    from speclocal.terminal.opening import chosen, opened
    from speclocal.terminal.tables import curve_table, curve_words, layout_words

    with opened(chosen(options), options, view) as session:
        curves, layouts = session.calibrate(), session.compare_layouts()
    if options.json:
        view.result(
            {
                "models": {name: asdict(curve) for name, curve in curves.items()},
                "layouts": {name: asdict(speeds) for name, speeds in layouts.items()},
            }
        )
        return
    for name, curve in curves.items():
        view.tables(curve_table(name, curve, view.columns))
        view.text("\n" + "".join(f"{sentence}\n" for sentence in curve_words(curve)) + "\n")
    view.text("".join(f"{sentence}\n" for sentence in layout_words(layouts)))
