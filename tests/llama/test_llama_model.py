"""The core's Model protocol, held by the fake model, by tiny files of every kind of cache, and by the default model."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import llama_cpp
import numpy as np
import psutil
import pytest
from fakes import FakeModel

from speclocal.decoding.loop import read, reading
from speclocal.decoding.types import Logits, Model
from speclocal.errors import ContextError, ModelError, OutOfMemoryError, SpeclocalError
from speclocal.llama.formats import KvType
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

DROPPING = ["fake", "llama", "llama, SentencePiece", "sliding window", "default"]
RETURNING = ["fake that returns", "recurrent", "hybrid", "convolution", "delta net"]  # to a checkpoint, and read on
ALL = [*DROPPING, *RETURNING]
LLAMA_CPP = [name for name in ALL if not name.startswith("fake")]

NewModel = Callable[[str], Model]


@pytest.fixture
def new_model(open_model: Any) -> NewModel:
    def new(name: str) -> Model:
        if name.startswith("fake"):
            return FakeModel(vocab_size=16, context_size=256, max_pass=256, max_rows=128, can_rollback=name == "fake")
        model: Model = open_model(name)
        return model

    return new


def some_tokens(model: Model, count: int, salt: int = 0) -> list[int]:
    """Return `count` token ids from 3 up that look random and are the same every time."""
    return [(7919 * (i + 1) + 104729 * salt) % (model.vocab_size - 3) + 3 for i in range(count)]


def row_after(model: Model, tokens: list[int]) -> Logits:
    """Feed `tokens` in one pass and return what the model says after them."""
    return model.forward(tokens, 1).copy()


@pytest.mark.parametrize("name", DROPPING)
def test_keys_and_values_can_be_dropped_anywhere(name: str, new_model: NewModel) -> None:
    """A cache of keys and values, with or without a sliding window, goes back to any place without reading."""
    model = new_model(name)
    model.forward(some_tokens(model, 20), 0)
    assert [model.nearest(length) for length in range(25)] == [*range(20), *[20] * 5]


@pytest.mark.parametrize("name", RETURNING)
def test_states_are_gone_back_to_where_passes_met(name: str, new_model: NewModel) -> None:
    """A recurrent state, even if only some layers have one, can be had again where several tokens began or ended."""
    model = new_model(name)
    model.forward(some_tokens(model, 20), 0)
    for token in (3, 4, 5):
        model.forward([token], 1)
    assert [model.nearest(length) for length in (0, 19, 20, 22, 23, 30)] == [0, 0, 20, 20, 23, 23]


@pytest.mark.parametrize("name", ALL)
def test_cache_starts_empty_and_holds_what_was_fed(name: str, new_model: NewModel) -> None:
    """`cached` is empty at first, then all tokens fed so far, in order; `rollback(0)` empties it on every model."""
    model = new_model(name)
    assert list(model.cached) == []
    tokens = some_tokens(model, 20)
    model.forward(tokens[:12], 0)
    model.forward(tokens[12:], 3)
    assert list(model.cached) == tokens
    model.rollback(20)
    assert list(model.cached) == tokens
    model.rollback(0)
    assert list(model.cached) == []


@pytest.mark.parametrize("name", ALL)
def test_rollback_keeps_the_prefix(name: str, new_model: NewModel) -> None:
    """After `rollback(n)` the cache holds the first n tokens."""
    model = new_model(name)
    tokens = some_tokens(model, 20)
    model.forward(tokens, 0)
    for length in (20, 19, 10, 1, 0):
        model.rollback(length)
        assert list(model.cached) == tokens[:length]


@pytest.mark.parametrize("name", ALL)
def test_emptied_cache_has_forgotten_everything(name: str, new_model: NewModel) -> None:
    """After `rollback(0)` a model says bit for bit what a new one says."""
    used, new = new_model(name), new_model(name)
    used.forward(some_tokens(used, 40), 0)
    used.rollback(0)
    tokens = some_tokens(used, 15, salt=1)
    assert np.array_equal(row_after(used, tokens), row_after(new, tokens))


@pytest.mark.parametrize("name", ALL)
def test_rejected_tokens_leave_no_trace(name: str, new_model: NewModel) -> None:
    """Drafting, rolling back and going on gives bit for bit the logits of a run that never drafted."""
    drafting, straight = new_model(name), new_model(name)
    prompt = some_tokens(drafting, 40)
    drafting.forward(prompt, 0)
    straight.forward(prompt, 0)
    for round_ in range(5):
        drafting.forward(some_tokens(drafting, 9, salt=round_), 9)
        drafting.rollback(len(straight.cached))
        kept = some_tokens(drafting, 2, salt=10 + round_)
        assert np.array_equal(row_after(drafting, kept), row_after(straight, kept))
    for num_kept in (0, 1, 4, 8, 9):  # of a draft, what is accepted may have to be read again
        drafting.forward(draft := some_tokens(drafting, 9, salt=num_kept), 9)
        drafting.rollback(len(straight.cached) + num_kept)
        for token in draft[:num_kept]:
            straight.forward([token], 1)
        assert list(drafting.cached) == list(straight.cached)
        assert np.allclose(row_after(drafting, [7]), row_after(straight, [7]), atol=1e-4)
    drafting.rollback(30)
    straight.rollback(0)
    straight.forward(prompt[:30], 0)  # in a pass of another width, so the last bits may differ
    after = drafting.forward([4, 5, 3], 3).copy()
    assert np.allclose(after, straight.forward([4, 5, 3], 3), atol=1e-4)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [2, 3, 5, 8, 17, 33])  # from 64 on llama.cpp's CPU attention takes another path
def test_wide_pass_has_the_rows_of_single_token_passes(name: str, width: int, new_model: NewModel) -> None:
    """One pass over many tokens gives the rows that one pass for each gives: bit for bit with the default model."""
    wide, narrow = new_model(name), new_model(name)
    prompt, tokens = some_tokens(wide, 10, salt=1), some_tokens(wide, width)
    wide.forward(prompt, 0)
    narrow.forward(prompt, 0)
    rows = wide.forward(tokens, width).copy()
    singles = np.concatenate([row_after(narrow, [token]) for token in tokens])
    assert rows.shape == singles.shape == (width, wide.vocab_size)
    assert rows.dtype == np.float32
    if name in ("fake", "default") and not llama_cpp.llama_supports_gpu_offload():
        assert np.array_equal(rows, singles)
    assert np.allclose(rows, singles, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_last_rows_are_the_rows_of_the_last_tokens(name: str, new_model: NewModel) -> None:
    """Asking for fewer rows leaves out rows, it does not change them."""
    every, some = new_model(name), new_model(name)
    tokens = some_tokens(every, 12)
    rows = every.forward(tokens, 12).copy()
    assert np.array_equal(some.forward(tokens, 4), rows[-4:])
    assert some.forward([3], 0).shape == (0, some.vocab_size)


@pytest.mark.parametrize("name", ALL)
def test_chunked_reading_equals_one_pass(name: str, new_model: NewModel) -> None:
    """`read` in small passes tells how far it is, and leaves the cache that one pass leaves."""
    chunked, whole = new_model(name), new_model(name)
    tokens = some_tokens(chunked, 50)
    chunked.max_pass = 16
    assert list(reading(chunked, tokens)) == [0, 16, 32, 48, 50]
    assert list(reading(whole, tokens)) == [0, 50]
    assert list(chunked.cached) == list(whole.cached) == tokens
    assert np.allclose(row_after(chunked, [4]), row_after(whole, [4]), atol=1e-4)


@pytest.mark.parametrize("name", DROPPING)
def test_reading_keeps_what_two_prompts_share(name: str, new_model: NewModel) -> None:
    """`read` of a prompt that parts from the last one feeds only what is new."""
    model, fresh = new_model(name), new_model(name)
    first = some_tokens(model, 40)
    second = [*first[:25], first[25] - 1, *some_tokens(model, 14, salt=1)]
    assert list(reading(model, first)) == [0, 40]
    assert list(reading(model, second)) == [25, 40]
    assert list(reading(fresh, second)) == [0, 40]
    assert list(model.cached) == second
    assert np.allclose(row_after(model, [4]), row_after(fresh, [4]), atol=1e-4)


@pytest.mark.parametrize("name", RETURNING[1:])
def test_reading_a_changed_prompt_goes_back_to_a_checkpoint(name: str, new_model: NewModel) -> None:
    """Where the state was kept while the first prompt was read, the reading of one that parts from it begins."""
    model, fresh = new_model(name), new_model(name)
    model.max_pass = 16
    first = some_tokens(model, 40)
    second = [*first[:25], first[25] - 1, *some_tokens(model, 14, salt=1)]
    assert list(reading(model, first)) == [0, 16, 32, 40]
    assert list(reading(model, [*first, 3, 4])) == [40, 42]
    assert list(reading(model, second)) == [16, 32, 40]
    assert list(reading(model, [second[0] - 1, 3, 4])) == [0, 3]
    assert list(reading(model, second)) == [0, 16, 32, 40]
    assert list(reading(fresh, second)) == [0, 40]
    assert np.allclose(row_after(model, [4]), row_after(fresh, [4]), atol=1e-4)


@pytest.mark.parametrize("name", ALL)
def test_misuse_is_refused_and_harmless(name: str, new_model: NewModel) -> None:
    """Every pass that cannot be run raises ValueError before it starts; the model then goes on as if never asked."""
    misused, spared = new_model(name), new_model(name)
    misused.max_pass, misused.max_rows = 64, 32
    tokens = some_tokens(misused, 10)
    misused.forward(tokens, 0)
    spared.forward(tokens, 0)
    for bad, num_rows in (
        ([], 0),
        ([3] * 65, 0),
        ([3], -1),
        ([3], 2),
        ([3] * 40, 33),
        ([-1], 1),
        ([3, 4, -2], 1),
        ([misused.vocab_size], 1),
        ([2**31 - 1], 1),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            misused.forward(bad, num_rows)
    for length in (-1, 11):
        with pytest.raises(ValueError, match="cannot roll back"):
            misused.rollback(length)
    assert list(misused.cached) == tokens
    assert np.array_equal(row_after(misused, [4, 5]), row_after(spared, [4, 5]))


@pytest.mark.parametrize("name", LLAMA_CPP)
def test_ids_too_large_for_llama_cpp_are_refused(name: str, new_model: NewModel) -> None:
    """A token id beyond 32 bits is a Python error too."""
    model = new_model(name)
    for bad in (2**31, 2**32 + 3, -(2**40)):
        with pytest.raises((ValueError, OverflowError)):
            model.forward([bad], 1)
    assert list(model.cached) == []
    assert model.forward([3], 1).shape == (1, model.vocab_size)


@pytest.mark.parametrize("name", ALL)
def test_every_slot_of_the_context_can_be_filled(name: str, new_model: NewModel) -> None:
    """Exactly `context_size` tokens fit; the next is refused with the size and a way out, and changes nothing."""
    model = new_model(name)
    tokens = some_tokens(model, model.context_size)
    read(model, tokens[:-1])
    last = row_after(model, tokens[-1:])
    assert np.isfinite(last).all()
    with pytest.raises(ContextError, match=f"fit .*{model.context_size}"):
        model.forward([3], 1)
    assert list(model.cached) == tokens
    model.rollback(model.context_size - 1)
    assert np.array_equal(row_after(model, tokens[-1:]), last)
    model.rollback(model.context_size - 5)
    with pytest.raises(ContextError):
        model.forward([3] * 6, 1)
    assert model.forward([3] * 5, 5).shape[0] == 5


@pytest.mark.parametrize("asked", [1, 2, 3, 100, 256, 257, 300, 512, 1000])
def test_context_size_is_what_llama_cpp_gives(asked: int, open_model: Any) -> None:
    """The context is at least what was asked for, and as large as it says."""
    model = open_model("llama", asked)
    assert model.context_size >= asked
    assert model.context_size == llama_cpp.llama_n_ctx(model._context)
    read(model, [3] * model.context_size)
    with pytest.raises(ContextError):
        model.forward([3], 0)


def test_impossible_context_is_refused(open_model: Any) -> None:
    """A context that cannot exist is an error that names the model, not the end of the process."""
    with pytest.raises(SpeclocalError, match=r"llama\.gguf"):
        open_model("llama", -1)


def test_context_larger_than_memory_is_refused(open_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context that does not fit the free memory is refused before the system ends the process for it."""
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000))
    with pytest.raises(SpeclocalError, match=r"a context of 100000 tokens for `llama\.gguf` needs about"):
        open_model("llama", 100_000)


