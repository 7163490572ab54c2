"""A header is read as the gguf package reads it, at once; a file that cannot be what it says is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import pytest
import tiny
from ggufs import file_of, tensor, value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speclocal.errors import DamagedModelError, ModelError
from speclocal.models.gguf_format import TENSOR_TYPES
from speclocal.models.header import _MIXES, Header, read_header

LAYER_BYTES = 2 * 64 * 4 + (64 + 32 + 32 + 64 + 3 * 96) * 64 // 32 * 34  # two norms in F32, seven matrices in Q8_0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_llama(tmp_path_factory.mktemp("header") / "model.gguf")


def numbers(kind: int, *values: Any) -> bytes:
    return struct.pack({4: "<I", 6: "<f", 10: "<Q"}[kind], *values)


def read(folder: Path, content: bytes) -> Header:
    path = folder / "written.gguf"
    path.write_bytes(content)
    return read_header(path)


def damage(folder: Path, content: bytes) -> str:
    with pytest.raises(DamagedModelError) as caught:
        read(folder, content)
    assert caught.value.message == f"`written.gguf` is damaged: {caught.value.reason}"
    return caught.value.reason


@pytest.mark.parametrize("write", [tiny.write_llama, tiny.write_sliding_window, tiny.write_recurrent])
def test_values_and_tensors_are_those_the_gguf_package_reads(write: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf")
    header, reference = read_header(path), gguf.GGUFReader(path)
    assert header.metadata.keys() == {key for key in reference.fields if not key.startswith("GGUF.")}
    for key, mine in header.metadata.items():
        theirs = reference.fields[key].contents()
        if isinstance(theirs, list):
            assert header.lengths[key] == len(theirs)
        if mine is not None:
            assert mine == (tuple(theirs) if isinstance(theirs, list) else theirs)
    assert [(t.name, t.shape, t.type, header.data_start + t.offset, t.num_bytes) for t in header.tensors] == [
        (t.name, tuple(t.shape.tolist()), t.tensor_type.name, t.data_offset, t.n_bytes) for t in reference.tensors
    ]


def test_types_are_those_of_the_gguf_package() -> None:
    """The package may know newer types than this list; none may differ."""
    for number, (name, *sizes) in TENSOR_TYPES.items():
        assert (name, tuple(sizes)) == (
            gguf.GGMLQuantizationType(number).name,
            gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)],
        )
    for number, mix in _MIXES.items():
        assert gguf.LlamaFileType(number).name in (f"MOSTLY_{mix}", f"ALL_{mix}")


def test_values_have_a_meaning(model: Path) -> None:
    header = read_header(model)
    assert (header.architecture, header.context_length, header.num_layers) == ("llama", 4096, tiny.LAYERS)
    assert (header.embedding_length, header.key_length, header.value_length) == (64, 16, 16)
    assert (header.num_heads, header.num_kv_heads) == ((4, 4), (2, 2))
    assert header.vocabulary_size == len(tiny.bpe())
    assert header.chat_template == tiny.CHATML
    assert header.part == (1, 1)
    assert header.quantization == "Q8_0"  # the file names no mix: the type of most bytes
    assert header.layer_bytes == (LAYER_BYTES, LAYER_BYTES)
    assert sum(header.layer_bytes) + header.other_bytes == sum(tensor.num_bytes for tensor in header.tensors)
    assert header.data_end <= header.file_bytes


def test_values_may_differ_from_layer_to_layer(tmp_path: Path) -> None:
    metadata = {"llama.attention.head_count_kv": [2, 0], "general.file_type": 15, "general.license": "mit"}
    header = read_header(tiny.write_llama(tmp_path / "m.gguf", metadata=metadata))
    assert header.num_kv_heads == (2, 0)
    assert (header.quantization, header.licence) == ("Q4_K_M", "mit")


def test_real_header_fills_its_file_exactly(default_model_path: Path) -> None:
    header = read_header(default_model_path)
    assert header.data_end == header.file_bytes
    assert (header.quantization, header.num_layers, header.vocabulary_size) == ("Q4_1", 30, 49152)


def test_type_of_the_future_ends_where_the_next_tensor_begins(tmp_path: Path) -> None:
    tensors = [tensor("a", 8, kind=99), tensor("b", 8, offset=64)]
    header = read(tmp_path, file_of([], tensors, data=96))
    assert [(t.type, t.num_bytes) for t in header.tensors] == [("type 99", 64), ("F32", 32)]


def test_every_way_of_being_cut_off_is_seen(model: Path, tmp_path: Path) -> None:
    """Wherever the end is missing, in the header or in the data, the file is refused."""
    content = model.read_bytes()
    end = read_header(model).data_end
    for length in [*range(0, 2000, 7), *range(2000, end, 997), end - 1]:
        reason = damage(tmp_path, content[:length])
        assert "cut off" in reason or "claims" in reason
    assert damage(tmp_path, content[: end - 1]).startswith("it is cut off: ")
    read(tmp_path, content[:end])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>" * 9, "it is not a GGUF: it starts with the bytes 3c 68 74 6d"),
        (file_of([], [], version=1), "it is of version 1 of the format; 2 and 3 are known"),
        (
            b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
            "its numbers are in big-endian order: it is made for another kind of machine",
        ),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 2**60, 0),
            "it claims 1152921504606846976 tensors, more than its 24 bytes can hold",
        ),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2), "it claims 2 values, more than its 24 bytes can hold"),
        (file_of([struct.pack("<Q", 2**40) + bytes(20)], []), "it claims a text of 1099511627776 bytes at byte 32"),
        (file_of([value("a", bytes(8), 13)], []), "its value for a is of an unknown kind, 13"),
        (file_of([value("a", numbers(4, 9) + bytes(8), 9)], []), "its value for a is of an unknown kind, 9"),
        (
            file_of([value("a", numbers(4, 4) + numbers(10, 99), 9)], []),
            "it claims 99 numbers in a, more than its 64 bytes can hold",
        ),
        (file_of([value("a", numbers(4, 1), 4)] * 2, []), "it has two values for a"),
        (
            file_of([value("general.alignment", numbers(4, 24), 4)], []),
            "its tensors are aligned to 24 bytes, which is no power of two",
        ),
        (file_of([], [tensor("t", *[1] * 5)]), "its tensor t has 5 dimensions"),
        (
            file_of([], [tensor("t", 8, kind=12)], 999),
            "its tensor t has rows of 8 values, which Q4_K cannot divide into blocks",
        ),
        (file_of([], [tensor("t", 8, offset=32)], 999), "its tensor t is not where it belongs: at 32, not at 0"),
        (file_of([], [tensor("t", 8), tensor("t", 8, offset=32)], 999), "it has two tensors of one name"),
        (file_of([], [tensor("t", 2**62, 2**62)], 64), "it is cut off: 160 of 850705"),
    ],
)
def test_what_cannot_be_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    assert damage(tmp_path, content).startswith(reason)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_no_damage_ends_in_another_error(model: Path, tmp_path: Path, data: st.DataObject) -> None:
    """Bytes changed anywhere in the header give a header or a DamagedModelError, never anything else."""
    content = bytearray(model.read_bytes())
    start = read_header(model).data_start
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, start - 1))] = data.draw(st.integers(0, 255))
    try:
        header = read(tmp_path, bytes(content))
    except DamagedModelError:
        return
    assert sum(header.layer_bytes) + header.other_bytes >= 0
    assert isinstance(header.quantization, str)


def test_file_without_tensors_is_read(tmp_path: Path) -> None:
    header = read(tmp_path, file_of([], []))
    assert (header.tensors, header.layer_bytes, header.quantization) == ((), (), "")


def test_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none\.gguf` cannot be read: No such file or directory"):
        read_header(tmp_path / "none.gguf")
