"""A GGUF file in memory: its weights, what it says about itself, and its vocabulary.

Knows files and metadata; passes over tokens are model.py's.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import llama_cpp

from speclocal.errors import ModelError, OutOfMemoryError, WorkerError
from speclocal.llama import backend, interrupts, log, rpc
from speclocal.llama.devices import Device, devices_for, native_list
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.llama.vocab import Vocab

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")

UNREADABLE = (
    "the file may be damaged, cut off, or newer than the installed llama-cpp-python; "
    "fetch it again, or update with `pip install -U llama-cpp-python`"
)
"""What to do about a file that llama.cpp cannot read."""

_ALL_LAYERS = -1
_LOAD_MODES = {(False, False): 0, (True, False): -1, (False, True): 2, (True, True): 3}
"""enum llama_load_mode, by whether weights are mapped and whether they are locked; mapped is left to the devices."""


class Weights:
    """A loaded model file; several contexts can share it. Free it after them."""

    def __init__(self, path: Path, placement: Placement, name: str = "") -> None:
        """Load `path`; errors speak of it as `name`, by default the name of the file.

        Raises ModelError with llama.cpp's own reason when it cannot be loaded or does not generate text.
        """
        backend.start()
        self.path = path
        self.name = name or path.name
        self.placement = placement
        self.devices: Sequence[Device] = ()
        self.workers: rpc.Connection | None = None
        self.locked = False  # in memory, as `--mlock` asks for and the system may refuse
        self._workers_to_leave: rpc.Connection | None = None
        self._pointer: Any = None
        try:
            self._pointer = self._loaded(placement)
            self._refuse_unless_generative()
            self.vocab = Vocab(llama_cpp.llama_model_get_vocab(self._pointer), self.metadata("tokenizer.chat_template"))
            if self.vocab.kind == llama_cpp.LLAMA_VOCAB_TYPE_NONE or self.vocab.size == 0:
                raise ModelError(f"`{self.name}` has no vocabulary", "choose a complete model file")
        except BaseException:
            self.close()
            raise

    def run(
        self, call: Callable[_Arguments, _Value], *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Value:
        """Return what a call returns that may reach the workers, where there are some.

        Raises WorkerError when one of them goes away.
        """
        return self.workers.run(call, *arguments, **named) if self.workers else call(*arguments, **named)

    @property
    def lost(self) -> bool:
        """Whether a worker took a part of these weights with it: they cannot be used, nor freed."""
        return bool(self.workers and self.workers.lost)

    @property
    def pointer(self) -> Any:
        """The native model."""
        if self._pointer is None:
            raise ValueError("these weights are closed")
        return self._pointer

    @property
    def trained_context(self) -> int:
        """The longest text the model was trained on, in tokens."""
        return int(llama_cpp.llama_model_n_ctx_train(self.pointer))

    @property
    def size_bytes(self) -> int:
        """Bytes of all weights: what a pass over one token reads from memory."""
        return int(llama_cpp.llama_model_size(self.pointer))

    @property
    def num_weights(self) -> int:
        """Numbers in all weights together."""
        return int(llama_cpp.llama_model_n_params(self.pointer))

    @property
    def on_cpu(self) -> bool:
        """Whether all passes run on the CPU, where the layout of the weights is a choice."""
        return not self.devices

    @property
    def has_sliding_window(self) -> bool:
        """Whether attention sees only the last tokens, so that a saved cache holds no more than those."""
        return int(llama_cpp.llama_model_n_swa(self.pointer)) > 0

    @property
    def is_recurrent(self) -> bool:
        """Whether layers, all or some of them, remember the text in one state, which no token can be taken out of."""
        model = self.pointer
        return bool(llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model))

    @property
    def keeps_every_token(self) -> bool:
        """Whether a saved cache holds every token by itself, so that any beginning of its text can be had from it."""
        return not self.is_recurrent and not self.has_sliding_window

    @property
    def kv_elements(self) -> int:
        """About how many numbers the KV cache holds for every token of the context."""
        heads = max(1, int(llama_cpp.llama_model_n_head(self.pointer)))
        width = int(llama_cpp.llama_model_n_embd(self.pointer)) // heads
        return (
            2
            * int(llama_cpp.llama_model_n_layer(self.pointer))
            * int(llama_cpp.llama_model_n_head_kv(self.pointer))
            * width
        )

    def metadata(self, key: str) -> str | None:
        """Return a value of the file's header as text, None where it has no such key."""
        size = 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = llama_cpp.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size)
            if length < 0:
                return None
            if length < size:
                return buffer.value.decode("utf-8", "replace")
            size = length + 1

    def move(self, placement: Placement) -> None:
        """Load the file again with another placement. Contexts that use these weights must be closed before.

        Raises ModelError when that fails; the weights are closed then.
        """
        self.close()
        try:
            self._pointer = self._loaded(placement)
        except BaseException:
            self.close()
            raise
        self.vocab.follow(llama_cpp.llama_model_get_vocab(self._pointer))

    def close(self) -> None:
        """Free the memory, unless a worker took a part of it. Contexts that use these weights must be closed before."""
        if self._pointer is not None and not self.lost:
            with suppress(WorkerError):
                self.run(llama_cpp.llama_model_free, self._pointer)
        self._pointer = None
        if self._workers_to_leave is not None:
            self._workers_to_leave.leave()
            self._workers_to_leave = None

    def _loaded(self, placement: Placement) -> Any:
        """Return the native model, placed as it shall be."""
        self.placement = placement
        self.workers = self._workers_to_leave = rpc.connect(placement.rpc) if placement.rpc else None
        self.devices = self.run(devices_for, placement, self.workers.devices if self.workers else ())
        log.forget()
        if pointer := self.run(_load, self.path, placement, self.devices):
            self.locked = placement.mlock and not log.has("failed to mlock")
            if self.workers:
                self.workers.watch()
            return pointer
        reason = log.reason() or "llama.cpp gives no reason"
        if log.tells_of_memory(reason):
            raise OutOfMemoryError(
                f"`{self.name}` does not fit in memory: {reason}",
                "give fewer `--gpu-layers`, or choose a smaller model",
            )
        raise ModelError(f"cannot load `{self.name}`: {reason}", UNREADABLE)

    def _refuse_unless_generative(self) -> None:
        arch = self.metadata("general.architecture")
        embeds = (
            self.metadata(f"{arch}.attention.causal") == "false"
            or self.metadata(f"{arch}.pooling_type") not in (None, "0")
            or not llama_cpp.llama_model_has_decoder(self._pointer)
        )
        for unfit, what in (
            (llama_cpp.llama_model_has_encoder(self._pointer), "reads with an encoder before it writes"),
            (embeds, "makes embeddings and writes no text"),
            (llama_cpp.llama_model_is_diffusion(self._pointer), "writes by diffusion, not token by token"),
        ):
            if unfit:
                raise ModelError(f"`{self.name}` {what}", "choose a decoder-only text model")


