"""The command line as people run it: a process with its own empty home, and models that answer in milliseconds."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import ggufs
import pytest
import tiny
from commands import COMMAND, Models, Ran, Run


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    found = Models(tmp_path_factory.mktemp("models"))
    tiny.write_llama(found.folder / found.target)
    tiny.write_llama(found.folder / found.draft, noise=0.05)
    tiny.write_llama(found.folder / found.stranger, tiny.bpe(words=(" quick", " brown", " fox")))
    tiny.write_llama(found.folder / found.sentencepiece, tiny.spm())
    tiny.write_recurrent(found.folder / found.recurrent)
    tiny.write_llama(found.folder / found.short, context=64)
    tiny.cut_off(found.folder / found.cut, found.folder / found.target)
    (found.folder / found.unloadable).write_bytes(ggufs.model())
    (found.folder / found.page).write_text("<!DOCTYPE html><title>not found</title>")
    return found


@pytest.fixture(scope="session")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment without the settings of whoever runs the tests; measurements are shared by all tests."""
    home = tmp_path_factory.mktemp("home")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "PYTHONPATH", "LANG", "LC_ALL")}
    return {
        **kept,
        "HOME": str(home),
        "SPECLOCAL_CACHE": str(home / "cache"),
        "HF_HUB_OFFLINE": "1",
        "TERM": "xterm-256color",
        "PYTHONUTF8": "1",
    }


@pytest.fixture(scope="session")
def run(models: Models, environment: dict[str, str]) -> Run:
    """Run a command in the folder of the tiny models, without a terminal."""

    def run_command(
        *arguments: str | bytes, stdin: bytes = b"", env: dict[str, str] | None = None, **kwargs: Any
    ) -> Ran:
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            cwd=kwargs.pop("cwd", models.folder),
            env={**environment, **(env or {})},
            timeout=kwargs.pop("timeout", 120),
            check=False,
            **kwargs,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run_command


@pytest.fixture(scope="session")
def generate(run: Run, models: Models) -> Run:
    """Run `generate` on the tiny target, a short reply with one thread; later options overrule."""

    def run_generate(*arguments: str | bytes, **kwargs: Any) -> Ran:
        return run("generate", "-m", models.target, "--threads", "1", "-n", "8", *arguments, **kwargs)

    return run_generate


@pytest.fixture(scope="session")
def ask(run: Run, default_model_path: Path) -> Run:
    """Run `generate` on the real default model, with one thread."""

    def run_generate(*arguments: str | bytes, **kwargs: Any) -> Ran:
        return run("generate", "-m", str(default_model_path), "--threads", "1", *arguments, **kwargs)

    return run_generate
