"""A comparison made up by hand, for tests of what is computed from one and shown of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from speclocal.decoding.costs import Calibration, Exactness
from speclocal.decoding.types import SamplingParams
from speclocal.jobs.comparison import (
    Comparison,
    Conditions,
    ForkRecord,
    Machine,
    ModelRecord,
    Passes,
    ReplyRounds,
    RoundRecord,
    Run,
    TaskRecord,
    Versions,
)
from speclocal.jobs.forks import Cause

CURVE = Calibration({1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024}, 0.001, (Exactness(100, (1, 2)), Exactness(600, (1,))))
DRAFT_CURVE = Calibration({1: 0.002, 2: 0.003}, 0.0002, (Exactness(100, (1,)),))
CONDITIONS = Conditions(SamplingParams(), 8, 3, 4, None, False, 256, 1, None, "f16", "repacked", "repacked", "auto")
IDS = (5, 6, 7, 8, 5, 6, 7, 8)
PLAIN_PASSES = (Passes("off", 0, 8, 0, 0, 8, 0.0, 0.08),)
LOOKUP_PASSES = (Passes("off", 0, 2, 0, 0, 2, 0.0, 0.02), Passes("lookup", 3, 2, 5, 4, 6, 0.001, 0.032))


def run(task: str, mode: str, repeat: int, seconds: float, place: int = 0, ids: Sequence[int] = IDS) -> Run:
    """A reply in so many seconds: plain, or of two rounds without a draft and two with drafts of three tokens.

    Of these the first is kept whole; in the second one token is kept and the next rejected.
    """
    plain = mode == "off"
    passes, tested, accepted = (PLAIN_PASSES, (), ()) if plain else (LOOKUP_PASSES, (2, 2, 1), (2, 1, 1))
    return Run(task, mode, repeat, place, None, "length", tuple(ids), seconds, seconds + 0.5, passes, tested, accepted)


def comparison(seconds: Mapping[str, Mapping[str, Sequence[float]]], *, draft: bool = False) -> Comparison:
    """A comparison of replies of 8 tokens in so many seconds: task, mode, repeat."""
    runs = [
        run(task, mode, repeat, taken)
        for task, by_mode in seconds.items()
        for mode, times in by_mode.items()
        for repeat, taken in enumerate(times)
    ]
    modes = tuple(dict.fromkeys(each.mode for each in runs))
    fork = ForkRecord("chat-bread", "lookup", 0, 3, 8, 9, " a", " b", 0.01, 0.02, (1, 4), Cause.ARITHMETIC)
    drafting = RoundRecord(1, "lookup", 3, 3, 3, 4, 0.0005, 0.016)
    return Comparison(
        started="2026-01-02T03:04:05+00:00",
        machine=Machine("Example CPU", 4, 8, 16_000_000_000, "Linux 6.1 x86_64"),
        versions=Versions("0.1", "0.3.36", "AVX2 = 1", "3.11.2"),
        target=ModelRecord("target", "target.gguf", 1_000_000_000, "a" * 64, CURVE),
        draft=ModelRecord("small", "small.gguf", 100_000_000, "b" * 64, DRAFT_CURVE) if draft else None,
        conditions=replace(CONDITIONS, repeats=max(len(t) for by_mode in seconds.values() for t in by_mode.values())),
        modes=modes,
        tasks=tuple(TaskRecord(name, "chat", f"text of {name}", 20, 0.5, None) for name in seconds),
        runs=tuple(replace(each, place=place) for place, each in enumerate(runs)),
        replies=tuple(ReplyRounds(task, "lookup", "a reply", (drafting,)) for task in seconds if "lookup" in modes),
        forks=(fork,) if "chat-bread" in seconds and "lookup" in modes else (),
        complete=True,
    )