@pytest.mark.parametrize("kv_type", list(KvType))
def test_every_cache_can_be_rolled_back_and_saved(kv_type: KvType, path_of: Any) -> None:
    """A packed cache, too, goes on from where it was: the same bits after a rollback, and from a snapshot."""
    weights = Weights(path_of("default"), Placement(1, kv_type=kv_type))
    model, other = LlamaModel(weights, 256), LlamaModel(weights, 256)
    tokens = some_tokens(model, 40)
    model.forward(tokens, 0)
    first = row_after(model, [5, 6])
    assert np.isfinite(first).all()
    model.rollback(40)
    other.restore(model.snapshot(), tokens)
    assert np.array_equal(row_after(model, [5, 6]), first)
    assert np.array_equal(row_after(other, [5, 6]), first)
    model.close()
    other.close()
    weights.close()


@pytest.mark.parametrize("status", [1, 2, -1, -2, -3])
@pytest.mark.parametrize("name", LLAMA_CPP)
def test_failed_pass_changes_nothing(
    name: str, status: int, new_model: NewModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When llama.cpp gives up on a pass, the caller learns why and can go on from where it was."""
    model, spared = new_model(name), new_model(name)
    tokens = some_tokens(model, 10)
    model.forward(tokens, 0)
    spared.forward(tokens, 0)
    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", lambda *_: status)
        with pytest.raises(ContextError if status == 1 else ModelError, match=r"3 tokens") as caught:
            model.forward([3, 4, 5], 1)
    assert isinstance(caught.value, OutOfMemoryError) is (status == -2)
    assert list(model.cached) == tokens
    assert np.array_equal(row_after(model, [3, 4, 5]), row_after(spared, [3, 4, 5]))


@pytest.mark.parametrize("name", LLAMA_CPP)
def test_interrupted_pass_leaves_a_cache_to_go_on_from(
    name: str, new_model: NewModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C arrives when llama.cpp returns from a pass: the model says what it holds, and can go on from there."""
    model, fresh = new_model(name), new_model(name)
    tokens = some_tokens(model, 10)
    model.forward(tokens, 0)
    really_decode = llama_cpp.llama_decode

    def decode_then_interrupt(*arguments: Any) -> int:
        really_decode(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(llama_cpp, "llama_decode", decode_then_interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.forward([3, 4, 5], 1)
    assert list(model.cached) == tokens
    for m in (model, fresh):
        read(m, tokens)
    assert np.allclose(row_after(model, [3, 4, 5]), row_after(fresh, [3, 4, 5]), atol=1e-4)


def test_two_contexts_of_one_file_do_not_meet(open_model: Any) -> None:
    """Contexts over shared weights have caches of their own."""
    a, b = open_model("llama"), open_model("llama")
    a.forward([3, 4, 5], 0)
    assert list(b.cached) == []
    alone = row_after(b, [6, 7])
    a.forward([8], 0)
    b.rollback(0)
    assert np.array_equal(row_after(b, [6, 7]), alone)


@pytest.mark.parametrize("name", LLAMA_CPP)
def test_a_snapshot_brings_a_cache_back(name: str, open_model: Any) -> None:
    """In another context, whatever that held, it is the cache that it was taken of; one of nothing is empty."""
    taken, given = open_model(name), open_model(name)
    tokens = some_tokens(taken, 40)
    empty = taken.snapshot()
    taken.forward(tokens, 0)
    given.forward([3, 4, 5], 0)
    given.restore(taken.snapshot(), tokens)
    assert list(given.cached) == tokens
    assert np.array_equal(row_after(given, [6, 7]), row_after(taken, [6, 7]))
    given.restore(empty, [])
    assert list(given.cached) == []


def test_a_snapshot_that_does_not_fit_leaves_an_empty_cache(open_model: Any) -> None:
    """A context with too little room, or half a snapshot, is an error, and the cache can be used."""
    large, small, fresh = open_model("llama", 512), open_model("llama", 256), open_model("llama", 256)
    tokens = some_tokens(large, 300)
    read(large, tokens)
    state = large.snapshot()
    for unfit in (state, state[: len(state) // 2], state[:3], state[:0]):
        small.forward([3, 4, 5], 0)
        with pytest.raises(ModelError, match="300 tokens of cache do not fit"):
            small.restore(unfit, tokens)
        assert list(small.cached) == []
    assert np.array_equal(row_after(small, [6, 7]), row_after(fresh, [6, 7]))


def test_threads_do_not_change_the_logits(path_of: Any, open_model: Any) -> None:
    """Several threads share the work of a pass and give the bits that one gives, up to 256 tokens."""
    weights = Weights(path_of("llama"), Placement(3))
    many, one = LlamaModel(weights, 256), open_model("llama")
    for tokens in (some_tokens(one, 20), [5], [6, 7]):
        assert np.array_equal(many.forward(tokens, len(tokens)), one.forward(tokens, len(tokens)))
    many.close()
    weights.close()


@pytest.mark.parametrize(("threads", "widths"), [(1, [1, 2, 3, 8, 24, 48]), (3, [2, 3, 8, 24, 48])])
def test_width_of_a_pass_does_not_matter_in_a_long_context(threads: int, widths: list[int], path_of: Any) -> None:
    """Behind many tokens, too, passes of different width give the same bits on a CPU.

    Not those of one token: after more than 256 tokens llama.cpp splits their attention among several threads and
    sums it in another order.
    """
    if llama_cpp.llama_supports_gpu_offload():
        pytest.skip("GPU kernels differ from width to width")
    weights = Weights(path_of("llama"), Placement(threads))
    model = LlamaModel(weights, 1024)
    tokens = some_tokens(model, 600)
    read(model, tokens)

    def rows(width: int) -> Logits:
        model.rollback(600)
        text = some_tokens(model, 48, salt=1)
        return np.concatenate([model.forward(text[i : i + width], width).copy() for i in range(0, 48, width)])

    first, *others = (rows(width) for width in widths)
    assert all(np.array_equal(first, other) for other in others)
    model.close()
    weights.close()


def test_closed_model_raises_instead_of_crashing(run_python: Any, path_of: Any) -> None:
    """Closing twice is fine; using a closed model or closed weights is a Python error, never a native crash."""
    program = """
import sys
from pathlib import Path
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

weights = Weights(Path(sys.argv[1]), Placement(1))
model = LlamaModel(weights, 256)
model.forward([3, 4], 1)
model.close()
model.close()
weights.vocab.piece(5)

def refused(action):
    try:
        action()
    except ValueError:
        return True

assert refused(lambda: model.forward([3], 1)), "forward"
assert refused(lambda: model.rollback(1)), "rollback"
weights.close()
weights.close()
assert refused(lambda: LlamaModel(weights, 256)), "context"
assert refused(lambda: weights.metadata("general.name")), "metadata"
print("survived")
"""
    done = run_python(program, path_of("llama"))
    assert (done.stdout, done.stderr, done.returncode) == ("survived\n", "", 0)


def test_leaving_without_closing_is_quiet(run_python: Any, path_of: Any) -> None:
    """A process that ends with models open ends with its own exit code and nothing on stderr."""
    program = """
import sys
from pathlib import Path
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

model = LlamaModel(Weights(Path(sys.argv[1]), Placement(1)), 256)
model.forward([3, 4], 1)
"""
    done = run_python(program, path_of("llama"))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
