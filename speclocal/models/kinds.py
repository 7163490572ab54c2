"""What a GGUF file is for, by its name and by its header: not every one holds a model that writes text.

Knows how such files are named and marked, not where they are.
"""

import re
from enum import StrEnum

from speclocal.models.header import Header


class Kind(StrEnum):
    """What a file is for, in words that follow "it is"."""

    MODEL = "a model"
    PROJECTOR = "a projector, which shows images to another model"
    EMBEDDER = "an embedding model, which reads text and writes none"
    IMATRIX = "an importance matrix, made while quantizing a model"
    ADAPTER = "an adapter (LoRA), which changes another model"
    VOCABULARY = "a vocabulary without weights"


_QUANTIZATION = re.compile(
    r"(?<![A-Z0-9])(I?Q\d_[A-Z0-9]+(?:_[A-Z0-9]+)*|TQ\d_0|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32)(?![A-Z0-9])"
)
_EMBEDDERS = frozenset(
    {
        *("bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3"),
        *("eurobert", "gemma-embedding", "llama-embed", "t5encoder"),
    }
)
_POOLING = range(1, 5)  # mean, first, last, rank: a state is made of all tokens; 0 is none


def quantization_in(name: str) -> str | None:
    """Return the quantization that a file's name gives, such as Q4_K_M."""
    match = _QUANTIZATION.search(_stem(name).upper())
    return match[1] if match else None


def kind_by_name(name: str) -> Kind:
    """Return what a file is for if its name gives it away, else MODEL."""
    stem = _stem(name).lower()
    if "mmproj" in stem:
        return Kind.PROJECTOR
    if "imatrix" in stem and quantization_in(name) is None:  # in `x-imatrix-Q4_0.gguf` one was only used
        return Kind.IMATRIX
    if re.search(r"embed(?!ded)|rerank", stem):
        return Kind.EMBEDDER
    return Kind.MODEL


def kind_by_header(header: Header) -> Kind:
    """Return what a file is for by what it says of itself."""
    said = header.text("general.type")
    if said in ("mmproj", "clip-vision") or header.architecture == "clip":
        return Kind.PROJECTOR
    if said == "imatrix" or "imatrix.datasets" in header.lengths or header.architecture == "imatrix":
        return Kind.IMATRIX
    if said == "adapter" or header.text("adapter.type"):
        return Kind.ADAPTER
    if header.architecture in _EMBEDDERS or header.own_int("pooling_type") in _POOLING:
        return Kind.EMBEDDER
    return Kind.MODEL if header.tensors or header.part != (1, 1) else Kind.VOCABULARY


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".gguf")
