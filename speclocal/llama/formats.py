"""The formats of numbers in memory that a person can choose, by name.

Knows words only, so that the command line can offer them without loading anything.
"""

from enum import StrEnum


class Layout(StrEnum):
    """How weights lie in a CPU's memory: as in the file, or repacked for its vector kernels (llama.cpp's default)."""

    FILE = "file"
    REPACKED = "repacked"


class KvType(StrEnum):
    """The number format of the KV cache."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    Q8_0 = "q8_0"
