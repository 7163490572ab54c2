"""Plots of comparisons, as pictures that stand in a page.

Knows matplotlib, an optional extra; what the numbers mean is measures.py's. Names are data: no `$` in them is
mathematics.
"""

from __future__ import annotations

import base64
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

from speclocal.decoding.costs import PassCosts
from speclocal.errors import UsageError
from speclocal.jobs.comparison import PLAIN, Comparison
from speclocal.jobs.measures import acceptance_counts, measures, widths_used

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK, _SOFT, _LINE = "#1b1f24", "#57606a", "#d8dee4"
_PLAIN_COLOUR = "#8a8f98"
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")  # told apart by all eyes: Okabe, Ito 2008
_MARKS = "osD^vP"
_WIDTH = 6.2  # inches
_BAR = 0.2  # inches
_POSITIONS = 16  # in a draft, that are shown
_MOST_TICKS = 24


@dataclass(frozen=True)
class Plot:
    """A picture as a data URL, and in words for those who do not see it."""

    source: str
    words: str


def check_installed() -> None:
    """Raise UsageError where nothing can be drawn, before anything is measured for it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "`--report` draws with matplotlib, which is not installed",
            "install it with `pip install matplotlib` (or speclocal with its extra: `pip install '.[report]'`)",
        )


def speedups_plot(comparison: Comparison) -> Plot | None:
    """Return the speedups of all modes by task, with their intervals; None without any."""
    found = [each for each in measures(comparison) if each.speedup]
    if not found:
        return None
    tasks = [task.name for task in comparison.tasks if any(each.task == task.name for each in found)]
    modes = [mode for mode in comparison.modes if any(each.mode == mode for each in found)]
    colours = _colours(comparison)
    rows = len(tasks) * (len(modes) + 1)

    def draw(axes: Axes) -> None:
        for each in found:
            assert each.speedup
            row = tasks.index(each.task) * (len(modes) + 1) + modes.index(each.mode)
            value, interval = each.speedup.value, each.speedup.interval
            axes.barh(row, value, height=0.8, color=colours[each.mode])
            if interval:
                axes.plot(interval, [row, row], color=_INK, linewidth=1.2, marker="|", markersize=5)
        for mode in modes:
            axes.barh(0, 0, color=colours[mode], label=mode)
        axes.axvline(1, color=_INK, linewidth=1)
        longest = max([1.0, *(each.speedup.value for each in found if each.speedup)])
        reached = max([1.0, *(each.speedup.interval[1] for each in found if each.speedup and each.speedup.interval)])
        axes.set_xlim(0, min(1.05 * max(longest, reached), 2 * longest))  # that of two pairs may reach far beyond
        axes.set_yticks([i * (len(modes) + 1) + (len(modes) - 1) / 2 for i in range(len(tasks))], tasks)
        axes.tick_params(axis="y", length=0)
        axes.invert_yaxis()
        axes.set_xlabel("speedup over plain decoding (the line at 1)")
        axes.grid(axis="x", color=_LINE, linewidth=0.6)
        _legend(axes)

    said = (f"{each.task}, {each.mode}: {each.speedup.value:.2f}" for each in found if each.speedup)
    return _drawn(draw, rows * _BAR + 1.0, f"Speedups over plain decoding. {'; '.join(said)}.")


def costs_plot(comparison: Comparison) -> Plot:
    """Return the pass-cost curve, and below it how often passes of every width were run."""
    curve = comparison.target.calibration
    costs, one = PassCosts(curve), curve.seconds[1]
    used = {mode: counts for mode, counts in widths_used(comparison).items() if mode != PLAIN and counts}
    widest = max([8, *(width for counts in used.values() for width in counts)])
    widths = sorted({width for width in curve.seconds if width <= widest}.union(*used.values()))
    places = range(len(widths))
    colours = _colours(comparison)
    ratios = [costs.seconds(width) / one for width in widths]

    def draw(above: Axes, below: Axes) -> None:
        above.plot(places, ratios, "-o", color=_INK, linewidth=1.5, markersize=4, label="measured here")
        above.plot(places, [1.0] * len(widths), "--", color=_SOFT, linewidth=1, label="textbook: all the same")
        above.plot(places, widths, ":", color=_SOFT, linewidth=1, label="no gain")
        above.set_ylabel("cost of a pass")
        above.set_ylim(0, 1.15 * max(ratios))
        thickness = 0.8 / max(1, len(used))
        for i, (mode, counts) in enumerate(used.items()):
            shares = [counts[width] / counts.total() for width in widths]
            shift = (i - (len(used) - 1) / 2) * thickness
            below.bar([place + shift for place in places], shares, thickness, color=colours[mode], label=mode)
        below.set_ylabel("share of passes")
        below.set_ylim(0, 1)
        below.set_xlabel("tokens in the pass")
        step = 1 + len(widths) // _MOST_TICKS
        below.set_xticks(places[::step], [str(width) for width in widths[::step]])
        for axes in (above, below):
            axes.grid(axis="y", color=_LINE, linewidth=0.6)
            if axes.get_legend_handles_labels()[0]:
                _legend(axes)

    points = "; ".join(f"{width} tokens: {ratio:.2f}" for width, ratio in zip(widths, ratios, strict=True))
    return _drawn(draw, 4.4, f"Cost of a pass by its width, relative to one token. {points}.", heights=(3, 2))


def acceptance_plot(comparison: Comparison) -> Plot | None:
    """Return the acceptance rate at every position of a draft; None without any."""
    found = {
        mode: shares
        for mode in comparison.modes
        if (shares := acceptance_counts([run for run in comparison.runs if run.mode == mode]))
    }
    if not found:
        return None
    colours = _colours(comparison)

    def draw(axes: Axes) -> None:
        for mark, (mode, shares) in zip(_MARKS * len(found), found.items(), strict=False):
            shown = shares[:_POSITIONS]
            positions = range(1, len(shown) + 1)
            most = max(tested for tested, _ in shown)
            axes.plot(positions, [accepted / tested for tested, accepted in shown], color=colours[mode], linewidth=1.4)
            axes.scatter(
                positions,
                [accepted / tested for tested, accepted in shown],
                s=[12 + 60 * tested / most for tested, _ in shown],
                color=colours[mode],
                marker=mark,
                label=mode,
            )
        axes.set_ylim(0, 1.05)
        axes.set_xlabel("position in the draft (larger marks: more tokens were tested there)")
        axes.set_ylabel("acceptance rate")
        longest = min(_POSITIONS, max(map(len, found.values())))
        axes.set_xticks(range(1, longest + 1))
        axes.set_xlim(0.5, longest + 0.5)
        axes.grid(axis="y", color=_LINE, linewidth=0.6)
        _legend(axes)

    said = "; ".join(f"{mode}: {', '.join(f'{k / t:.2f}' for t, k in shares)}" for mode, shares in found.items())
    return _drawn(draw, 2.8, f"Acceptance by position in the draft. {said}.")


def _colours(comparison: Comparison) -> Mapping[str, str]:
    drafting = [mode for mode in comparison.modes if mode != PLAIN]
    return {PLAIN: _PLAIN_COLOUR} | {mode: _COLOURS[i % len(_COLOURS)] for i, mode in enumerate(drafting)}


def _legend(axes: Axes) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, borderaxespad=0.2)


def _drawn(draw: Callable[..., None], height: float, words: str, heights: Sequence[int] = (1,)) -> Plot:
    """Return a figure of panels above each other, drawn by a function that is given their axes."""
    with _quiet():
        import matplotlib
        from matplotlib.figure import Figure

        style: Any = {
            "text.parse_math": False,
            "svg.hashsalt": "speclocal",
            "font.size": 9,
            "axes.edgecolor": _LINE,
            "axes.labelcolor": _SOFT,
            "xtick.color": _SOFT,
            "ytick.color": _INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
        }
        with matplotlib.rc_context(style):
            figure: Figure = Figure(figsize=(_WIDTH, height), layout="constrained")
            panels = figure.subplots(len(heights), sharex=True, height_ratios=heights, squeeze=False)
            draw(*panels[:, 0])
            image = BytesIO()
            figure.savefig(image, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return Plot(f"data:image/svg+xml;base64,{base64.b64encode(image.getvalue()).decode()}", words)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what matplotlib says of fonts to itself: names may have letters that its font lacks."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
