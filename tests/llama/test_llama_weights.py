"""Files that load, and files that do not: one clear error each, and never a native abort."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny

from speclocal.errors import ModelError
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights


def written(data: bytes) -> Callable[[Path], Path]:
    def write(path: Path) -> Path:
        path.write_bytes(data)
        return path

    return write


def cut(share: float) -> Callable[[Path], Path]:
    return lambda path: tiny.cut_off(path, tiny.write_llama(path.with_suffix(".whole")), share)


def unknown_architecture(path: Path) -> Path:
    data = tiny.write_llama(path).read_bytes()
    path.write_bytes(data.replace(b"llama", b"zlama"))
    return path


UNFIT: dict[str, tuple[Callable[[Path], Path], str]] = {
    "half": (cut(0.5), "not within the file bounds"),
    "headless": (cut(0.05), "failed to read"),
    "stump": (cut(0.0001), "failed to read"),
    "empty": (written(b""), "failed to read magic"),
    "web-page": (written(b"<!DOCTYPE html><title>404</title>" * 99), "invalid magic"),
    "missing": (lambda path: path, "No such file"),
    "folder": (lambda path: path.mkdir() or path, ""),
    "future": (unknown_architecture, "unknown model architecture: 'zlama'"),
    "no-tensors": (lambda path: tiny.write_llama(path, metadata={"llama.block_count": 3}), "tensor"),
    "translator": (tiny.write_encoder_decoder, "encoder"),
    "embedder": (tiny.write_embedder, "embeddings"),
    "two-way": (lambda path: tiny.write_llama(path, metadata={"llama.attention.causal": False}), "embeddings"),
    "pooled": (lambda path: tiny.write_llama(path, metadata={"llama.pooling_type": 3}), "embeddings"),
    "wordless": (tiny.write_without_vocabulary, "no vocabulary"),
}
"""By name: a file that must be refused, and what the error must say about it."""

LOAD_ALL = """
import json, sys
from pathlib import Path
from speclocal.errors import ModelError
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

for argument in sys.argv[1:]:
    try:
        Weights(Path(argument), Placement(1)).close()
    except ModelError as error:
        print(json.dumps([Path(argument).stem, error.message, error.hint]))
    else:
        print(json.dumps([Path(argument).stem, "", ""]))
"""


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory, run_python: Any) -> Any:
    """Try to load every unfit file in one process of its own."""
    folder = tmp_path_factory.mktemp("unfit")
    return run_python(LOAD_ALL, *(write(folder / f"{name}.gguf") for name, (write, _) in UNFIT.items()))


def test_unfit_files_are_refused_quietly(outcome: Any) -> None:
    """llama.cpp prints nothing, and the process lives to try all of them."""
    assert (outcome.stderr, outcome.returncode) == ("", 0)
    assert len(outcome.stdout.splitlines()) == len(UNFIT)


@pytest.mark.parametrize("name", UNFIT)
def test_unfit_file_is_one_clear_error(name: str, outcome: Any) -> None:
    """The error names the file and quotes the reason; the hint says what to do."""
    errors = {stem: (message, hint) for stem, message, hint in map(json.loads, outcome.stdout.splitlines())}
    message, hint = errors[name]
    assert f"`{name}.gguf`" in message
    assert UNFIT[name][1] in message
    assert hint


def test_errors_speak_of_the_model_by_its_name(tmp_path: Path) -> None:
    """A model from the catalogue is called what the person called it."""
    with pytest.raises(ModelError, match="cannot load `my-model`"):
        Weights(tmp_path / "blob.gguf", Placement(1), "my-model")


def test_refused_file_leaves_the_next_one_alone(tmp_path: Path) -> None:
    """After a failure another file loads, and a later error quotes its own reason."""
    with pytest.raises(ModelError, match="No such file"):
        Weights(tmp_path / "missing.gguf", Placement(1))
    path = tiny.write_llama(tmp_path / "good.gguf")
    Weights(path, Placement(1)).close()
    with pytest.raises(ModelError) as caught:
        Weights(tiny.cut_off(tmp_path / "cut.gguf", path), Placement(1))
    assert "No such file" not in caught.value.message


@pytest.mark.skipif(os.name == "nt", reason="names are text on Windows")
def test_file_name_may_be_any_bytes(tmp_path: Path) -> None:
    """A name that is not UTF-8, or holds spaces and quotes, is a name."""
    source = tiny.write_llama(tmp_path / "a.gguf").read_bytes()
    for name in ("é 模型 'x' `y`.gguf".encode(), b"latin-\xe9.gguf"):
        path = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name)))
        try:
            path.write_bytes(source)
        except OSError:
            continue  # a file system that wants UTF-8
        Weights(path, Placement(1)).close()


def test_header_is_read(tmp_path: Path) -> None:
    """Values of every kind are text, long ones are whole, and a missing key is None."""
    long = "é" * 4000
    extra = {"general.name": "Tiny", "test.long": long, "test.flag": True}
    weights = Weights(tiny.write_llama(tmp_path / "a.gguf", context=1234, metadata=extra), Placement(1))
    assert weights.trained_context == 1234
    assert weights.metadata("general.architecture") == "llama"
    assert weights.metadata("general.name") == "Tiny"
    assert weights.metadata("test.long") == long
    assert weights.metadata("test.flag") == "true"
    assert weights.metadata("test.missing") is None
    weights.close()


def test_size_is_that_of_the_weights(tmp_path: Path) -> None:
    """`size_bytes` is the file without its header."""
    path = tiny.write_llama(tmp_path / "a.gguf")
    weights = Weights(path, Placement(1))
    assert 0.8 * path.stat().st_size < weights.size_bytes < path.stat().st_size
    weights.close()


def test_closing_twice_is_fine(tmp_path: Path) -> None:
    """`close` can be called again; what needs the weights then says that they are closed."""
    weights = Weights(tiny.write_llama(tmp_path / "a.gguf"), Placement(1))
    weights.close()
    weights.close()
    with pytest.raises(ValueError, match="closed"):
        LlamaModel(weights, 256)


def test_default_model_loads(weights_of: Any) -> None:
    """The default model says what it is."""
    weights = weights_of("default")
    assert weights.vocab.size == 49152
    assert weights.trained_context == 8192
    assert 0.9 < weights.size_bytes / 98.4e6 < 1
