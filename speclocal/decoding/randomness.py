"""Random numbers that depend on where they are used, not on how many were used before.

Knows keys, not models. A number is a hash of its key, so a rejected draft, a longer draft or another drafter changes no
other number: same seed, same position, same number.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from speclocal.decoding.types import Floats, Ids

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: spreads consecutive keys over all 64 bits
_MASK = (1 << 64) - 1


class Use(IntEnum):
    """What a number decides. Two decisions never share one."""

    DRAFT = 1
    ACCEPT = 2
    TARGET = 3
    NOISE = 4


def uniform(seed: int, use: Use, position: int, start: int = 0) -> float:
    """Return one number in (0, 1) for this key."""
    key = _key(seed, use, position, start)
    return ((_scramble_int(key) >> 12) + 0.5) * 2.0**-52


def uniforms(seed: int, use: Use, position: int, ids: Ids) -> Floats:
    """Return one number in (0, 1) for every token id: [K] -> [K]."""
    spread = ids.astype(np.uint64) * np.uint64(_GOLDEN)
    return _to_unit(_scramble(spread + np.uint64(_key(seed, use, position, 0))))


def _key(*words: int) -> int:
    key = 0
    for word in words:
        key = _scramble_int((key + word) * _GOLDEN + 1)
    return key


def _scramble_int(x: int) -> int:
    """The finalizer of SplitMix64 (Steele, Lea, Flood 2014, doi:10.1145/2714064.2660195)."""
    x &= _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def _scramble(x: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The same, for many at once."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _to_unit(bits: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> Floats:
    """Map 64 random bits to the middle of one of 2^52 equal slices of (0, 1): never 0, never 1."""
    return ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
