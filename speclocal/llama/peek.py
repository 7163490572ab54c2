"""The vocabulary of a model file, without its weights: takes tenths of a second, whatever the size of the file.

Knows how a file is opened for its vocabulary alone; what a vocabulary can tell is vocab.py's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import llama_cpp

from speclocal.errors import ModelError
from speclocal.llama import backend, interrupts, log
from speclocal.llama.vocab import Vocab
from speclocal.llama.weights import UNREADABLE


@contextmanager
def vocabulary_of(path: Path, name: str, chat_template: str = "") -> Iterator[Vocab]:
    """Give the vocabulary of a model file while the context lasts.

    Raises ModelError with llama.cpp's own reason when it cannot be read.
    """
    backend.start()
    params = llama_cpp.llama_model_default_params()
    params.vocab_only = True
    log.forget()
    with interrupts.held():
        model = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
    if not model:
        raise ModelError(
            f"cannot read the vocabulary of `{name}`: {log.reason() or 'llama.cpp gives no reason'}",
            UNREADABLE,
        )
    try:
        yield Vocab(llama_cpp.llama_model_get_vocab(model), chat_template or None)
    finally:
        llama_cpp.llama_model_free(model)
