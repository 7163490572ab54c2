"""Caches that cannot drop tokens: what going back costs, what is kept for it, and what failures and stops leave."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import llama_cpp
import numpy as np
import pytest

from speclocal.decoding.loop import read, reading
from speclocal.errors import ModelError
from speclocal.llama import checkpoints
from speclocal.llama.model import LlamaModel

CHECKPOINTED = ["recurrent", "hybrid"]  # llama.cpp keeps no states of a pass
STATEFUL = ["convolution", "delta net"]  # it keeps the last ones
TEXT = [(7919 * (i + 1)) % 300 + 3 for i in range(600)]


@pytest.fixture
def widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tokens of every pass that llama.cpp runs, as they come."""
    native, found = llama_cpp.llama_decode, list[int]()

    def noting(context: Any, batch: Any) -> int:
        found.append(batch.n_tokens)
        return int(native(context, batch))

    monkeypatch.setattr(llama_cpp, "llama_decode", noting)
    return found


def fill(model: LlamaModel, tokens: Sequence[int]) -> None:
    read(model, tokens)


def says(model: LlamaModel) -> Any:
    return model.forward([5, 6], 2).copy()


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_a_rejection_costs_a_pass_over_what_was_accepted(name: str, open_model: Any, widths: list[int]) -> None:
    """The state before the draft is brought back, and the token before it and what was accepted are read again."""
    model = open_model(name)
    fill(model, TEXT[:40])
    model.forward(TEXT[40:46], 6)
    widths.clear()
    model.rollback(43)
    assert widths == [3]
    model.forward(TEXT[43:46], 3)
    model.rollback(43)
    assert widths == [3, 3]  # no more than the draft itself: where it went back to, it can go back to
    model.rollback(43)
    model.forward([5], 1)
    assert widths == [3, 3, 1]


@pytest.mark.parametrize("name", STATEFUL)
def test_states_that_llama_cpp_keeps_cost_nothing(name: str, open_model: Any, widths: list[int]) -> None:
    """Up to `num_droppable` of the tokens of a pass are dropped without a pass, and as if they had not been there."""
    model, fresh = open_model(name), open_model(name)
    fill(model, TEXT[:40])
    assert 0 < model.num_droppable < 40
    for dropped in (1, 5, model.num_droppable):
        start = len(model.cached)
        fresh.rollback(0)
        fill(fresh, list(model.cached))
        draft = [*TEXT[start : start + 2], *TEXT[: dropped - 1]]
        model.forward([3, *draft], dropped + 2)
        widths.clear()
        assert model.nearest(start + 2) == start + 2
        model.rollback(start + 2)
        assert widths == []
        fresh.forward([3, draft[0]], 1)
        assert np.allclose(says(model), says(fresh), atol=1e-4)
    start = len(model.cached)
    model.forward(TEXT[: model.num_droppable + 5], 1)
    widths.clear()
    model.rollback(start + 1)
    assert widths == [1]


