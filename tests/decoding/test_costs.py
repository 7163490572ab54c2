"""The measured pass-cost curve: what a calibration finds, and how real passes correct it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
from fakes import FakeModel

from speclocal.decoding.costs import (
    DEEP,
    NARROW,
    READ,
    TEXT_LENGTH,
    WIDE,
    Calibration,
    Exactness,
    PassCosts,
    calibrate,
    measure_speeds,
)
from speclocal.decoding.types import Logits


class Clock:
    """Time that passes only when somebody adds to it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class TimedModel(FakeModel):
    """A fake model whose passes take time, and whose wide passes compute other bits where `exact` says so.

    One that cannot roll back takes a tenth of a pass over one token to return to a place, on top of what it reads.
    """

    def __init__(
        self,
        clock: Clock,
        seconds: Callable[[int], float],
        exact: Callable[[int, int], bool] = lambda width, held: True,
        *,
        noise: float = 0.0,
        seed: int = 0,
        can_rollback: bool = True,
    ) -> None:
        super().__init__(
            context_size=1024, max_pass=512, max_rows=128, seed=seed, noise=noise, can_rollback=can_rollback
        )
        self.clock = clock
        self.seconds = seconds
        self.exact = exact

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        logits = super().forward(tokens, num_rows)
        if not self.exact(len(tokens), len(self.cached)):
            logits += 1e-6
        return logits

    def rollback(self, length: int) -> None:
        if length < len(self.cached) and not self.can_rollback:
            self.clock.now += 0.1 * self.seconds(1)
        super().rollback(length)

    def _read(self, tokens: Sequence[int]) -> None:
        self.clock.now += self.seconds(len(tokens))
        super()._read(tokens)


TEXT = [i % 5 for i in range(TEXT_LENGTH)]


def straight(width: int) -> float:
    return 0.01 + 0.002 * width


def test_calibration_finds_the_curve() -> None:
    """Every measured width has its true cost, reading has that of wide passes, and the cache is left empty."""
    clock = Clock()
    model = TimedModel(clock, straight)
    shares: list[float] = []
    found = calibrate(model, TEXT, clock, shares.append)
    assert set(found.seconds) == {*NARROW, *WIDE}
    for width, seconds in found.seconds.items():
        assert seconds == pytest.approx(straight(width))
    assert found.read_seconds == pytest.approx(straight(READ) / READ)
    assert model.cached == []
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.parametrize("can_rollback", [True, False])
def test_calibration_finds_what_going_back_costs(can_rollback: bool) -> None:
    """The time of a return to where a pass began; reading on from there is a pass, and not part of it."""
    clock = Clock()
    found = calibrate(
        TimedModel(clock, straight, can_rollback=can_rollback), TEXT, clock, lambda share: None, deep=True
    )
    assert found.rollback_seconds == pytest.approx(0.0 if can_rollback else 0.1 * straight(1))
    assert found.exact[-1].widths == NARROW


def test_widths_with_a_gap_below_are_not_replayable() -> None:
    """What is read again after a rejection must be exact at any width below that of the pass, unless it is dropped."""
    found = Calibration({1: 1.0}, 1.0, (Exactness(100, (1, 2, 3, 5, 8)), Exactness(DEEP + 1, (1,))))
    assert found.rereadable_widths(100, 0) == (1, 2, 3)
    assert found.rereadable_widths(100, 3) == (1, 2, 3)
    assert found.rereadable_widths(100, 4) == (1, 2, 3, 5)
    assert found.rereadable_widths(100, 100) == (1, 2, 3, 5, 8)
    assert found.rereadable_widths(101, 0) == (1,)


def test_calibration_finds_the_exact_widths() -> None:
    """Widths that compute other bits are not exact; being exact at a short context promises nothing at a long one."""
    clock = Clock()
    model = TimedModel(clock, straight, lambda width, held: width == 1 or (width <= 4 and held < 256) or width == 3)
    found = calibrate(model, TEXT, clock, lambda share: None, deep=True)
    shallow, deep = found.exact
    assert shallow.widths == (1, 2, 3, 4)
    assert deep.widths == (1, 3)
    assert deep.depth > DEEP
    assert found.exact_widths(shallow.depth) == (1, 2, 3, 4)
    assert found.exact_widths(shallow.depth + 1) == (1, 3)
    assert found.exact_widths(100_000) == (1, 3)


