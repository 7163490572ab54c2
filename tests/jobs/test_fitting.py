"""Models go where they fit, and what does not fit is told with figures, on machines that are not here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from machines import GB, gpu, write_hollow

from speclocal.errors import OutOfMemoryError, UsageError
from speclocal.jobs.demand import Demand, device_bytes
from speclocal.jobs.fitting import Fit, Memory, fit_draft, fit_target
from speclocal.llama.devices import Device
from speclocal.llama.formats import KvType, Layout
from speclocal.llama.placement import Placement
from speclocal.models.footprint import footprint
from speclocal.models.header import read_header

PLENTY = Memory(30 * GB, 32 * GB)
ROOMY = [gpu("CUDA0", 23)]
TIGHT = [gpu("CUDA0", 4.4, 8)]
AsDemand = Callable[..., Demand]


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> AsDemand:
    """A model of 8 billion parameters, 4.65 GB in the file, of which 0.3 GB are embeddings."""
    path = write_hollow(
        tmp_path_factory.mktemp("models") / "8b.gguf",
        width=4096,
        layers=32,
        heads=32,
        kv_heads=8,
        inner=14336,
        vocab=128256,
    )
    parts = footprint([read_header(path)])

    def demand(context: int = 4096, **placement: object) -> Demand:
        return Demand("8b", parts, Placement(1, **placement), context)  # type: ignore[arg-type]

    return demand


def target(demand: Demand, devices: list[Device], memory: Memory = PLENTY, *, fixed_layout: bool = False) -> Fit:
    return fit_target(demand, devices, memory, fixed_layout=fixed_layout)


def test_a_model_that_fits_goes_on_the_gpu_without_a_word(eight: AsDemand) -> None:
    """With `auto` all layers, which are then a number."""
    assert target(eight(), ROOMY) == Fit(Placement(1, 33))
    assert target(eight(gpu_layers=20), ROOMY) == Fit(Placement(1, 20))
    assert target(eight(gpu_layers=999), ROOMY) == Fit(Placement(1, 33))


def test_what_is_asked_for_is_kept(eight: AsDemand) -> None:
    """Only the number of layers is decided, nothing else of the placement."""
    asked = {"devices": ("CUDA0",), "kv_type": KvType.Q8_0, "mlock": True, "mmap": False}
    assert target(eight(**asked), ROOMY).placement == Placement(1, 33, **asked)  # type: ignore[arg-type]


def test_auto_leaves_to_the_cpu_what_does_not_fit(eight: AsDemand) -> None:
    """One line says how many layers fit where, beside which context."""
    fit = target(eight(), TIGHT)
    assert fit.placement == Placement(1, 22)
    assert fit.note == (
        "22 of 33 layers of `8b` fit CUDA0 with 4.40 GB free, beside a context of 4096 tokens; "
        "the CPU computes the others"
    )
    assert target(eight(), [gpu("CUDA0", 0.5, 8)]).placement == Placement(1, 0)
    assert target(eight(context=32768), TIGHT).placement.gpu_layers == 12
    assert target(eight(), [gpu("CUDA0", 0.5, 8)]).note.startswith("0 of 33 layers of `8b` fit CUDA0")


def test_auto_fills_several_gpus(eight: AsDemand) -> None:
    """Two GPUs that are too small for the model alone hold it together."""
    two = [gpu("CUDA0", 4.4, 8), gpu("CUDA1", 4.4, 8)]
    assert target(eight(), two) == Fit(Placement(1, 33))
    assert (
        "fit CUDA0 with 4.40 GB free, CUDA1 with 1.50 GB free" in target(eight(), [two[0], gpu("CUDA1", 1.5, 8)]).note
    )


def test_more_layers_than_fit_are_refused_with_what_would(eight: AsDemand) -> None:
    """What they need, what is free, and the largest numbers of layers and of tokens that fit, which do fit."""
    with pytest.raises(OutOfMemoryError) as caught:
        target(eight(gpu_layers=26, context=32768), TIGHT)
    assert caught.value.message == (
        "26 of 33 layers of `8b` with a context of 32768 tokens need 7.04 GB on CUDA0; 4.40 GB are free, "
        "of which 800 MB stay in reserve"
    )
    assert caught.value.hint == "give `--gpu-layers 12`"
    with pytest.raises(OutOfMemoryError) as caught:
        target(eight(gpu_layers=18, context=32768), TIGHT)
    assert caught.value.hint == "give `--gpu-layers 12`, or a `--ctx` of at most 13056"
    assert target(eight(gpu_layers=12, context=32768), TIGHT).note == ""
    assert target(eight(gpu_layers=18, context=13056), TIGHT).note == ""
    with pytest.raises(OutOfMemoryError):
        target(eight(gpu_layers=18, context=13056 + 256), TIGHT)


def test_the_device_that_is_short_is_named(eight: AsDemand) -> None:
    """Of several it is the one with least room for what it would get."""
    two = [gpu("CUDA0", 23), gpu("CUDA1", 2, 8)]
    with pytest.raises(OutOfMemoryError, match=r"on CUDA1; 2\.00 GB are free"):
        target(eight(gpu_layers=33, tensor_split=(1.0, 1.0)), two)


def test_weights_larger_than_the_machine_are_refused(eight: AsDemand) -> None:
    """On the CPU, and where only a part of them goes elsewhere, with both figures."""
    small = Memory(3 * GB, 4 * GB)
    with pytest.raises(OutOfMemoryError) as caught:
        target(eight(), [], small)
    assert caught.value.message == ("the weights of `8b` take 4.65 GB of memory, and this machine has 4.00 GB")
    assert caught.value.hint == "choose a smaller model, or one with fewer bits per weight"
    assert target(eight(), ROOMY, small).placement.gpu_layers == 33
    with pytest.raises(OutOfMemoryError, match=r"take 4\.65 GB of memory"):
        target(eight(), [gpu("CUDA0", 0.5, 8)], small)


def test_weights_larger_than_what_is_free_stay_in_the_file(eight: AsDemand) -> None:
    """The system can read them anew when they are needed: slow, and said so; not where they must be in memory."""
    busy = Memory(4 * GB, 8 * GB)
    fit = target(eight(), [], busy)
    assert fit.placement == Placement(1, layout=Layout.FILE)
    assert fit.note == (
        "the weights of `8b` take 4.65 GB of memory, and 4.00 GB are free: "
        "what does not fit is read from the file for every token"
    )
    for option, demand, fixed in (
        ("--mlock", eight(mlock=True), False),
        ("--no-mmap", eight(mmap=False), False),
        ("--layout repacked", eight(), True),
    ):
        with pytest.raises(OutOfMemoryError) as caught:
            target(demand, [], busy, fixed_layout=fixed)
        assert caught.value.message == "the weights of `8b` take 4.65 GB of memory, and 4.00 GB are free"
        assert caught.value.hint.startswith(f"leave out `{option}`")
    kept = target(eight(layout=Layout.FILE), [], busy, fixed_layout=True)
    assert kept.placement.layout is Layout.FILE


def test_without_gpus_nothing_is_decided(eight: AsDemand) -> None:
    """On the CPU a placement stays as it was asked for."""
    assert target(eight(), []) == Fit(Placement(1))
    assert target(eight(gpu_layers=0), []) == Fit(Placement(1, 0))


def test_a_draft_model_goes_whole_on_the_roomiest_gpu(eight: AsDemand) -> None:
    """Spread over several it would wait for each of them at every token."""
    two = [gpu("CUDA0", 9), gpu("CUDA1", 12)]
    assert fit_draft(eight(), two, PLENTY, "t") == Fit(Placement(1, 33, devices=("CUDA1",)))
    assert fit_draft(eight(gpu_layers=5), two, PLENTY, "t") == Fit(Placement(1, 5, devices=("CUDA1",)))


def test_a_draft_model_without_room_on_the_gpu_drafts_on_the_cpu(eight: AsDemand) -> None:
    """One line says what it needs and what the target leaves."""
    fit = fit_draft(eight(), TIGHT, PLENTY, "t")
    assert fit.placement == Placement(1, 0)
    assert fit.note == "`8b` drafts on the CPU: it needs 5.02 GB on CUDA0, and 3.60 GB are free beside `t`"
    assert fit_draft(eight(), [], PLENTY, "t") == Fit(Placement(1))


@pytest.mark.parametrize("devices", [[], TIGHT])
def test_a_draft_model_without_room_at_all_is_refused(devices: list[Device], eight: AsDemand) -> None:
    """The error says what is missing; drafting goes on by lookup."""
    with pytest.raises(OutOfMemoryError) as caught:
        fit_draft(eight(), devices, Memory(5 * GB, 32 * GB), "t")
    assert caught.value.message == "`8b` needs 5.32 GB of memory to draft, and 5.00 GB are free beside `t`"
    assert "lookup" in caught.value.hint


@pytest.mark.parametrize("kv_type", list(KvType))
def test_a_cache_that_does_not_fit_the_heads_is_refused(kv_type: KvType, tmp_path: Path, eight: AsDemand) -> None:
    """Packed formats take numbers by the block: heads of 16 have no such cache, heads of 128 have every one."""
    small = Demand("tiny", footprint([read_header(tiny.write_llama(tmp_path / "tiny"))]), Placement(1), 256)
    small = replace(small, placement=replace(small.placement, kv_type=kv_type))
    assert target(eight(kv_type=kv_type), []).note == ""
    if kv_type in (KvType.F16, KvType.BF16, KvType.F32):
        assert target(small, []) == Fit(small.placement)
        return
    with pytest.raises(UsageError) as caught:
        target(small, [])
    assert caught.value.message == f"`--kv-type {kv_type}` packs 32 numbers together, and the heads of `tiny` have 16"
    assert caught.value.hint == "give f16, bf16 or f32"


def test_a_packed_cache_makes_room_for_layers(eight: AsDemand) -> None:
    """With 4 bits instead of 16 more layers fit beside a long context."""
    packed = target(eight(context=32768, kv_type=KvType.Q4_0), TIGHT).placement.gpu_layers
    assert packed is not None
    assert packed > 15
    assert device_bytes(eight(context=32768, kv_type=KvType.Q4_0), TIGHT, packed)[0] <= 3.6 * GB
