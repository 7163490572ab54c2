"""What a GGUF file says of its model: what it is and how large its parts are, without loading it.

Knows what the values mean, not how they are written; that is gguf_format.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from speclocal.models.gguf_format import Contents, Tensor, Value, read_contents

__all__ = ["Header", "Tensor", "Value", "read_header"]

_MIXES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
"""By `general.file_type`: what a mix of tensor types is called."""


def read_header(path: Path) -> Header:
    """Return the header of a GGUF file; takes hundredths of a second whatever the size of the file.

    Raises DamagedModelError where the file cannot be what its header says, cut off above all; ModelError where it
    cannot be read.
    """
    return Header(**vars(read_contents(path)))


@dataclass(frozen=True)
class Header(Contents):
    """The contents of a header, by their meaning. Values that a file does not give are None or empty."""

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    @property
    def name(self) -> str:
        """What the model calls itself, or nothing."""
        return self.text("general.name")

    @property
    def licence(self) -> str:
        """An SPDX identifier in most files, or nothing."""
        return self.text("general.license")

    @property
    def chat_template(self) -> str:
        """The model's chat template, or nothing."""
        return self.text("tokenizer.chat_template")

    @property
    def context_length(self) -> int | None:
        """On how many tokens the model was trained."""
        return self.own_int("context_length")

    @property
    def num_layers(self) -> int | None:
        return self.own_int("block_count")

    @property
    def embedding_length(self) -> int | None:
        """The width of the hidden state."""
        return self.own_int("embedding_length")

    @property
    def num_heads(self) -> tuple[int, ...]:
        """Attention heads of each layer."""
        return self.per_layer("attention.head_count")

    @property
    def num_kv_heads(self) -> tuple[int, ...]:
        """Heads of the KV cache in each layer, 0 where it has none; as many as heads where the file does not say."""
        return self.per_layer("attention.head_count_kv") or self.num_heads

    @property
    def key_length(self) -> int | None:
        """The width of one head's keys: what the file says, or the share of a head in the hidden state."""
        return self.own_int("attention.key_length") or self._head_share

    @property
    def value_length(self) -> int | None:
        """The width of one head's values."""
        return self.own_int("attention.value_length") or self._head_share

    @property
    def vocabulary_size(self) -> int | None:
        """How many tokens there are: rows of the embeddings, which may be more than the tokens with a text."""
        for tensor in self.tensors:
            if tensor.name == "token_embd.weight" and len(tensor.shape) == 2:
                return tensor.shape[1]
        return self.lengths.get("tokenizer.ggml.tokens")

    @property
    def part(self) -> tuple[int, int]:
        """Which part of a split model this is and how many there are, counted from 1; (1, 1) if it is not split."""
        count = self.integer("split.count") or 1
        return ((self.integer("split.no") or 0) + 1, count) if count > 1 else (1, 1)

    @cached_property
    def quantization(self) -> str:
        """What the mix of tensor types is called, or the type that fills most of the file."""
        if mix := _MIXES.get(self.integer("general.file_type") or 0) if "general.file_type" in self.metadata else None:
            return mix
        totals: dict[str, int] = {}
        for tensor in self.tensors:
            totals[tensor.type] = totals.get(tensor.type, 0) + tensor.num_bytes
        return max(totals, key=lambda kind: totals[kind], default="")

    @cached_property
    def layer_bytes(self) -> tuple[int, ...]:
        """Bytes of the weights of each layer in this file."""
        layers = [(tensor.layer, tensor.num_bytes) for tensor in self.tensors]
        totals = [0] * (1 + max((layer for layer, _ in layers if layer is not None), default=-1))
        for layer, num_bytes in layers:
            if layer is not None:
                totals[layer] += num_bytes
        return tuple(totals)

    @property
    def other_bytes(self) -> int:
        """Bytes of the weights outside the layers: embeddings, the output and their like."""
        return sum(tensor.num_bytes for tensor in self.tensors if tensor.layer is None)

    def text(self, key: str) -> str:
        """Return a string of the metadata, or nothing where there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else ""

    def integer(self, key: str) -> int | None:
        """Return a whole number of the metadata, None where there is none."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def own(self, key: str) -> Value:
        """Return a value that stands under the name of the architecture, as `llama.block_count` does."""
        return self.metadata.get(f"{self.architecture}.{key}")

    def own_int(self, key: str) -> int | None:
        """Return a whole number that stands under the name of the architecture."""
        return self.integer(f"{self.architecture}.{key}")

    def per_layer(self, key: str) -> tuple[int, ...]:
        """Return a whole number for each layer; the file may give one for all. Nothing where it gives none."""
        value = self.own(key)
        if isinstance(value, tuple):
            return tuple(int(number) for number in value)
        return () if (one := self.own_int(key)) is None else (one,) * (self.num_layers or 0)

    @property
    def _head_share(self) -> int | None:
        heads = max(self.num_heads, default=0)
        return self.embedding_length // heads if self.embedding_length and heads else None