def _load(path: Path, placement: Placement, devices: Sequence[Device]) -> Any:
    """Return the native model, a null pointer where it cannot be loaded; an interrupt ends the loading early."""
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = _ALL_LAYERS if placement.gpu_layers is None else placement.gpu_layers
    params.use_extra_bufts = placement.layout is Layout.REPACKED
    params.load_mode = _LOAD_MODES[placement.mmap, placement.mlock]
    chosen = native_list(devices)
    params.devices = ctypes.addressof(chosen)
    if placement.tensor_split:
        params.tensor_split = (ctypes.c_float * llama_cpp.llama_max_devices())(*placement.tensor_split)
    with interrupts.held() as arrived:
        go_on = llama_cpp.llama_progress_callback(lambda _share, _user_data: not arrived)
        params.progress_callback = go_on
        return llama_cpp.llama_model_load_from_file(os.fsencode(path), params)


def machine() -> str:
    """Return what computes the passes: the version of llama.cpp, its build and this processor's features."""
    return f"llama-cpp-python {version()}; {_system_info()}"


def version() -> str:
    """Return the version of llama-cpp-python, which brings its own llama.cpp."""
    return str(llama_cpp.__version__)


def features() -> tuple[str, ...]:
    """Return what of this processor and of its own build llama.cpp uses, by its names: AVX2, OPENMP."""
    flags = (part.rpartition(":")[2].split("=") for part in _system_info().split("|") if "=" in part)
    return tuple(name.strip() for name, value in flags if value.strip() not in ("", "0"))


def _system_info() -> str:
    """Return what llama.cpp says of its build: `CPU : AVX2 = 1 | F16C = 1 |`."""
    backend.start()
    return bytes(llama_cpp.llama_print_system_info()).decode("utf-8", "replace").strip()
