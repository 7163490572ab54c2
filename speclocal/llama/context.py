"""A context of llama.cpp over loaded weights: how long its passes are, and what it takes of memory.

Knows llama.cpp's parameters, not what is computed.
"""

from __future__ import annotations

from typing import Any

import llama_cpp

from speclocal.errors import ModelError, OutOfMemoryError
from speclocal.llama import interrupts, log
from speclocal.llama.formats import KvType
from speclocal.llama.grants import free_memory
from speclocal.llama.weights import Weights

PASS_TOKENS = 512
"""Most tokens in one pass: the chunk in which prompts are read."""
PASS_ROWS = 128
"""Most rows of logits from one pass, and so the longest draft + 1. Memory for logits grows with this alone."""

_KV_TYPES = {  # enum ggml_type; the bindings do not name BF16
    KvType.F16: llama_cpp.GGML_TYPE_F16,
    KvType.BF16: 30,
    KvType.F32: llama_cpp.GGML_TYPE_F32,
    KvType.Q8_0: llama_cpp.GGML_TYPE_Q8_0,
    KvType.Q5_1: llama_cpp.GGML_TYPE_Q5_1,
    KvType.Q5_0: llama_cpp.GGML_TYPE_Q5_0,
    KvType.Q4_1: llama_cpp.GGML_TYPE_Q4_1,
    KvType.Q4_0: llama_cpp.GGML_TYPE_Q4_0,
    KvType.IQ4_NL: llama_cpp.GGML_TYPE_IQ4_NL,
}


def kv_bytes(weights: Weights) -> float:
    """Return about how many bytes every token of a context takes."""
    return weights.kv_elements * weights.placement.kv_type.number_bytes


def create_context(weights: Weights, context_size: int, num_states: int) -> Any:
    """Return a new context of at least `context_size` tokens, which llama.cpp rounds up.

    num_states: how many tokens of a pass a recurrent state should be taken back by. Raises OutOfMemoryError when there
    is no memory for it, ModelError with llama.cpp's reason when it fails otherwise.
    """
    if context_size < 1:
        raise ModelError(f"a context of {context_size} tokens for `{weights.name}`", "give a `--ctx` of 1 or more")
    needed, free = context_size * kv_bytes(weights), free_memory()
    if weights.on_cpu and needed > free:  # the system would end the process rather than refuse
        raise OutOfMemoryError(
            f"a context of {context_size} tokens for `{weights.name}` needs about {needed / 1e9:.1f} GB "
            f"and {free / 1e9:.1f} GB are free",
            f"give a `--ctx` of at most {int(0.9 * free / kv_bytes(weights))}",
        )
    params = llama_cpp.llama_context_default_params()
    params.n_ctx = max(2, context_size)
    params.n_batch = params.n_ubatch = PASS_TOKENS
    params.n_outputs_max = PASS_ROWS
    params.n_threads = params.n_threads_batch = weights.placement.threads
    params.type_k = params.type_v = _KV_TYPES[weights.placement.kv_type]
    params.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
    params.swa_full = True  # a sliding window's cache keeps everything, so that it can be rolled back
    params.n_rs_seq = min(num_states, params.n_ctx - 2)  # a pass must be longer: a native assertion
    params.no_perf = True
    log.forget()
    with interrupts.held():
        context = llama_cpp.llama_init_from_model(weights.pointer, params)
        if not context and params.n_rs_seq:  # better without the states of a pass than not at all
            params.n_rs_seq = 0
            context = llama_cpp.llama_init_from_model(weights.pointer, params)
    if not context:
        reason = log.reason() or "llama.cpp gives no reason"
        kind = OutOfMemoryError if log.tells_of_memory(reason) else ModelError
        raise kind(
            f"cannot create a context of {context_size} tokens for `{weights.name}`: {reason}",
            "give a smaller `--ctx`, or fewer `--gpu-layers`",
        )
    return context
