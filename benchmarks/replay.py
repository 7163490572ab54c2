"""Replay recorded replies under any policy on any pass-cost curve, in seconds and without a model.

The real loop, planner and drafters run; the models are played from traces.json (see record_traces.py), and the clock
goes by a curve of curves.toml: this machine's, or one of hardware that is not here. Reports tokens per second relative
to plain decoding for every fixed setting, for auto, and for a clairvoyant that knows which drafts will be accepted.

    python benchmarks/replay.py [--curve NAME ...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from speclocal.decoding.costs import Calibration, Exactness, PassCosts
from speclocal.decoding.drafters import NoDrafter
from speclocal.decoding.drafters.lookup import LookupDrafter
from speclocal.decoding.planner import AutoPlanner, FixedPlanner
from speclocal.decoding.replay import Machine, MakePlanner, Trace, replay
from speclocal.jobs.drafting import AUTO_TAIL
from speclocal.jobs.forecast import DRAFT_LENGTHS, LOOKUP_LENGTHS

HERE = Path(__file__).parent


def seconds_of(trace: Trace, machine: Machine, make: MakePlanner) -> float:
    """Return the decode seconds of a reply under the planner that `make` returns."""
    return replay(trace, machine, make).decode_seconds


def clairvoyant_seconds(trace: Trace, machine: Machine) -> float:
    """Return the least seconds of any sequence of drafts, knowing which tokens will be accepted."""
    target, draft = PassCosts(machine.target), PassCosts(machine.draft)
    num = len(trace.emitted)
    copies, guesses = [0] * num, [0] * num  # accepted tokens of an endless draft that begins at each place
    lookup = LookupDrafter(min_match=1)
    for i in range(num):
        tokens = trace.prompt + trace.emitted[:i]
        match = lookup.match(tokens)
        copied = lookup.copy(match, target.widest) if match else []
        copies[i] = _num_equal(copied, trace.emitted[i:])
        guesses[i] = _num_equal(trace.draft[i:], trace.emitted[i:])
    step = draft.seconds(1)

    def least(with_draft: bool) -> float:
        best = [0.0] * (num + 1)
        for i in reversed(range(num)):
            options = [target.seconds(1) + best[i + 1]]
            for size in range(1, min(max(copies[i], guesses[i] * with_draft), num - i - 1, target.widest - 1) + 1):
                price = 0.0 if size <= copies[i] else size * step
                options.append(price + target.seconds(size + 1) + best[i + size + 1])
            best[i] = min(options)
        return best[0] + (draft.seconds(min(AUTO_TAIL, len(trace.prompt))) if with_draft else 0.0)

    return min(least(False), least(True))


def _num_equal(a: Sequence[int], b: Sequence[int]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def policies() -> dict[str, MakePlanner]:
    """Return every fixed setting by its name."""
    return (
        {"off": lambda played: FixedPlanner(NoDrafter(), 0)}
        | {f"lookup:{g}": lambda played, g=g: FixedPlanner(LookupDrafter(), g) for g in LOOKUP_LENGTHS}
        | {f"draft:{g}": lambda played, g=g: FixedPlanner(played(AUTO_TAIL), g) for g in DRAFT_LENGTHS}
    )


def auto(machine: Machine) -> MakePlanner:
    """Return a maker of the auto planner that knows the machine's curves as it would after a calibration."""
    return lambda played: AutoPlanner(
        PassCosts(machine.target), LookupDrafter(min_match=1), played(AUTO_TAIL), PassCosts(machine.draft)
    )


def load_machines(path: Path, names: Sequence[str]) -> list[Machine]:
    """Return the machines of curves.toml, all of them where no names are given."""
    curves = tomllib.loads(path.read_text())["curves"]
    machines = []
    for name, curve in curves.items():
        if names and name not in names:
            continue
        one = curve["seconds_per_token"]
        seconds = {w: one * r for w, r in zip(curve["widths"], curve["relative"], strict=True)}
        ratio = curve["draft_ratio"]
        widest = max(seconds)
        nothing = (Exactness(0, (1,)),)
        machines.append(
            Machine(
                name,
                Calibration(seconds, seconds[widest] / widest, nothing),
                Calibration({w: s * ratio for w, s in seconds.items()}, ratio * seconds[widest] / widest, nothing),
            )
        )
    return machines


def report(traces: Sequence[Trace], machine: Machine) -> dict[str, Any]:
    """Replay all traces on a machine and print a table of speeds relative to plain decoding."""
    makers = policies()
    speeds: dict[str, list[float]] = {name: [] for name in (*makers, "auto", "clairvoyant")}
    for trace in traces:
        plain = seconds_of(trace, machine, makers["off"])
        for name, make in makers.items():
            speeds[name].append(plain / seconds_of(trace, machine, make))
        speeds["auto"].append(plain / seconds_of(trace, machine, auto(machine)))
        speeds["clairvoyant"].append(plain / clairvoyant_seconds(trace, machine))
    best_single = max(makers, key=lambda name: geometric_mean(speeds[name]))
    print(f"\n{machine.name}: speed relative to plain decoding")
    print(f"{'prompt':<22}{'auto':>7}{'best fixed':>22}{best_single:>12}{'clairvoyant':>13}")
    for i, trace in enumerate(traces):
        best = max(makers, key=lambda name: speeds[name][i])
        print(
            f"{trace.name:<22}{speeds['auto'][i]:>7.2f}{f'{best} {speeds[best][i]:.2f}':>22}"
            f"{speeds[best_single][i]:>12.2f}{speeds['clairvoyant'][i]:>13.2f}"
        )
    best_each = [max(speeds[name][i] for name in makers) for i in range(len(traces))]
    summary = {
        "best_single": best_single,
        "auto": geometric_mean(speeds["auto"]),
        "auto_over_best_single": geometric_mean(speeds["auto"]) / geometric_mean(speeds[best_single]),
        "auto_over_best_each": geometric_mean(speeds["auto"]) / geometric_mean(best_each),
        "worst_over_best_each": min(a / b for a, b in zip(speeds["auto"], best_each, strict=True)),
        "worst_over_off": min(speeds["auto"]),
        "auto_over_clairvoyant": geometric_mean(speeds["auto"]) / geometric_mean(speeds["clairvoyant"]),
    }
    print(
        "  ".join(
            f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in summary.items()
        )
    )
    return {"machine": machine.name, "speeds": speeds, **summary}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--curve", action="append", default=[], help="a curve of curves.toml; repeatable")
    parser.add_argument("--traces", type=Path, default=HERE / "traces.json")
    parser.add_argument("--json", type=Path, help="write everything to this file")
    args = parser.parse_args()
    traces = [Trace.compact(raw) for raw in json.loads(args.traces.read_text())["traces"]]
    results = [report(traces, machine) for machine in load_machines(HERE / "curves.toml", args.curve)]
    for key in ("auto_over_best_single", "auto_over_best_each", "auto_over_clairvoyant"):
        print(f"geometric mean over all curves: {key} {geometric_mean([result[key] for result in results]):.3f}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
