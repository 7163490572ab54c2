"""The six pages of `speclocal explain`: their order, and how they are turned.

Knows keys; what a page says is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from speclocal.jobs.explanation import Explanation
from speclocal.terminal.keys import read_key
from speclocal.terminal.render import View
from speclocal.terminal.sheets import Sheet, divided, show_sheet
from speclocal.terminal.tour_costs import choosing, drafting, in_practice, waiting
from speclocal.terminal.tour_judging import staying_exact, verifying

_ON = (" ", "\r", "\n", "n", "j", "\x1b[C", "\x1b[B", "\x1b[6~")  # with the arrows, and Page Down
_BACK = ("b", "p", "k", "\x7f", "\x08", "\x1b[D", "\x1b[A", "\x1b[5~")
_PROMPT = 3  # lines below a page: an empty one, and the question which way to go with one above it
_QUIT = ("q", "\x1b", "\x04", "")  # the last: the terminal is gone


def tour(found: Explanation) -> tuple[Sheet, ...]:
    """Return the pages."""
    pages = (waiting, drafting, verifying, choosing, staying_exact, in_practice)
    return tuple(page(found) for page in pages)


def walk(sheets: Sequence[Sheet], view: View) -> None:
    """Show page after page, on and back as somebody presses keys; a page that the terminal cannot hold in parts."""
    screens = [screen for sheet in sheets for screen in divided(sheet, view.columns, view.rows - _PROMPT)]
    place = 0
    while place < len(screens):
        show_sheet(screens[place], view)
        view.text("\n")
        view.doing(f"space: {'end' if place == len(screens) - 1 else 'next page'}, b: back, q: quit")
        while (key := read_key()) not in (*_ON, *_BACK, *_QUIT):
            pass
        if key in _QUIT:
            return
        place = max(0, place - 1) if key in _BACK else place + 1
