"""The bytes of a GGUF file's header: its metadata, and where its tensors lie.

Knows the format, not what the values mean. It reads files that nobody vouches for: every count and length is checked
against the bytes that are there before it is believed. The `gguf` package reads headers too, but builds an array for
each token of the vocabulary, which takes seconds where this takes hundredths.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from speclocal.errors import DamagedModelError, ModelError

Value = bool | int | float | str | tuple[bool | int | float, ...] | None
"""A value of the metadata. None stands for an array that is not kept: of strings, or of more than MAX_KEPT numbers."""

MAX_KEPT = 4096  # numbers; per-layer values are a few dozen, what belongs to the vocabulary is longer
_MAX_TEXT = 1 << 24  # bytes of one value; a chat template has some thousands, the scores of a vocabulary a million
_MAX_NAME = 1 << 16  # bytes of a key or of a tensor's name
_MAX_DIMENSIONS = 4
_CHUNK = 1 << 20

_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_UINT32, _STRING, _ARRAY, _UINT64 = 4, 8, 9, 10

TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""By number: name, values in a block, bytes of a block."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of a file. shape: as the file has it, the dimension that lies together in memory first."""

    name: str
    shape: tuple[int, ...]
    type: str  # such as Q4_K; "type 99" where this list of types does not know it
    offset: int  # bytes from the start of the data
    num_bytes: int

    @property
    def layer(self) -> int | None:
        """The number of the layer it belongs to, None for embeddings, the output and their like."""
        block, _, rest = self.name.partition(".")
        number = rest.partition(".")[0]
        return int(number) if block == "blk" and number.isascii() and number.isdigit() else None


@dataclass(frozen=True)
class Contents:
    """What stands before the data. `tensors` lie in the data one after another, in this order."""

    version: int
    metadata: Mapping[str, Value]
    lengths: Mapping[str, int]  # of every array in the metadata, kept or not
    tensors: tuple[Tensor, ...]
    data_start: int  # where in the file the tensors' data begins
    data_end: int  # where it ends; bytes after it belong to no tensor
    file_bytes: int


