"""Show how the speedups of a long comparison drift, which tells what an interval must allow for.

Reads reports that `speclocal compare --save` wrote, of one task and many repeats each:

    speclocal compare -m qwen2.5-coder --tasks code-edit-python --modes off,auto -n 96 --repeats 60 --save long.json
    python benchmarks/drift.py long.json

For pairs of repeats that were made so many seconds apart it prints by how much their speedups differ: the root of half
the mean square of the difference of their logarithms (a variogram). Noise from pair to pair shows at every distance
alike; what is more at a greater distance is drift. `model` is what ratios.py assumes, on top of the noise at the least
distance. Of several reports of the same comparison it also prints how often two agree within the interval they state.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from speclocal.jobs.comparison import PLAIN, Comparison, load
from speclocal.jobs.measures import ratio
from speclocal.jobs.ratios import DRIFT, DRIFT_SECONDS, Standing

DISTANCES = (15, 30, 60, 120, 240, 480)
"""Seconds: where the groups of distances end."""


@dataclass(frozen=True)
class Pair:
    """One repeat: when it was made, and its speedup."""

    seconds: float
    speedup: float


def pairs(comparison: Comparison, mode: str) -> list[Pair]:
    """Return the speedups of a mode in the order in which they were made."""
    began, ended = {}, 0.0
    for run in sorted(comparison.runs, key=lambda run: run.place):
        began[run.mode, run.repeat] = ended
        ended += run.decode_seconds
    speeds = {(run.mode, run.repeat): run.tokens_per_second for run in comparison.runs}
    repeats = [repeat for name, repeat in speeds if name == mode and (PLAIN, repeat) in speeds]
    return [Pair((began[mode, n] + began[PLAIN, n]) / 2, speeds[mode, n] / speeds[PLAIN, n]) for n in sorted(repeats)]


def variogram(made: Sequence[Pair]) -> list[tuple[float, float, int]]:
    """Return the mean distance in seconds, the deviation and the number of pairs, group by group of distances."""
    groups: dict[int, list[tuple[float, float]]] = {}
    for a, b in combinations(made, 2):
        distance = abs(b.seconds - a.seconds)
        group = next((limit for limit in DISTANCES if distance <= limit), None)
        if group:
            groups.setdefault(group, []).append((distance, math.log(b.speedup / a.speedup) ** 2))
    return [
        (
            statistics.fmean(distance for distance, _ in found),
            math.sqrt(statistics.fmean(square for _, square in found) / 2),
            len(found),
        )
        for _, found in sorted(groups.items())
    ]


def agreement(comparisons: Sequence[Comparison], mode: str) -> str:
    """Return how often two reports agree on a mode."""
    ratios = [found for comparison in comparisons if (found := ratio(comparison, mode))]
    told = [a.over(b).standing for a, b in combinations(ratios, 2)]
    agreeing = sum(standing is not Standing.ABOVE and standing is not Standing.BELOW for standing in told)
    return f"{mode}: {agreeing} of {len(told)} pairs of reports agree; {', '.join(f'{r.value:.2f}' for r in ratios)}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs="+", type=Path)
    args = parser.parse_args(arguments)
    comparisons = [comparison for path in args.reports for comparison in load(path)]
    for path, comparison in zip(args.reports, comparisons, strict=True):
        for mode in comparison.modes[1:]:
            found = variogram(pairs(comparison, mode))
            if len(found) < 2:
                continue
            nearest, noise, _ = found[0]
            print(f"{path.name}, {mode}:   apart   differs   model   pairs")
            for distance, deviation, count in found:
                drifted = DRIFT**2 * (math.exp(-nearest / DRIFT_SECONDS) - math.exp(-distance / DRIFT_SECONDS))
                print(f"{distance:>14.0f} s {deviation:>9.3f} {math.sqrt(noise**2 + drifted):>7.3f} {count:>7}")
    if len(comparisons) > 1:
        for mode in comparisons[0].modes[1:]:
            print(agreement(comparisons, mode))


if __name__ == "__main__":
    main()
