"""Numbers from keys: uniform, independent, and the same in the next release."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from speclocal.decoding.randomness import Use, _to_unit, uniform, uniforms

pytestmark = pytest.mark.filterwarnings("error")

IDS = np.arange(5000)
STREAMS = {
    "seeds": [uniform(seed, Use.TARGET, 3) for seed in range(5000)],
    "positions": [uniform(3, Use.ACCEPT, position) for position in range(5000)],
    "starts": [uniform(3, Use.DRAFT, 100_000, start) for start in range(5000)],
    "ids": uniforms(3, Use.NOISE, 3, IDS).tolist(),
    "seeds of one id": [float(uniforms(seed, Use.NOISE, 3, IDS[7:8])[0]) for seed in range(5000)],
    "positions of one id": [float(uniforms(3, Use.NOISE, position, IDS[7:8])[0]) for position in range(5000)],
}

GOLDEN_USES = [0.6121732801153201, 0.36459510157260305, 0.26568909828831183, 0.25503855235921874]
GOLDEN_DRAFT = 0.22764582344493672
GOLDEN_NOISE = [0.8262090473170858, 0.4775154003344159, 0.7544857171028372]


@pytest.mark.parametrize("stream", STREAMS)
def test_numbers_are_uniform(stream: str) -> None:
    """Along every part of the key, numbers fill (0, 1) evenly; a perfect source fails once in 10,000 sets of keys."""
    numbers = STREAMS[stream]
    assert 0 < min(numbers) < max(numbers) < 1
    assert kstest(numbers, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("lag", [1, 2, 64])
def test_neighbours_are_independent(stream: str, lag: int) -> None:
    """Pairs fill the unit square evenly: 64 cells; a perfect source fails once in 10,000 sets of keys."""
    cells = (np.array(STREAMS[stream]) * 8).astype(int)
    counts = np.bincount(cells[:-lag] * 8 + cells[lag:], minlength=64)
    assert chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(("one", "other"), [(Use.DRAFT, Use.ACCEPT), (Use.ACCEPT, Use.TARGET), (Use.DRAFT, Use.TARGET)])
def test_uses_are_independent(one: Use, other: Use) -> None:
    """Numbers for two decisions about one position fill the unit square evenly; false alarm once in 10,000."""
    cells = [[int(8 * uniform(5, use, position)) for position in range(5000)] for use in (one, other)]
    counts = np.bincount(np.array(cells[0]) * 8 + np.array(cells[1]), minlength=64)
    assert chisquare(counts).pvalue > 1e-4


def test_extreme_bits_stay_inside_the_interval() -> None:
    """Neither no bit nor all bits give 0 or 1: every number has a logarithm that is less than zero."""
    lowest, highest = _to_unit(np.array([0, 2**64 - 1], dtype=np.uint64))
    assert 0 < lowest < 1e-15
    assert 1 - 1e-15 < highest < 1


def test_every_part_of_the_key_counts() -> None:
    """All keys of a grid give different numbers, negative and huge seeds included."""
    decisions = (Use.DRAFT, Use.ACCEPT, Use.TARGET)
    seeds = (0, 1, 2, -1, 2**31, 2**63, 2**64 - 2)
    numbers = [uniform(*key) for key in product(seeds, decisions, range(6), range(6))]
    numbers += [u for seed in seeds for position in range(6) for u in uniforms(seed, Use.NOISE, position, IDS[:50])]
    assert len(set(numbers)) == len(numbers)


def test_number_of_an_id_is_its_own() -> None:
    """An id has the same number in every company, so a filter that drops one token changes no other."""
    together = uniforms(1, Use.NOISE, 2, IDS)
    for some in (IDS[:1], IDS[::7], IDS[4000:], IDS[[5, 3, 4999]]):
        assert uniforms(1, Use.NOISE, 2, some).tolist() == together[some].tolist()


def test_numbers_outlive_a_release() -> None:
    """A seed gives the same text in the next release. If this fails, the change breaks every kept seed."""
    assert [uniform(0, use, 0) for use in Use] == pytest.approx(GOLDEN_USES, abs=1e-12)
    assert uniform(42, Use.DRAFT, 1000, 998) == pytest.approx(GOLDEN_DRAFT, abs=1e-12)
    noise = uniforms(42, Use.NOISE, 17, np.array([0, 1, 151_000]))
    assert noise.tolist() == pytest.approx(GOLDEN_NOISE, abs=1e-12)
