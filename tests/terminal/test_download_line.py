"""The live line of a download: how far, how fast, how long still."""

from __future__ import annotations

import time

import pytest

from speclocal.terminal import words
from speclocal.terminal.speed import Speedometer


def test_speed_is_that_of_the_last_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """One megabyte a second, then two: after ten seconds the first are forgotten."""
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    speed, done = Speedometer(), 0.0
    assert speed.per_second is None
    for second in range(40):
        clock[0] = float(second)
        done += 1e6 if second <= 20 else 2e6
        speed.reached(done)
        if second == 20:
            assert speed.per_second == 1e6
    assert speed.per_second == 2e6


def test_speed_begins_anew_when_a_download_does(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    speed = Speedometer()
    for second, done in ((0, 0), (1, 100), (2, 0), (3, 50)):
        clock[0] = float(second)
        speed.reached(done)
    assert speed.per_second == 50


def test_live_line_of_a_download() -> None:
    assert words.fetching("m", 0, 10**9, None) == "fetching m: 0 B of 1.00 GB"
    assert words.fetching("m", 5 * 10**8, 10**9, 10**7) == "fetching m: 500 MB of 1.00 GB, 10.0 MB/s, about 50 s left"
    assert words.fetching("m", 5 * 10**8, None, 10**7) == "fetching m: 500 MB, 10.0 MB/s"
    assert words.fetching("m", 5 * 10**8, 10**9, 0.0) == "fetching m: 500 MB of 1.00 GB, 0 B/s"
