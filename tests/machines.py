"""Machines that are not here: devices with memory for models to be placed on, and headers of models with no weights.

Knows what llama.cpp says of devices and reads in files, not pytest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import tiny
from gguf import GGMLQuantizationType

from speclocal.llama.devices import Device, DeviceKind

GB = 10**9
CPU = Device("CPU", "some processor", "CPU", DeviceKind.CPU, 16 * GB, 32 * GB)


def gpu(name: str, free_gb: float, total_gb: float = 24, *, backend: str = "CUDA", hardware: str = "") -> Device:
    """Return a GPU with so much memory."""
    return Device(name, "some GPU", backend, DeviceKind.GPU, int(free_gb * GB), int(total_gb * GB), hardware)


def integrated(name: str, backend: str) -> Device:
    return Device(name, "some chip", backend, DeviceKind.INTEGRATED, 8 * GB, 16 * GB)


def write_hollow(
    path: Path,
    architecture: str = "llama",
    *,
    width: int,
    layers: int,
    heads: int,
    kv_heads: int,
    inner: int,
    vocab: int,
    head_width: int = 128,
    experts: tuple[int, int] = (0, 0),
    tied: bool = False,
    extra: Mapping[str, int] | None = None,
) -> Path:
    """Write a model of any size whose weights are a hole in the file: it takes no room on the disk.

    experts: how many there are, and how many work on a token.
    """
    writer = gguf.GGUFWriter(None, architecture)
    numbers = {
        "context_length": 131072,
        "embedding_length": width,
        "block_count": layers,
        "feed_forward_length": inner,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": head_width,
        "attention.value_length": head_width,
        **({"expert_count": experts[0], "expert_used_count": experts[1]} if experts[0] else {}),
        **({"expert_feed_forward_length": inner} if experts[0] else {}),
        **(extra or {}),
    }
    for key, number in numbers.items():
        writer.add_uint32(f"{architecture}.{key}", number)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    tiny.bpe().padded(vocab).write(writer)

    def tensor(name: str, *shape: int, kind: GGMLQuantizationType = GGMLQuantizationType.Q4_K) -> None:
        if len(shape) == 1 or kind is GGMLQuantizationType.F32:
            writer.add_tensor_info(f"{name}.weight", shape, np.dtype("float32"), 4 * int(np.prod(shape)))
            return
        values, num_bytes = gguf.GGML_QUANT_SIZES[kind]
        packed = (*shape[:-1], shape[-1] // values * num_bytes)
        writer.add_tensor_info(f"{name}.weight", packed, np.dtype("uint8"), int(np.prod(packed)), raw_dtype=kind)

    tensor("token_embd", vocab, width)
    tensor("output_norm", width)
    if not tied:
        tensor("output", vocab, width, kind=GGMLQuantizationType.Q6_K)
    for layer in range(layers):
        block = f"blk.{layer}"
        norms = {
            "llama": (),
            "qwen3": ("attn_q_norm", "attn_k_norm"),
            "qwen3moe": ("attn_q_norm", "attn_k_norm"),
            "gemma3": ("attn_q_norm", "attn_k_norm", "post_attention_norm", "post_ffw_norm"),
        }[architecture]
        for name in ("attn_norm", "ffn_norm", *norms):
            tensor(f"{block}.{name}", head_width if name in ("attn_q_norm", "attn_k_norm") else width)
        tensor(f"{block}.attn_q", heads * head_width, width)
        tensor(f"{block}.attn_k", kv_heads * head_width, width)
        tensor(f"{block}.attn_v", kv_heads * head_width, width)
        tensor(f"{block}.attn_output", width, heads * head_width)
        if experts[0]:
            tensor(f"{block}.ffn_gate_inp", experts[0], width, kind=GGMLQuantizationType.F32)
            tensor(f"{block}.ffn_gate_exps", experts[0], inner, width)
            tensor(f"{block}.ffn_up_exps", experts[0], inner, width)
            tensor(f"{block}.ffn_down_exps", experts[0], width, inner)
        else:
            tensor(f"{block}.ffn_gate", inner, width)
            tensor(f"{block}.ffn_up", inner, width)
            tensor(f"{block}.ffn_down", width, inner)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    padded = [gguf.GGUFWriter.ggml_pad(info.nbytes, writer.data_alignment) for info in writer.tensors[0].values()]
    writer.close()
    os.truncate(path, gguf.GGUFWriter.ggml_pad(path.stat().st_size, writer.data_alignment) + sum(padded))
    return path
