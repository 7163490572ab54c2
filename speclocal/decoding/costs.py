"""What a pass over n tokens costs here: the measured pass-cost curve, and which widths compute the same bits.

Knows models through their protocol and a clock, not machines or files.

Textbooks take a pass over g + 1 tokens to cost what a pass over one costs. Real curves rise, with steps where kernels
switch, and decide whether a draft pays. Passes of different widths can also differ in the bits of their logits: the
exact widths are those that compute what one-token passes compute.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from speclocal.decoding.types import Logits, Model

NARROW = (1, 2, 3, 4, 5, 6, 7, 8, 12)
"""The widths that are measured and compared with one-token passes: dense, since kernels switch at few rows."""
WIDE = (64, 32, 17, 16)
"""The widths that are measured once, while they fill the cache for the comparison."""
USUAL = (9,)
"""The widths of fixed draft lengths that lie between those above."""
WIDEST = 4096
"""The widest pass that a curve may have."""
_REPEATS = 3
"""How often a narrow pass is run where one curve decides: the median stands."""
READ = 128
"""Tokens in the pass that shows how fast a text is read."""
DEEP = 512
"""Tokens in the cache at the second comparison: llama.cpp's attention sums in another order from about here on."""
TEXT_LENGTH = DEEP + max(NARROW)
"""Tokens that a calibration reads at most."""


@dataclass(frozen=True)
class Exactness:
    """The widths whose passes gave the bits of one-token passes, while the cache held no more than `depth` tokens."""

    depth: int
    widths: tuple[int, ...]


@dataclass(frozen=True)
class Speeds:
    """The seconds per token of reading a long text and of writing token by token."""

    read_seconds: float
    token_seconds: float


@dataclass(frozen=True)
class Calibration:
    """What was measured of one model on this machine.

    seconds: by pass width, at a short context. read_seconds: per token when a long text is read.
    exact: by rising depth. What holds at DEEP is taken to hold beyond; without that comparison nothing is.
    rollback_seconds: of going back to where a pass began, without reading anything.
    """

    seconds: Mapping[int, float]
    read_seconds: float
    exact: tuple[Exactness, ...]
    rollback_seconds: float = 0.0

    def __post_init__(self) -> None:
        if 1 not in self.seconds or not self.exact:
            raise ValueError("a calibration needs a pass over one token, and a depth at which widths were compared")
        if not all(1 <= width <= WIDEST for width in self.seconds):
            raise ValueError(f"a calibration has passes over 1 to {WIDEST} tokens")
        if not all(0 < seconds < math.inf for seconds in (*self.seconds.values(), self.read_seconds)):
            raise ValueError("a pass that takes no time, or for ever")

    @property
    def speeds(self) -> Speeds:
        return Speeds(self.read_seconds, self.seconds[1])

    def exact_widths(self, depth: int) -> tuple[int, ...]:
        """Return the exact widths of a pass that leaves `depth` tokens in the cache."""
        beyond = self.exact[-1].widths if self.is_deep else (1,)
        return next((found.widths for found in self.exact if depth <= found.depth), beyond)

    def undisturbed(self) -> Calibration:
        """Return what is believed of it: a width that took longer than as many passes over one token was disturbed."""
        seconds = {width: min(taken, width * self.seconds[1]) for width, taken in self.seconds.items()}
        return replace(self, seconds=seconds)

    @property
    def is_deep(self) -> bool:
        """Whether exact widths were looked for at a long context too."""
        return self.exact[-1].depth > DEEP

    def rereadable_widths(self, depth: int, num_droppable: int) -> tuple[int, ...]:
        """Return the exact widths of a pass that stays exact where rejecting more than `num_droppable` tokens of it
        means reading those before them again, in a pass of any smaller width."""
        widths = self.exact_widths(depth)
        unbroken = len(list(takewhile(lambda pair: pair[0] == pair[1], enumerate(widths, start=1))))
        return tuple(width for width in widths if width <= max(unbroken, 1 + num_droppable))


class PassCosts:
    """The seconds of a pass by its width: a calibration, corrected by every pass that is really run.

    A context that grows costs time for every row of a pass, since each attends to all of it: what one-token passes
    take longer than calibrated is taken to be that. What wider passes differ by then is a factor, partly of all widths
    (a machine that slows down) and partly of their own (a measurement that was off).
    """

    _STEP = 0.2  # how far an observation moves what is known
    _OUTLIER = 2.0  # a pass that another program disturbed counts as no more than this many times too slow

    def __init__(self, calibration: Calibration) -> None:
        measured = sorted(calibration.seconds)
        self.widest = measured[-1]
        self.rollback_seconds = calibration.rollback_seconds
        self._by_width = np.interp(
            range(self.widest + 1), [0, *measured], [0.0, *(calibration.seconds[width] for width in measured)]
        ).tolist()
        self._per_token = calibration.read_seconds
        self._per_row = 0.0  # what the context adds, beyond that of the calibration

    def seconds(self, width: int) -> float:
        """Return the expected seconds of a pass over `width` tokens, or of reading a longer text."""
        if width <= self.widest:
            return float(self._by_width[width]) + width * self._per_row
        return max(self.seconds(self.widest), width * (self._per_token + self._per_row))

    def settle(self, seconds: float) -> None:
        """Take passes over one token to cost `seconds` here: what is more than calibrated is what the context adds to
        every row, and what is less a machine that is faster in all widths."""
        self._per_row = max(0.0, seconds - self._by_width[1])
        factor = min(1.0, seconds / self._by_width[1])
        self._by_width = [known * factor for known in self._by_width]
        self._per_token *= factor

    def observe(self, width: int, seconds: float) -> None:
        """Learn from a pass that took `seconds`."""
        expected = self.seconds(width)
        if expected <= 0 or seconds <= 0:
            return
        if width == 1 and (self._per_row > 0 or seconds > expected):
            limited = min(seconds, self._OUTLIER * expected)
            self._per_row = max(0.0, self._per_row + self._STEP * (limited - expected))
            return
        step = self.rescale(expected, seconds)
        if width <= self.widest:
            self._by_width[width] *= step

    def rescale(self, expected: float, seconds: float) -> float:
        """Learn from passes that were expected to take `expected` seconds; return the factor of the correction."""
        if expected <= 0 or seconds <= 0:
            return 1.0
        error = min(max(seconds / expected, 1 / self._OUTLIER), self._OUTLIER)
        step = float(error ** (self._STEP / 2))
        self._by_width = [known * step for known in self._by_width]
        self._per_token *= step
        return step


