"""Models of every kind of cache: tiny ones written once per session, and the real default model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import pytest
import tiny

from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

KINDS = tiny.KINDS | {
    "llama, SentencePiece": lambda path, noise=0.0: tiny.write_llama(path, tiny.spm(), noise=noise),
}
FILES = KINDS | {f"{name}, a little different": partial(write, noise=0.05) for name, write in KINDS.items()}

PathOf = Callable[[str], Path]
WeightsOf = Callable[[str], Weights]
OpenModel = Callable[..., LlamaModel]
RunPython = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def path_of(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> PathOf:
    """Return the file of a name in FILES, or of `default` for the real default model."""
    folder = tmp_path_factory.mktemp("models")

    @cache
    def find(name: str) -> Path:
        if name == "default":
            path: Path = request.getfixturevalue("default_model_path")
            return path
        return FILES[name](folder / f"{name}.gguf")

    return find


@pytest.fixture(scope="session")
def weights_of(path_of: PathOf) -> Iterator[WeightsOf]:
    """Return the loaded weights of a name. One thread: several that wait for a busy core are far slower than one."""
    loaded: dict[str, Weights] = {}

    def load(name: str) -> Weights:
        if name not in loaded:
            loaded[name] = Weights(path_of(name), Placement(1))
        return loaded[name]

    yield load
    for weights in loaded.values():
        weights.close()


@pytest.fixture
def open_model(weights_of: WeightsOf) -> Iterator[OpenModel]:
    """Return new contexts over the weights of a name, closed after the test."""
    models: list[LlamaModel] = []

    def open_context(name: str, context: int = 256) -> LlamaModel:
        models.append(LlamaModel(weights_of(name), context))
        return models[-1]

    yield open_context
    for model in models:
        model.close()


@pytest.fixture(scope="session")
def run_python() -> RunPython:
    """Run a program in a process of its own: what it does to a process, it does not do to this one."""

    def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", program, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "GGML_NO_BACKTRACE": "1"},
        )

    return run
