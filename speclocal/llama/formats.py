"""The formats of numbers in memory that a person can choose, by name.

Knows words only, so that the command line can offer them without loading anything.
"""

from enum import StrEnum


class Layout(StrEnum):
    """How weights lie in a CPU's memory: as in the file, or repacked for its vector kernels (llama.cpp's default)."""

    FILE = "file"
    REPACKED = "repacked"


class KvType(StrEnum):
    """The number format of the KV cache: those that llama.cpp's flash attention reads."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    Q8_0 = "q8_0"
    Q5_1 = "q5_1"
    Q5_0 = "q5_0"
    Q4_1 = "q4_1"
    Q4_0 = "q4_0"
    IQ4_NL = "iq4_nl"

    @property
    def number_bytes(self) -> float:
        """Bytes of one number, its share of a block's scale included."""
        return _NUMBER_BYTES[self]

    @property
    def block(self) -> int:
        """How many numbers share a scale; the width of a head must be a multiple of it."""
        return 1 if self in (KvType.F16, KvType.BF16, KvType.F32) else 32


_NUMBER_BYTES = {
    KvType.F16: 2.0,
    KvType.BF16: 2.0,
    KvType.F32: 4.0,
    KvType.Q8_0: 34 / 32,
    KvType.Q5_1: 24 / 32,
    KvType.Q5_0: 22 / 32,
    KvType.Q4_1: 20 / 32,
    KvType.Q4_0: 18 / 32,
    KvType.IQ4_NL: 18 / 32,
}
