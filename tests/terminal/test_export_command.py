"""`export` prints one command that a shell takes back apart as it was meant."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import tiny
from commands import Models, Run


@pytest.mark.parametrize("server", ["llama-server", "vllm"])
def test_a_path_with_spaces_and_quotes_survives_the_shell(server: str, run: Run, tmp_path: Path) -> None:
    """stdout is one line that a shell splits into the words of `--json`; everything else is stderr."""
    odd = tiny.write_llama(tmp_path / "it's a $model.gguf")
    ran = run("export", "--to", server, "-m", str(odd), "-d", str(odd))
    words = shlex.split(ran.out)
    assert ran.code == 0
    assert ran.out.count("\n") == 1
    assert str(odd) in words
    assert "the draft length is a usual one, not tuned" in ran.err
    told = run("export", "--to", server, "-m", str(odd), "-d", str(odd), "--json")
    assert told.err == ""
    assert told.json["words"] == words
    assert told.json["command"] == ran.out.rstrip("\n")
    assert told.json["tuning"]["measured"] is False


def test_no_model_is_loaded(run: Run, models: Models) -> None:
    """A file that llama.cpp cannot load is exported like any other: only a server would notice."""
    ran = run("export", "--to", "vllm", "-m", models.unloadable, "-g", "2")
    assert ran.code == 0
    assert json.loads(shlex.split(ran.out)[-1])["num_speculative_tokens"] == 2


def test_a_server_may_have_other_devices(run: Run, models: Models) -> None:
    """Layers for a GPU are exported from a machine without one."""
    ran = run("export", "--to", "llama-server", "-m", models.target, "--gpu-layers", "99", "--rpc", "one,two:1")
    assert ran.code == 0
    assert " -ngl 99 --rpc one:50052,two:1 " in ran.out


def test_a_measured_pair_is_tuned(run: Run, models: Models) -> None:
    """What `calibrate` keeps is what `export` finds."""
    placed = ("-m", models.target, "-d", models.draft, "--threads", "1")
    assert run("calibrate", *placed).code == 0
    assert run("export", "--to", "llama-server", *placed, "--json").json["tuning"]["measured"] is True


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing option `--to`"),
        (("--to", "ollama"), "invalid value for `--to`"),
        (("--to", "vllm", "-g", "0"), "invalid value for `--num-draft-tokens`"),
        (("--to", "vllm", "-m", "zzz"), "no model or pair is called `zzz`"),
    ],
)
def test_a_wrong_export_is_refused(arguments: tuple[str, ...], message: str, run: Run) -> None:
    ran = run("export", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: {message}")