@pytest.mark.parametrize("name", STATEFUL)
def test_without_memory_for_states_there_are_checkpoints(
    name: str, weights_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A context that does not fit with the states of a pass is created without them, and goes back like others."""
    native = llama_cpp.llama_init_from_model
    monkeypatch.setattr(
        llama_cpp,
        "llama_init_from_model",
        lambda weights, params: None if params.n_rs_seq > 1 else native(weights, params),
    )
    model = LlamaModel(weights_of(name), 256)
    assert (model.num_droppable, model.can_rollback) == (0, True)
    fill(model, TEXT[:40])
    model.forward(TEXT[40:45], 5)
    assert model.nearest(42) == 40
    model.rollback(42)
    assert list(model.cached) == TEXT[:42]
    model.close()


@pytest.mark.parametrize("context", [1, 2, 3, 10, 17, 18, 19, 40])
@pytest.mark.parametrize("name", STATEFUL)
def test_small_contexts_keep_fewer_states(name: str, context: int, open_model: Any) -> None:
    """A native assertion wants passes to be longer than the states that are kept: all slots can be filled."""
    model = open_model(name, context)
    fill(model, TEXT[: model.context_size])
    model.rollback(0)
    model.forward(TEXT[: model.max_pass], 1)
    assert model.num_droppable < model.max_pass


@pytest.mark.parametrize("name", STATEFUL)
def test_states_of_an_earlier_pass_are_not_taken_for_those_of_the_last(name: str, open_model: Any) -> None:
    """llama.cpp would go back by more tokens than the last pass had, to a state that is not of that place."""
    model, fresh = open_model(name), open_model(name)
    fill(model, TEXT[:40])
    for token in TEXT[40:45]:
        model.forward([token], 1)
    model.rollback(42)
    model.forward(TEXT[42:48], 6)
    model.rollback(45)
    model.rollback(43)  # a second time after one pass
    fill(fresh, TEXT[:43])
    assert list(model.cached) == TEXT[:43]
    assert np.allclose(says(model), says(fresh), atol=1e-4)


@pytest.mark.parametrize("name", [*CHECKPOINTED, *STATEFUL])
def test_a_chat_goes_back_to_its_turns(name: str, open_model: Any) -> None:
    """The ends of what was read and of what was written then stay within reach, however much follows."""
    model = open_model(name, 1024)
    turns = [0]
    for end in (60, 150, 300):
        fill(model, TEXT[: end - 10])
        turns.append(end - 10)
        for token in TEXT[end - 10 : end]:
            model.forward([token], 1)
        turns.append(end)
    assert sorted({model.nearest(length) for length in range(301)}) == turns
    model.rollback(140)
    for token in TEXT[:160]:  # what came after is another text
        model.forward([token], 1)
    assert sorted({model.nearest(length) for length in range(301)}) == [0, 50, 60, 140, 300]


@pytest.mark.parametrize("name", [*CHECKPOINTED, *STATEFUL])
def test_checkpoints_take_no_more_than_their_memory(
    name: str, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is full those go that stand closest to others; from wherever, the text goes on as if read to there."""
    model, fresh = open_model(name, 1024), open_model(name, 1024)
    monkeypatch.setattr(checkpoints, "_KEPT_BYTES", 5 * model.state_bytes)
    model.max_pass = fresh.max_pass = 10
    fill(model, TEXT[:400])
    model.forward([5], 1)
    places = sorted({model.nearest(length) for length in range(401)})
    assert len(places) == 6  # the empty cache is one
    assert places[-1] == 400
    assert max(after - before for before, after in pairwise(places)) <= 200
    for place in (397, 250, 95):
        fill(model, TEXT[:place])
        fill(fresh, TEXT[:place])
        assert np.allclose(says(model), says(fresh), atol=1e-4)
        fresh.rollback(0)


@pytest.mark.parametrize("name", [*CHECKPOINTED, *STATEFUL])
def test_a_checkpoint_that_is_refused_is_read_anew(name: str, open_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever llama.cpp has made of the cache when it fails to bring a state back, the text is read from the start."""
    model, fresh = open_model(name), open_model(name)
    native = llama_cpp.llama_state_seq_set_data_ext

    def half(context: Any, state: Any, size: int, *others: Any) -> int:
        return int(native(context, state, size // 2, *others))

    for refusing in (half, lambda *_: 0):
        fill(model, TEXT[:40])
        model.forward(TEXT[40:80], 1)
        with monkeypatch.context() as patch:
            patch.setattr(llama_cpp, "llama_state_seq_set_data_ext", refusing)
            model.rollback(41)
        fill(fresh, TEXT[:41])
        assert list(model.cached) == TEXT[:41]
        assert np.allclose(says(model), says(fresh), atol=1e-4)
        model.rollback(0)
        fresh.rollback(0)


@pytest.mark.parametrize("function", ["llama_state_seq_get_data_ext", "llama_state_seq_set_data_ext"])
def test_a_cache_that_cannot_be_copied_says_so(function: str, weights_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing but the start can be gone back to, which is right and too slow for drafts."""
    monkeypatch.setattr(llama_cpp, function, lambda *_: 0)
    model = LlamaModel(weights_of("recurrent"), 256)
    assert not model.can_rollback
    fill(model, TEXT[:40])
    model.forward(TEXT[40:45], 5)
    model.rollback(42)
    assert list(model.cached) == TEXT[:42]
    model.close()


def fails(context: Any, batch: Any, decode: Callable[..., int]) -> int:
    decode(context, batch)
    return -3


def is_aborted(context: Any, batch: Any, decode: Callable[..., int]) -> int:
    give_up = llama_cpp.ggml_abort_callback(lambda _data: True)
    llama_cpp.llama_set_abort_callback(context, give_up, None)
    status = decode(context, batch)
    llama_cpp.llama_set_abort_callback(context, llama_cpp.ggml_abort_callback(), None)
    return status


@pytest.mark.parametrize("ends", [fails, is_aborted])
@pytest.mark.parametrize("width", [2, 40])
@pytest.mark.parametrize("name", ["llama", *CHECKPOINTED, *STATEFUL])
def test_a_pass_that_ends_in_its_middle_leaves_no_trace(
    name: str, width: int, ends: Any, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it has done to the state, the cache is as it was before the pass."""
    model, fresh = open_model(name), open_model(name)
    native = llama_cpp.llama_decode
    fill(model, TEXT[:40])
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", lambda context, batch: ends(context, batch, native))
        with pytest.raises(ModelError, match=f"a pass over {width} tokens failed"):
            model.forward(TEXT[100 : 100 + width], 1)
    fill(fresh, TEXT[:40])
    assert list(model.cached) == TEXT[:40]
    assert np.allclose(says(model), says(fresh), atol=1e-4)


@pytest.mark.parametrize("name", ["llama", *CHECKPOINTED, *STATEFUL])
def test_ctrl_c_while_writing_reads_nothing_again(name: str, open_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal in a short pass waits for its end where the cache could not drop it; what it holds is known."""
    model, fresh = open_model(name), open_model(name)
    native = llama_cpp.llama_decode
    fill(model, TEXT[:40])
    for token in TEXT[40:50]:
        model.forward([token], 1)

    def interrupted(context: Any, batch: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return int(native(context, batch))

    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.forward(TEXT[50:51], 1)
    assert len(model.cached) == (50 if name == "llama" else 51)
    fill(fresh, TEXT[: len(model.cached)])
    assert list(model.cached) == list(fresh.cached)
    assert np.allclose(says(model), says(fresh), atol=1e-4)


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_ctrl_c_while_going_back_leaves_what_is_known(
    name: str, open_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that arrives while a state is brought back is held until the cache is known to be there."""
    model, fresh = open_model(name), open_model(name)
    native = llama_cpp.llama_state_seq_set_data_ext
    fill(model, TEXT[:40])
    model.forward(TEXT[40:50], 10)

    def interrupted(*arguments: Any) -> int:
        signal.raise_signal(signal.SIGINT)
        return int(native(*arguments))

    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_state_seq_set_data_ext", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.rollback(45)
    assert list(model.cached) == TEXT[:40]
    fill(fresh, TEXT[:40])
    assert np.allclose(says(model), says(fresh), atol=1e-4)


def test_a_window_brought_back_is_not_taken_for_the_text(open_model: Any) -> None:
    """What a snapshot of a sliding window holds serves no place before its end; the start is always a place."""
    taken, model, fresh = (open_model("sliding window") for _ in range(3))
    fill(taken, TEXT[:100])
    model.restore(taken.snapshot(), TEXT[:100])
    assert [model.nearest(length) for length in (0, 60, 99, 100)] == [0, 0, 0, 100]
    model.forward(TEXT[100:110], 10)
    assert [model.nearest(length) for length in (99, 100, 105)] == [0, 100, 105]
    assert list(reading(model, TEXT[:90])) == [0, 90]
    fill(fresh, TEXT[:90])
    assert np.allclose(says(model), says(fresh), atol=1e-4)


@pytest.mark.parametrize("name", [*CHECKPOINTED, *STATEFUL])
def test_a_copied_cache_goes_back_where_its_original_could(name: str, open_model: Any) -> None:
    """The checkpoints of a text that was read in another context go with it."""
    reader, writer, fresh = (open_model(name) for _ in range(3))
    reader.max_pass = 30
    fill(reader, TEXT[:100])
    writer.copy_from(reader)
    assert [writer.nearest(length) for length in (29, 65, 100)] == [0, 60, 100]
    writer.rollback(65)
    fill(fresh, TEXT[:65])
    assert np.allclose(says(writer), says(fresh), atol=1e-4)