def read_contents(path: Path) -> Contents:
    """Return what the header of a GGUF file holds. Reads what stands before the tensors' data, and nothing of that.

    Raises DamagedModelError where the file cannot be what its header says, cut off above all; ModelError where it
    cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _Reader(file, os.fstat(file.fileno()).st_size).contents()
    except _Damage as damage:
        raise DamagedModelError(path, str(damage)) from None
    except OSError as exc:
        raise ModelError(f"`{path}` cannot be read: {exc.strerror or exc}") from exc


class _Damage(Exception):
    """What is wrong with a file, in words that follow its name and a colon."""


class _Reader:
    """Reads a header from front to back."""

    def __init__(self, file: BinaryIO, file_bytes: int) -> None:
        self._file = file
        self._file_bytes = file_bytes
        self._buffer = b""
        self._buffer_start = 0  # where in the file the buffer begins
        self._at = 0  # where in the buffer reading goes on

    def contents(self) -> Contents:
        if (magic := self._take(4)) != b"GGUF":
            raise _Damage(f"it is not a GGUF: it starts with the bytes {magic.hex(' ')}")
        version = self._number(_UINT32)
        if version & 0xFFFF == 0:
            raise _Damage("its numbers are in big-endian order: it is made for another kind of machine")
        if version not in (2, 3):
            raise _Damage(f"it is of version {version} of the format; 2 and 3 are known")
        num_tensors, num_values = self._count("tensors", 24), self._count("values", 13)
        metadata: dict[str, Value] = {}
        lengths: dict[str, int] = {}
        for _ in range(num_values):
            key = self._string(_MAX_NAME)
            if key in metadata:
                raise _Damage(f"it has two values for {key}")
            metadata[key] = self._value(key, lengths)
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment <= 0 or alignment & (alignment - 1):
            raise _Damage(f"its tensors are aligned to {alignment} bytes, which is no power of two")
        found = [self._tensor() for _ in range(num_tensors)]
        data_start = _aligned(self._position, alignment) if found else self._position
        tensors = _checked(found, self._file_bytes - data_start, alignment)
        data_end = data_start + max((tensor.offset + tensor.num_bytes for tensor in tensors), default=0)
        if data_end > self._file_bytes:
            raise _Damage(f"it is cut off: {_sizes(self._file_bytes, data_end)} are there")
        return Contents(version, metadata, lengths, tensors, data_start, data_end, self._file_bytes)

    @property
    def _position(self) -> int:
        return self._buffer_start + self._at

    def _take(self, num_bytes: int) -> bytes:
        """Return the next bytes. Nothing larger than the rest of the file is ever made room for."""
        end = self._at + num_bytes
        if end > len(self._buffer):
            if self._position + num_bytes > self._file_bytes:
                raise _Damage(f"it is cut off: its header goes on after {_bytes(self._file_bytes)}")
            self._buffer_start = self._position
            self._buffer = self._buffer[self._at :] + self._file.read(max(num_bytes, _CHUNK))
            self._at, end = 0, num_bytes
            if end > len(self._buffer):  # the file became shorter meanwhile
                raise _Damage("it is cut off inside its header")
        taken = self._buffer[self._at : end]
        self._at = end
        return taken

    def _number(self, kind: int) -> int:
        form = _NUMBERS[kind]
        number: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return number

    def _count(self, what: str, least_bytes: int) -> int:
        """Return how many `what` there are, each of at least so many bytes."""
        count = self._number(_UINT64)
        if count > (self._file_bytes - self._position) // least_bytes:
            raise _Damage(f"it claims {count} {what}, more than its {_bytes(self._file_bytes)} can hold")
        return count

    def _string(self, limit: int) -> str:
        length = self._number(_UINT64)
        if length > limit:
            raise _Damage(f"it claims a text of {length} bytes at byte {self._position}")
        return self._take(length).decode("utf-8", errors="replace")

    def _value(self, key: str, lengths: dict[str, int]) -> Value:
        kind = self._number(_UINT32)
        if kind == _STRING:
            return self._string(_MAX_TEXT)
        if kind == _ARRAY:
            return self._array(key, lengths)
        return struct.unpack(self._form(key, kind), self._take(struct.calcsize(self._form(key, kind))))[0]  # type: ignore[no-any-return]

    def _array(self, key: str, lengths: dict[str, int]) -> Value:
        kind = self._number(_UINT32)
        if kind == _STRING:
            lengths[key] = self._count(f"texts in {key}", 8)
            self._skip_strings(lengths[key])
            return None
        form = self._form(key, kind)
        each = struct.calcsize(form)
        lengths[key] = length = self._count(f"numbers in {key}", each)
        if length * each > _MAX_TEXT:
            raise _Damage(f"it claims {length} numbers in {key}")
        data = self._take(length * each)
        return struct.unpack(f"<{length}{form[1]}", data) if length <= MAX_KEPT else None

    def _skip_strings(self, count: int) -> None:
        """Pass over so many strings, hundreds of thousands in a vocabulary."""
        take = self._take
        for _ in range(count):
            length = int.from_bytes(take(8), "little")
            if length > _MAX_TEXT:
                raise _Damage(f"it claims a text of {length} bytes at byte {self._position}")
            take(length)

    def _form(self, key: str, kind: int) -> str:
        if kind not in _NUMBERS:
            raise _Damage(f"its value for {key} is of an unknown kind, {kind}")
        return _NUMBERS[kind]

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        """Return name, shape, number of the type and offset of the next tensor."""
        name = self._string(_MAX_NAME)
        num_dimensions = self._number(_UINT32)
        if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
            raise _Damage(f"its tensor {name} has {num_dimensions} dimensions")
        shape = tuple(self._number(_UINT64) for _ in range(num_dimensions))
        return name, shape, self._number(_UINT32), self._number(_UINT64)


def _checked(found: list[tuple[str, tuple[int, ...], int, int]], room: int, alignment: int) -> tuple[Tensor, ...]:
    """Return the tensors with their sizes; each must follow the one before it without a gap.

    A tensor of a type that is newer than the list ends where the next begins; the last one then fills what is left.
    """
    tensors = []
    expected: int | None = 0
    ends = [*(offset for *_, offset in found), room][1:]
    if len({name for name, *_ in found}) < len(found):
        raise _Damage("it has two tensors of one name")
    for (name, shape, number, offset), end in zip(found, ends, strict=True):
        if offset % alignment or (expected is not None and offset != expected):
            raise _Damage(f"its tensor {name} is not where it belongs: at {offset}, not at {expected}")
        known = TENSOR_TYPES.get(number)
        num_bytes = max(0, end - offset) if known is None else _tensor_bytes(name, shape, known)
        tensors.append(Tensor(name, shape, known[0] if known else f"type {number}", offset, num_bytes))
        expected = None if known is None else _aligned(offset + num_bytes, alignment)
    return tuple(tensors)


def _tensor_bytes(name: str, shape: tuple[int, ...], known: tuple[str, int, int]) -> int:
    kind, block, block_bytes = known
    if shape[0] % block:
        raise _Damage(f"its tensor {name} has rows of {shape[0]} values, which {kind} cannot divide into blocks")
    num_values = 1
    for dimension in shape:
        num_values *= dimension
    return num_values // block * block_bytes


def _aligned(position: int, alignment: int) -> int:
    return -(-position // alignment) * alignment


def _bytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB" if count >= 1_000_000 else f"{count} bytes"


def _sizes(there: int, all_of_it: int) -> str:
    return f"{there / 1e6:,.1f} of {all_of_it / 1e6:,.1f} MB" if there >= 1_000_000 else f"{there} of {all_of_it} bytes"