def calibrate(
    model: Model,
    text: Sequence[int],
    clock: Callable[[], float],
    progress: Callable[[float], None],
    *,
    deep: bool = False,
) -> Calibration:
    """Measure a model. Leaves the cache empty.

    text: TEXT_LENGTH token ids of ordinary text. progress: told the share that is done, now and then.
    deep: also look for exact widths at a long context, which takes as long again.
    """
    probe = _Probe(model, text, clock)
    probe.warm_up()
    num_steps = len(WIDE) + 2 + deep
    for done, width in enumerate(WIDE, start=1):  # these also fill the cache for the comparison
        probe.run(width)
        progress(done / num_steps)
    exact = [probe.compare(NARROW)]
    progress((len(WIDE) + 1) / num_steps)
    read_seconds = probe.read(READ)
    if deep:
        progress((len(WIDE) + 2) / num_steps)
        probe.read(DEEP - len(model.cached))
        exact.append(probe.compare(exact[0].widths))
    progress(1.0)
    model.rollback(0)
    return Calibration(probe.curve(), read_seconds, tuple(exact), statistics.median(probe.rollbacks))


def measure_speeds(model: Model, text: Sequence[int], clock: Callable[[], float]) -> Speeds:
    """Measure only how fast a model reads and writes. Leaves the cache empty."""
    probe = _Probe(model, text, clock)
    probe.warm_up()
    read_seconds = probe.read(READ)
    for _ in range(8):
        probe.run(1)
    model.rollback(0)
    return Speeds(read_seconds, probe.curve()[1])


def quickest_pass(model: Model, clock: Callable[[], float]) -> float:
    """Return the least seconds of a few passes over one token, after what the cache holds; it is left as it was."""
    place = len(model.cached)
    if place == model.context_size:
        return math.inf
    taken = []
    for _ in range(_REPEATS):
        began = clock()
        model.forward([0], 1)
        taken.append(clock() - began)
        model.rollback(place)
    return min(taken)


def curve_here(model: Model, text: Sequence[int], clock: Callable[[], float]) -> dict[int, float]:
    """Measure passes at the context they are wanted for: the seconds by width, after what the cache holds.

    text: what the cache holds and what follows it, by which passes are wide enough. Leaves the cache as it was.
    """
    probe, start = _Probe(model, text, clock), len(model.cached)
    room = min(len(text), model.context_size) - start
    widest = min(room, model.max_rows)
    for width in (*WIDE, *_REPEATS * (*NARROW, *USUAL)):
        for each in (1, width) if width <= widest else (1,):  # in turns: a machine that slows down slows both
            probe.run(each)
            model.rollback(start)
    return probe.curve()


class _Probe:
    """Runs passes over the next tokens of a text and keeps their seconds, by width."""

    def __init__(self, model: Model, text: Sequence[int], clock: Callable[[], float]) -> None:
        self.model = model
        self.text = text
        self.clock = clock
        self.seconds: dict[int, list[float]] = {}
        self.rollbacks: list[float] = []

    def warm_up(self) -> None:
        """Pay for what only the first passes cost: buffers, and pages of the file."""
        self.model.rollback(0)
        for width in (WIDE[-1], 1):
            self.run(width)
        self.model.rollback(0)
        self.seconds.clear()

    def run(self, width: int) -> Logits:
        start = len(self.model.cached)
        began = self.clock()
        logits = self.model.forward(self.text[start : start + width], width)
        self.seconds.setdefault(width, []).append(self.clock() - began)
        return logits

    def curve(self) -> dict[int, float]:
        """Return the median seconds of every width."""
        return {width: statistics.median(taken) for width, taken in sorted(self.seconds.items())}

    def read(self, num_tokens: int) -> float:
        """Read on for `num_tokens`; return the seconds per token."""
        began, end = self.clock(), len(self.model.cached) + num_tokens
        while (held := len(self.model.cached)) < end:
            self.model.forward(self.text[held : min(end, held + self.model.max_pass)], 0)
        return (self.clock() - began) / num_tokens

    def compare(self, widths: Sequence[int]) -> Exactness:
        """Run a pass of every width from here, and compare its logits with those of one-token passes, bit by bit."""
        start = len(self.model.cached)
        alone = [self.run(1)[0].copy() for _ in range(max(widths))]
        exact = []
        for width in widths:
            began = self.clock()
            self.model.rollback(start)
            self.rollbacks.append(self.clock() - began)
            if all(map(np.array_equal, self.run(width), alone)):
                exact.append(width)
        return Exactness(start + max(widths), tuple(exact))