def test_what_was_not_compared_is_not_called_exact() -> None:
    """Without the comparison at a long context, only one-token passes are exact beyond the short one."""
    clock = Clock()
    found = calibrate(TimedModel(clock, straight), TEXT, clock, lambda share: None)
    assert not found.is_deep
    depth = found.exact[0].depth
    assert found.exact_widths(depth) == NARROW
    assert found.exact_widths(depth + 1) == (1,)


def test_no_pass_costs_more_than_single_passes() -> None:
    """A measurement that another program disturbed is kept, and believed only up to so many one-token passes."""
    clock = Clock()
    found = calibrate(TimedModel(clock, lambda w: 9.0 if w == 17 else 0.01), TEXT, clock, lambda share: None)
    assert found.seconds[17] == pytest.approx(9.0)
    assert found.undisturbed().seconds[17] == pytest.approx(0.17)


def test_speeds_are_those_of_the_calibration() -> None:
    """The short measurement agrees with the long one."""
    clock = Clock()
    model = TimedModel(clock, lambda width: 0.01 * width)
    whole = calibrate(model, TEXT, clock, lambda share: None).speeds
    short = measure_speeds(model, TEXT, clock)
    assert short.read_seconds == pytest.approx(whole.read_seconds)
    assert short.token_seconds == pytest.approx(whole.token_seconds)


def calibration(seconds: dict[int, float], read_seconds: float = 0.01) -> Calibration:
    return Calibration(seconds, read_seconds, (Exactness(0, (1,)),))


def test_costs_between_measured_widths_lie_on_a_line() -> None:
    """Linear in between; beyond the last width as reading goes, and never less than the last."""
    costs = PassCosts(calibration({1: 1.0, 2: 1.5, 4: 2.5, 8: 2.7}, read_seconds=0.3))
    assert [costs.seconds(width) for width in (1, 2, 3, 4, 6, 8)] == pytest.approx([1, 1.5, 2, 2.5, 2.6, 2.7])
    assert costs.seconds(9) == pytest.approx(2.7)
    assert costs.seconds(20) == pytest.approx(6.0)


def test_a_growing_context_costs_every_row() -> None:
    """One-token passes that take longer make a pass over 8 tokens dearer by 8 times as much."""
    costs = PassCosts(calibration({1: 1.0, 8: 2.0}))
    for _ in range(100):
        costs.observe(1, 1.5)
    assert costs.seconds(1) == pytest.approx(1.5)
    assert costs.seconds(8) == pytest.approx(2.0 + 8 * 0.5)
    for _ in range(100):
        costs.observe(1, 1.0)  # as after the context was cut
    assert costs.seconds(8) == pytest.approx(2.0)


def test_costs_settle_where_plain_decoding_is() -> None:
    """One-token passes of 1.5 s for 1.0 s: half a second more for every row. Of 0.5 s: every width takes half."""
    costs = PassCosts(calibration({1: 1.0, 8: 2.0}, read_seconds=0.4))
    costs.settle(1.5)
    assert [costs.seconds(width) for width in (1, 8, 20)] == pytest.approx([1.5, 2.0 + 8 * 0.5, 20 * 0.9])
    costs = PassCosts(calibration({1: 1.0, 8: 2.0}, read_seconds=0.4))
    costs.settle(0.5)
    assert [costs.seconds(width) for width in (1, 8, 20)] == pytest.approx([0.5, 1.0, 20 * 0.2])


def test_a_faster_machine_shifts_the_whole_curve() -> None:
    """Passes that take half as long are learned, also for widths that were not run."""
    costs = PassCosts(calibration({1: 1.0, 8: 2.0}))
    for _ in range(200):
        costs.observe(1, 0.5)
    assert costs.seconds(1) == pytest.approx(0.5, rel=0.02)
    assert costs.seconds(8) < 1.6


def test_a_wrong_measurement_of_one_width_is_corrected_alone() -> None:
    """Where one width was off and the others are right, only that one moves for good."""
    costs = PassCosts(calibration({1: 1.0, 2: 1.5, 3: 2.0}))
    for _ in range(200):
        costs.observe(1, 1.0)
        costs.observe(2, 3.0)
        costs.observe(3, 2.0)
    assert [costs.seconds(width) for width in (1, 2, 3)] == pytest.approx([1, 3, 2], rel=0.15)


def test_one_disturbed_pass_moves_little() -> None:
    """A pass a hundred times too slow counts as an outlier."""
    costs = PassCosts(calibration({1: 1.0}))
    costs.observe(1, 100.0)
    assert costs.seconds(1) <= 1.2
    assert math.isfinite(costs.seconds(1))
