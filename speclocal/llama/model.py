"""One context over loaded weights: passes over tokens, rows of logits, rollback.

Knows token ids, not text. Implements the core's Model protocol. Everything that would trip a native assertion is
refused before the call.

A cache of keys and values drops its last tokens at no cost. One with a recurrent state cannot, and goes back in one of
two ways: llama.cpp keeps the states after the last tokens of a pass, where it can (`n_rs_seq`); else the state comes
from a checkpoint, and what the text shares after that is read again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import llama_cpp
import numpy as np

from speclocal.decoding.types import Logits
from speclocal.errors import ContextError, ModelError, OutOfMemoryError
from speclocal.llama import interrupts, log
from speclocal.llama.checkpoints import Checkpoints, State, into
from speclocal.llama.context import PASS_ROWS, PASS_TOKENS, create_context
from speclocal.llama.weights import Weights

_STATES = 16
"""Most tokens of a pass that a recurrent state can be taken back by without a checkpoint, where llama.cpp can do it."""
_STATES_BYTES = 1024**3
"""Most memory for that: a large model has a state of about 100 MB."""
_LONG_PASS = 32
"""Tokens in a pass from which on a person may notice how long it takes."""
_OUT_OF_ROOM = 1  # llama_decode: no place in the KV cache, nothing changed
_OUT_OF_MEMORY = -2  # the same: buffers of the pass could not be allocated


class LlamaModel:
    """A KV cache with one sequence. `cached` always says what it holds.

    can_rollback: False where going back means reading everything again, and so drafts never pay.
    num_droppable: how many tokens of a pass can be dropped at no cost; a rollback by more of them reads again.
    state_bytes: what a checkpoint takes, where the cache needs them.
    """

    def __init__(self, weights: Weights, context_size: int, num_states: int | None = None) -> None:
        """Create a context of at least `context_size` tokens (llama.cpp rounds up).

        num_states: how many tokens a recurrent state should be taken back by; None for what there is memory for.
        Raises ModelError with llama.cpp's reason when there is no memory for it.
        """
        self.weights = weights
        num_states = _affordable_states(weights) if num_states is None else num_states
        self._context: Any = create_context(weights, context_size, num_states)
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
        self._lowest = 0  # the first place that dropping tokens leads back to
        self._checkpoints = Checkpoints(self._context)
        self.state_bytes = self.num_droppable = 0
        self.num_droppable = self._probe_droppable()
        self.can_rollback = self._drops or self._probe_checkpoints()

    @property
    def cached(self) -> Sequence[int]:
        return self._cached

    def forward(self, tokens: Sequence[int], num_rows: int) -> Logits:
        """Append `tokens` to the cache in one pass and return the logits after the last `num_rows` of them.

        Returns [num_rows, V], a view into llama.cpp's buffer that the next pass overwrites. Waits for the device.
        Raises ContextError when the cache has no room, ModelError when the pass fails. The cache is then as before; one
        that cannot drop tokens may hold less of them, and all of the pass where a signal arrived in it.
        """
        self._check_open()
        count, start = len(tokens), len(self._cached)
        if not 0 < count <= self.max_pass or not 0 <= num_rows <= min(count, self.max_rows):
            raise ValueError(f"a pass of {count} tokens and {num_rows} rows; at most {self.max_pass}, {self.max_rows}")
        if start + count > self.context_size:
            raise ContextError(
                f"{start + count} tokens do not fit the context of {self.context_size}", "give a larger `--ctx`"
            )
        if min(tokens) < 0 or max(tokens) >= self.vocab_size:
            raise ValueError(f"token ids must lie between 0 and {self.vocab_size - 1}")
        if not self._drops:
            self._checkpoints.before_pass(start, count, num_rows, self.num_droppable)
        self._run(tokens, num_rows)
        if num_rows == 0:
            llama_cpp.llama_synchronize(self._context)
            return np.empty((0, self.vocab_size), dtype=np.float32)
        first_row = llama_cpp.llama_get_logits_ith(self._context, count - num_rows)
        rows = ctypes.cast(first_row, _pointer_to(num_rows * self.vocab_size)).contents
        return np.frombuffer(rows, dtype=np.float32).reshape(num_rows, self.vocab_size)

    def nearest(self, length: int) -> int:
        """Return the last place up to `length` that `rollback` comes to without reading anything."""
        length = min(length, len(self._cached))
        return length if length >= self._lowest else self._checkpoints.nearest(length)

    def rollback(self, length: int) -> None:
        """Go back to the first `length` tokens; tokens after `nearest(length)` are read again."""
        self._check_open()
        if not 0 <= length <= len(self._cached):
            raise ValueError(f"cannot roll back to {length} tokens: the cache holds {len(self._cached)}")
        if length == len(self._cached) or (0 < length >= self._lowest and self._drop_after(length)):
            return
        tokens = self._cached[:length]
        self._return_to(self._checkpoints.nearest(length))
        for start in range(len(self._cached), length, self.max_pass):
            self._run(tokens[start : start + self.max_pass], 0)

    def snapshot(self) -> State:
        """Return the cache as bytes, for `restore` in any context of the same model."""
        self._check_open()
        state = np.empty(llama_cpp.llama_state_seq_get_size(self._context, 0), dtype=np.uint8)
        return state[: llama_cpp.llama_state_seq_get_data(self._context, into(state), state.nbytes, 0)]

    def restore(self, state: State, tokens: Sequence[int], checkpoints: Mapping[int, State] | None = None) -> None:
        """Replace the cache by one that held `tokens` when its snapshot was taken.

        checkpoints: those it had then. A snapshot that does not hold every token by itself cannot go back without them.
        Raises ModelError when it does not fit; the cache is empty then.
        """
        self.rollback(0)
        with interrupts.held():
            if not llama_cpp.llama_state_seq_set_data(self._context, into(state), state.nbytes, 0):
                self._empty()
                raise ModelError(f"{len(tokens)} tokens of cache do not fit", "give a larger `--ctx`")
            self._cached = list(tokens)
            self._checkpoints.adopt(checkpoints or {})
            self._lowest = 0 if self.weights.keeps_every_token else len(tokens)

    def checkpoints(self) -> dict[int, State]:
        """Return the states that are kept because the text may return to their places, by these places."""
        return self._checkpoints.kept()

    def copy_from(self, other: LlamaModel) -> None:
        """Take over the cache of another context of the same model, in whatever layout its weights are.

        Raises ModelError when the cache does not fit.
        """
        self.restore(other.snapshot(), other.cached, other.checkpoints())

    def close(self) -> None:
        """Free the context. Safe to call twice."""
        if self._context is not None:
            llama_cpp.llama_batch_free(self._batch)
            llama_cpp.llama_free(self._context)
            self._context = None

    def _check_open(self) -> None:
        if self._context is None:
            raise ValueError("this model is closed")

    @property
    def _drops(self) -> bool:
        """Whether the cache can drop any number of tokens."""
        return self.num_droppable == self.context_size

    def _run(self, tokens: Sequence[int], num_rows: int) -> None:
        """Append `tokens` to the cache in one pass."""
        count, start = len(tokens), len(self._cached)
        self._batch_tokens[:count] = tokens
        self._batch_positions[:count] = np.arange(start, start + count)
        self._batch_wanted[:count] = 0
        self._batch_wanted[count - num_rows : count] = 1
        self._batch.n_tokens = count
        log.forget()
        try:
            self._decode(tokens)
        except BaseException:  # Ctrl-C included: it arrives when llama.cpp returns, from a long pass early
            if self._drops:
                self._drop_after(start)
            elif len(self._cached) == start:  # what the pass has done to the state is not known
                self._return_to(self._checkpoints.nearest(start))
            raise

    def _decode(self, tokens: Sequence[int]) -> None:
        """Run the pass that lies in the batch. A signal ends a long one early.

        llama.cpp asks between the parts of a pass, which costs a short one more than there is to gain. But a cache that
        cannot drop the pass must know what became of it.
        """
        long = len(tokens) >= _LONG_PASS
        if not long and self._drops:
            self._decode_now(tokens)
            return
        with interrupts.held() as arrived:
            give_up, never = llama_cpp.ggml_abort_callback(lambda _data: bool(arrived)), llama_cpp.ggml_abort_callback()
            llama_cpp.llama_set_abort_callback(self._context, give_up if long else never, None)
            try:
                self._decode_now(tokens)
            finally:
                llama_cpp.llama_set_abort_callback(self._context, never, None)

    def _decode_now(self, tokens: Sequence[int]) -> None:
        status, count = int(llama_cpp.llama_decode(self._context, self._batch)), len(tokens)
        if status != 0:
            raise _pass_error(status, count)
        self._cached.extend(tokens)
        if not self._drops:  # llama.cpp does not check that the states it goes back to are of this pass
            self._lowest = len(self._cached) - min(self.num_droppable, count - 1)

    def _drop_after(self, length: int) -> bool:
        """Drop tokens, or all of them where that cannot be; return whether `length` tokens are left."""
        del self._cached[length:]
        if length == 0 or not llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1):
            self._empty()
            return length == 0
        self._checkpoints.forget_after(length)
        if not self._drops:
            self._lowest = length  # states are gone back to once
        return True

    def _return_to(self, place: int) -> None:
        """Bring a checkpoint back; empty the cache where there is none, or llama.cpp refuses it."""
        with interrupts.held():
            restored = place > 0 and self._checkpoints.restore(place)
            if not restored or not llama_cpp.llama_memory_seq_rm(self._memory, 0, place, -1):
                self._empty()
                return
            del self._cached[place:]
            self._checkpoints.forget_after(place)
            self._lowest = place

    def _empty(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, True)
        self._cached.clear()
        self._checkpoints.forget_after(0)
        self._lowest = 0

    def _probe_droppable(self) -> int:
        """Find out how many tokens can be dropped: all of them, or those whose states llama.cpp keeps, or none."""
        self._read_probe()
        removable = bool(llama_cpp.llama_memory_seq_rm(self._memory, 0, 1, -1))
        self._empty()
        return int(llama_cpp.llama_n_rs_seq(self._context)) or (self.context_size if removable else 0)

    def _probe_checkpoints(self) -> bool:
        """Find out whether a state can be copied and brought back."""
        self._read_probe()
        self.state_bytes = self._checkpoints.state_bytes()
        self._checkpoints.take(2, keep=False)
        self._read_probe()
        self._return_to(self._checkpoints.nearest(2))
        found = len(self._cached) == 2
        self._empty()
        return found

    def _read_probe(self) -> None:
        self._run([self.weights.vocab.bos or 0] * 2, 0)


@cache
def _pointer_to(num_floats: int) -> Any:
    """Return the type of a pointer to an array; making one is slow, and few sizes occur."""
    return ctypes.POINTER(ctypes.c_float * num_floats)


def _affordable_states(weights: Weights) -> int:
    """Return how many states of a pass there is memory for, of a recurrent model that llama.cpp keeps them for."""
    if not weights.is_recurrent:
        return 0
    small = LlamaModel(weights, 64, num_states=1)
    try:
        return small.num_droppable and min(_STATES, _STATES_BYTES // max(1, small.state_bytes))
    finally:
        small.close()


def _pass_error(status: int, count: int) -> ModelError | ContextError:
    reason = log.reason() or f"llama_decode returned {status}"
    if status == _OUT_OF_ROOM:
        return ContextError(f"no room in the KV cache for {count} tokens: {reason}", "give a larger `--ctx`")
    kind = OutOfMemoryError if status == _OUT_OF_MEMORY else ModelError
    return kind(f"a pass over {count} tokens failed: {reason}", "try a smaller `--ctx` or fewer `--gpu-layers`")
