"""Absurd numbers are refused before llama.cpp sees them, and what is left out is chosen."""

from __future__ import annotations

import pytest

from speclocal.errors import UsageError
from speclocal.llama.grants import usable_cores
from speclocal.llama.placement import MAX_THREADS, Placement


def test_what_is_asked_for_is_what_is_used() -> None:
    """Numbers in range are taken as they are, more threads than cores included; 0 layers means the CPU."""
    assert Placement.choose(1, 0) == Placement(1, 0)
    assert Placement.choose(MAX_THREADS, 99) == Placement(MAX_THREADS, 99)


def test_what_is_left_out_is_chosen() -> None:
    """Left out: all usable cores, and all layers that the build can place."""
    assert Placement.choose() == Placement(usable_cores(), None)


@pytest.mark.parametrize("threads", [0, -1, MAX_THREADS + 1, 10**12])
def test_absurd_threads_are_refused(threads: int) -> None:
    """The error names the option, the value and the range."""
    with pytest.raises(UsageError, match=f"--threads {threads}") as caught:
        Placement.choose(threads)
    assert str(MAX_THREADS) in caught.value.hint


@pytest.mark.parametrize("layers", [-1, -(10**9)])
def test_absurd_layers_are_refused(layers: int) -> None:
    """A negative number of layers means nothing."""
    with pytest.raises(UsageError, match=f"--gpu-layers {layers}"):
        Placement.choose(1, layers)


def test_the_draft_model_has_layers_of_its_own() -> None:
    """The rest is that of the target, except shares of devices: a draft model goes on one."""
    target = Placement.choose(1, 5, devices=("A", "B"), tensor_split=(3, 1), mlock=True)
    assert target.for_draft(None) == Placement(1, None, devices=("A", "B"), mlock=True)
    with pytest.raises(UsageError, match="--draft-gpu-layers -1 is out of range"):
        target.for_draft(-1)


@pytest.mark.parametrize("shares", [(0.0,), (0.0, 0.0), (-1.0, 2.0), (float("nan"), 1.0), (float("inf"), 1.0)])
def test_shares_that_are_none_are_refused(shares: tuple[float, ...]) -> None:
    """Shares are not below zero, and one of them is above."""
    with pytest.raises(UsageError, match=r"--tensor-split .* are not shares"):
        Placement.choose(1, tensor_split=shares)


def test_one_device_or_several() -> None:
    """The one device for all layers, and shares for several, exclude each other."""
    with pytest.raises(UsageError, match="`--main-gpu` puts all layers on one device"):
        Placement.choose(1, main_gpu=0, tensor_split=(1.0, 1.0))
    with pytest.raises(UsageError, match="--main-gpu -1 is out of range"):
        Placement.choose(1, main_gpu=-1)
