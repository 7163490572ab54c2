"""One context over loaded weights: passes over tokens, rows of logits, rollback.

Knows token ids, not text. Implements the core's Model protocol. Everything that would trip a native assertion is
refused before the call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from speclocal.decoding.types import Logits
from speclocal.errors import ContextError, ModelError, OutOfMemoryError
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
_LONG_PASS = 32
"""Tokens in a pass from which on a person may notice how long it takes."""
_OUT_OF_ROOM = 1  # llama_decode: no place in the KV cache, nothing changed
_OUT_OF_MEMORY = -2  # the same: buffers of the pass could not be allocated

State = NDArray[np.uint8]
"""A cache as bytes."""


class LlamaModel:
    """A KV cache with one sequence. `cached` always says what it holds."""

    def __init__(self, weights: Weights, context_size: int) -> None:
        """Create a context of at least `context_size` tokens (llama.cpp rounds up).

        Raises ModelError with llama.cpp's reason when there is no memory for it.
        """
        self.weights = weights
        self._context: Any = _create_context(weights, context_size)
        self._memory = llama_cpp.llama_get_memory(self._context)
        self.context_size = int(llama_cpp.llama_n_ctx(self._context))
        self.vocab_size = weights.vocab.size
        self.max_pass = min(PASS_TOKENS, int(llama_cpp.llama_n_batch(self._context)), self.context_size)
        self.max_rows = min(PASS_ROWS, self.max_pass)

        self._batch = llama_cpp.llama_batch_init(self.max_pass, 0, 1)
        self._batch_tokens = np.ctypeslib.as_array(self._batch.token, (self.max_pass,))
        self._batch_positions = np.ctypeslib.as_array(self._batch.pos, (self.max_pass,))
        self._batch_wanted = np.ctypeslib.as_array(self._batch.logits, (self.max_pass,))
        np.ctypeslib.as_array(self._batch.n_seq_id, (self.max_pass,))[:] = 1
        for i in range(self.max_pass):
            self._batch.seq_id[i][0] = 0

        self._cached: list[int] = []
        self.can_rollback = self._probe_rollback()

    @property
    def cached(self) -> Sequence[int]:
        return self._cached

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        """Append `tokens` to the cache in one pass and return the logits after the last `num_rows` of them.

        Returns [num_rows, V], a view into llama.cpp's buffer that the next pass overwrites. Waits for the device.
        Raises ContextError when the cache has no room, ModelError when the pass fails; the cache is then as before.
        """
        self._check_open()
        count, start = len(tokens), len(self._cached)
        if not 0 < count <= self.max_pass or not 0 <= num_rows <= min(count, self.max_rows):
            raise ValueError(f"a pass of {count} tokens and {num_rows} rows; at most {self.max_pass}, {self.max_rows}")
        if start + count > self.context_size:
            raise ContextError(
                f"{start + count} tokens do not fit the context of {self.context_size}", "give a larger `--ctx`"
            )
        batch = self._batch_tokens[:count]
        batch[:] = tokens
        if batch.min() < 0 or batch.max() >= self.vocab_size:
            raise ValueError(f"token ids must lie between 0 and {self.vocab_size - 1}")
        self._batch_positions[:count] = np.arange(start, start + count)
        self._batch_wanted[:count] = 0
        self._batch_wanted[count - num_rows : count] = 1
        self._batch.n_tokens = count

        log.forget()
        try:
            status = self._decode(count)
            if status != 0:
                raise _pass_error(status, count)
            self._cached.extend(tokens)
        except BaseException:  # Ctrl-C included: it arrives when llama.cpp returns, from a long pass early
            self._undo(start)
            raise
        if num_rows == 0:
            llama_cpp.llama_synchronize(self._context)
            return np.empty((0, self.vocab_size), dtype=np.float32)
        first_row = llama_cpp.llama_get_logits_ith(self._context, count - num_rows)
        rows = ctypes.cast(first_row, _pointer_to(num_rows * self.vocab_size)).contents
        return np.frombuffer(rows, dtype=np.float32).reshape(num_rows, self.vocab_size)

    def rollback(self, length: int) -> None:
        """Drop everything behind the first `length` tokens from the cache.

        Raises ModelError when this model's cache cannot drop a suffix; dropping all of it always works.
        """
        self._check_open()
        if not 0 <= length <= len(self._cached):
            raise ValueError(f"cannot roll back to {length} tokens: the cache holds {len(self._cached)}")
        if length < len(self._cached):
            self._drop_from(length)
            del self._cached[length:]

    def snapshot(self) -> State:
        """Return the cache as bytes, for `restore` in any context of the same model."""
        self._check_open()
        state = np.empty(llama_cpp.llama_state_seq_get_size(self._context, 0), dtype=np.uint8)
        return state[: llama_cpp.llama_state_seq_get_data(self._context, _pointer_into(state), state.nbytes, 0)]

    def restore(self, state: State, tokens: Sequence[int]) -> None:
        """Replace the cache by one that held `tokens` when its snapshot was taken.

        Raises ModelError when it does not fit; the cache is empty then.
        """
        self.rollback(0)
        if not llama_cpp.llama_state_seq_set_data(self._context, _pointer_into(state), state.nbytes, 0):
            self._undo(0)
            raise ModelError(f"{len(tokens)} tokens of cache do not fit", "give a larger `--ctx`")
        self._cached = list(tokens)

    def copy_from(self, other: LlamaModel) -> None:
        """Take over the cache of another context of the same model, in whatever layout its weights are.

        Raises ModelError when the cache does not fit.
        """
        self.restore(other.snapshot(), other.cached)

    def close(self) -> None:
        """Free the context. Safe to call twice."""
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None

    def _check_open(self) -> None:
        if self._context is None:
            raise ValueError("this model is closed")

    def _decode(self, num_tokens: int) -> int:
        """Run the pass that lies in the batch, and return its status. A signal ends a long one early.

        llama.cpp asks between the parts of a pass, which costs a short one more than there is to gain.
        """
        if num_tokens < _LONG_PASS:
            return int(llama_cpp.llama_decode(self._context, self._batch))
        with interrupts.held() as arrived:
            give_up = llama_cpp.ggml_abort_callback(lambda _data: bool(arrived))
            llama_cpp.llama_set_abort_callback(self._context, give_up, None)
            try:
                return int(llama_cpp.llama_decode(self._context, self._batch))
            finally:
                llama_cpp.llama_set_abort_callback(self._context, llama_cpp.ggml_abort_callback(), None)

    def _undo(self, length: int) -> None:
        """Make cache and `cached` agree after a pass that may have run: on `length` tokens, or on none."""
        if length == 0 or not llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1):
            llama_cpp.llama_memory_clear(self._memory, True)
            length = 0
        del self._cached[length:]

    def _drop_from(self, length: int) -> None:
        if length == 0:
            llama_cpp.llama_memory_clear(self._memory, True)
        elif not llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1):
            raise ModelError(
                f"the cache of `{self.weights.name}` cannot drop tokens behind {length}",
                "use `--mode off` with this model",
            )

    def _probe_rollback(self) -> bool:
        """Find out whether the cache can drop a suffix: recurrent and some sliding-window models cannot."""
        token = self.weights.vocab.bos or 0
        self.forward([token, token], 0)
        removable = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, 1, -1))
        self.rollback(0)
        return removable


@cache
def _pointer_to(num_floats: int) -> Any:
    """Return the type of a pointer to an array; making one is slow, and few sizes occur."""
    return ctypes.POINTER(ctypes.c_float * num_floats)


def _pointer_into(state: State) -> Any:
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def kv_bytes(weights: Weights) -> float:
    """Return about how many bytes every token of a context takes."""
    return weights.kv_elements * weights.placement.kv_type.number_bytes


def _create_context(weights: Weights, context_size: int) -> Any:
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
    params.no_perf = True
    log.forget()
    with interrupts.held():
        context = llama_cpp.llama_init_from_model(weights.pointer, params)
    if not context:
        reason = log.reason() or "llama.cpp gives no reason"
        kind = OutOfMemoryError if log.tells_of_memory(reason) else ModelError
        raise kind(
            f"cannot create a context of {context_size} tokens for `{weights.name}`: {reason}",
            "give a smaller `--ctx`, or fewer `--gpu-layers`",
        )
    return context


def _pass_error(status: int, count: int) -> ModelError | ContextError:
    reason = log.reason() or f"llama_decode returned {status}"
    if status == _OUT_OF_ROOM:
        return ContextError(f"no room in the KV cache for {count} tokens: {reason}", "give a larger `--ctx`")
    kind = OutOfMemoryError if status == _OUT_OF_MEMORY else ModelError
    return kind(f"a pass over {count} tokens failed: {reason}", "try a smaller `--ctx` or fewer `--gpu-layers`")
