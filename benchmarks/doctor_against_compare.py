"""Set what doctor predicts beside what compare then measures, mode by mode and task by task.

Runs both commands on a pair, one after the other, on the built-in tasks with replies of equal length, and prints both
speedups over plain decoding and how far the prediction is off. The machine should have nothing else to do.

    python benchmarks/doctor_against_compare.py [MODEL] [--draft DRAFT] [--tokens 128] [--repeats 3] [--threads N]
    python benchmarks/doctor_against_compare.py --doctor doctor.json --compare compare.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from speclocal.jobs.modes import TASK_TOKENS

MODES = ("lookup", "draft", "auto")
BOUND = 0.15

Speedups = Mapping[tuple[str, str], float]
"""Speed over plain decoding, by task and mode."""


def predicted(document: Mapping[str, Any]) -> Speedups:
    """Return what `doctor --json` says: of the first draft model that fits, else of the target alone."""
    forecasts = [candidate["forecast"] for candidate in document["candidates"] if candidate["forecast"]]
    forecast = forecasts[0] if forecasts else document["alone"]
    return {
        (task["task"], mode): task["modes"][mode]["speedup"]
        for task in forecast["tasks"]
        for mode in MODES
        if mode in task["modes"]
    }


def measured(document: Mapping[str, Any]) -> Speedups:
    """Return what the runs of `compare --json` say: the median over the repeats, each against plain decoding in it."""
    pace = {
        (run["task"], run["mode"], run["repeat"]): len(run["token_ids"]) / run["decode_seconds"]
        for run in document["comparisons"][0]["runs"]
    }
    ratios: dict[tuple[str, str], list[float]] = {}
    for (task, mode, repeat), speed in pace.items():
        if mode in MODES:
            ratios.setdefault((task, mode), []).append(speed / pace[task, "off", repeat])
    return {key: statistics.median(values) for key, values in ratios.items()}


def report(predictions: Speedups, measurements: Speedups) -> float:
    """Print both side by side; return the largest relative error."""
    errors = []
    print(f"{'task':<20}{'mode':<8}{'predicted':>10}{'measured':>10}{'error':>9}")
    for (task, mode), found in measurements.items():
        if (task, mode) not in predictions:
            continue
        errors.append(predictions[task, mode] / found - 1)
        mark = "" if abs(errors[-1]) <= BOUND else "  beyond the bound"
        print(f"{task:<20}{mode:<8}{predictions[task, mode]:>9.2f}x{found:>9.2f}x{errors[-1]:>+9.1%}{mark}")
    inside = sum(abs(error) <= BOUND for error in errors)
    print(f"{inside} of {len(errors)} within {BOUND:.0%}; median error {statistics.median(map(abs, errors)):.1%}")
    return max(map(abs, errors))


def run(*arguments: str) -> Any:
    """Return the JSON object that a command of speclocal prints."""
    command = [sys.executable, "-m", "speclocal", *arguments, "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="qwen2.5-coder")
    parser.add_argument("--draft", default="")
    parser.add_argument("--tokens", type=int, default=TASK_TOKENS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--doctor", type=Path, help="what `speclocal doctor --json` printed")
    parser.add_argument("--compare", type=Path, help="what `speclocal compare --json` printed")
    parser.add_argument("--keep", type=Path, help="a folder for what both commands print")
    args = parser.parse_args(arguments)

    common = ["-m", args.model, "-n", str(args.tokens)]
    common += ["-d", args.draft] if args.draft else []
    common += ["--threads", str(args.threads)] if args.threads else []
    doctor = json.loads(args.doctor.read_text()) if args.doctor else run("doctor", *common)
    compare = (
        json.loads(args.compare.read_text())
        if args.compare
        else run("compare", *common, "--repeats", str(args.repeats))
    )
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        (args.keep / "doctor.json").write_text(json.dumps(doctor, indent=1))
        (args.keep / "compare.json").write_text(json.dumps(compare, indent=1))
    report(predicted(doctor), measured(compare))


if __name__ == "__main__":
    main()
