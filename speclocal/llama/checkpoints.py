"""Places in a text to which a cache can return though it cannot drop its last tokens.

Knows the states of one context and where in the text they were taken, not passes.

A recurrent layer remembers the whole text in one state, and no token can be taken out of it again. So the state is
copied at places to which the text may have to return. llama.cpp copies that part of a cache alone: the keys and values
of attention layers stay where they are, and what is after the place can be dropped from them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

State = NDArray[np.uint8]
"""A cache, or a part of it, as bytes."""

_KEPT_BYTES = 512 * 1024**2
"""Memory for the states that are kept for good."""
_READ = 16
"""Tokens of a pass whose logits nobody asks for from which on it is the reading of a text."""
_PARTIAL = llama_cpp.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY


@dataclass(frozen=True)
class _Checkpoint:
    place: int  # tokens of the text after which it was taken
    state: State


class Checkpoints:
    """States of one context, by their places in its text.

    Those that are kept become fewer where they stand closest when memory for them runs out. One more is of the place
    from which tokens are being tried, and makes way for the next of its kind.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._kept: list[_Checkpoint] = []  # by rising place
        self._tried: _Checkpoint | None = None
        self._last_read = self._last_wide = False  # whether the last pass read a text; was over several tokens

    def before_pass(self, place: int, num_tokens: int, num_rows: int, num_droppable: int) -> None:
        """Take a checkpoint at `place`, where the context is, if the text may have to return there after this pass.

        That is before tokens are tried: in a wide pass, more of them than can be dropped from it, or one by one from
        where a wide pass or a return ended, as a draft model does. And it is where the reading of a text begins and
        ends, as the turns of a chat do: these are kept.
        """
        reads = num_rows == 0 or num_tokens - num_rows >= _READ
        if place and (reads or self._last_read):
            self.take(place, keep=True)
        elif place and (num_tokens > 1 + num_droppable or (num_tokens == 1 and self._last_wide)):
            self.take(place, keep=False)
        self._last_read, self._last_wide = reads, num_tokens > 1

    def take(self, place: int, *, keep: bool) -> None:
        """Copy the state of the context, which holds `place` tokens; where that fails there is no checkpoint."""
        tried = self._tried
        if self._kept and self._kept[-1].place == place:
            return
        if tried is None or tried.place != place:
            tried = self._tried = self._copied(place)
        if keep and tried:
            self._tried = None
            self._kept.append(tried)
            self._thin_out()

    def nearest(self, length: int) -> int:
        """Return the last place up to `length` that has a checkpoint; 0, the empty cache, if there is no other."""
        return max((each.place for each in self._all() if each.place <= length), default=0)

    def restore(self, place: int) -> bool:
        """Bring the state of a place back; return False, with nothing known of the cache, if llama.cpp refuses."""
        state = next(each.state for each in self._all() if each.place == place)
        self._last_wide = True
        return bool(llama_cpp.llama_state_seq_set_data_ext(self._context, into(state), state.nbytes, 0, _PARTIAL))

    def forget_after(self, length: int) -> None:
        """Drop the checkpoints of places that are no longer part of the text."""
        self._kept = [each for each in self._kept if each.place <= length]
        if self._tried and self._tried.place > length:
            self._tried = None

    def kept(self) -> dict[int, State]:
        """Return the states that are kept, by their places."""
        return {each.place: each.state for each in self._kept}

    def adopt(self, states: Mapping[int, State]) -> None:
        """Keep the states of another context that held the same text, by their places, instead of those of this one."""
        self._kept, self._tried = [_Checkpoint(place, states[place]) for place in sorted(states)], None
        self._last_wide = True

    def state_bytes(self) -> int:
        """Return how large a checkpoint taken now would be; 0 where there can be none."""
        return int(llama_cpp.llama_state_seq_get_size_ext(self._context, 0, _PARTIAL))

    def _all(self) -> list[_Checkpoint]:
        return [*self._kept, self._tried] if self._tried else self._kept

    def _copied(self, place: int) -> _Checkpoint | None:
        """Return a checkpoint, None where there can be none. It may lie where the last one that was tried lay."""
        size, old = self.state_bytes(), self._tried
        state = old.state if old and old.state.nbytes == size else np.empty(size, dtype=np.uint8)
        copied = llama_cpp.llama_state_seq_get_data_ext(self._context, into(state), size, 0, _PARTIAL)
        return _Checkpoint(place, state) if size and copied == size else None

    def _thin_out(self) -> None:
        """Make room for the last one that was kept: those go that leave the shortest way without a checkpoint."""
        while sum(each.state.nbytes for each in self._kept) > _KEPT_BYTES and len(self._kept) > 1:
            places = [0, *(each.place for each in self._kept)]
            ways = [after - before for before, after in zip(places, places[2:], strict=False)]
            del self._kept[ways.index(min(ways))]


def into(state: State) -> Any:
    """Return the pointer to a state that llama.cpp takes."""
    return state.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
