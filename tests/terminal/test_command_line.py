"""The command line around the jobs: help, version, the list of models, and what starting it costs."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

from commands import Run

import speclocal
from speclocal.decoding.types import SamplingParams
from speclocal.jobs.reply import ReplySettings
from speclocal.terminal.options import ModelOptions, ReplyOptions


def test_the_version_is_one_line(run: Run) -> None:
    """`--version` prints the name and the version of the package."""
    ran = run("--version")
    assert (ran.code, ran.out, ran.err) == (0, f"speclocal {speclocal.__version__}\n", "")


def test_help_tells_of_every_command_and_option(run: Run) -> None:
    """`--help` lists the commands; a command's help lists all its options and their short names."""
    ran = run("--help")
    assert (ran.code, ran.err) == (0, "")
    assert all(
        f"\u2502 {command} " in ran.out for command in ("generate", "summarize", "chat", "cache", "models", "pull")
    )
    told = run("generate", "--help", env={"COLUMNS": "200"}).out
    for field in dataclasses.fields(ReplyOptions):
        assert f"--{field.name.replace('_', '-')} " in told
    assert all(f" {short} " in told for short in ("-m", "-d", "-g", "-n", "-t", "-h"))


def test_a_command_takes_only_options_that_mean_something_to_it(run: Run) -> None:
    """`calibrate` writes no reply, and takes no option that is about one."""
    told = run("calibrate", "--help", env={"COLUMNS": "200"}).out
    own = {field.name for field in dataclasses.fields(ModelOptions)}
    for field in dataclasses.fields(ReplyOptions):
        assert (f"--{field.name.replace('_', '-')} " in told) == (field.name in own)


def test_the_catalogue_can_be_read_by_programs(run: Run) -> None:
    """`models --json` prints the same list as one object."""
    listed = run("models", "--json").json
    assert listed["models"][0]["name"] == "smollm2-135m"
    assert all(model["path"] is None for model in listed["models"])
    assert {"name": "qwen2.5-coder", "target": "qwen2.5-coder-1.5b", "draft": "qwen2.5-coder-0.5b"}.items() <= listed[
        "pairs"
    ][0].items()


def test_help_and_version_import_nothing_heavy(environment: dict[str, str]) -> None:
    """Asking for help loads neither numpy nor llama.cpp nor the network."""
    program = (
        "import sys\nsys.argv = ['speclocal', *sys.argv[1:]]\n"
        "from speclocal.terminal.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'llama_cpp', 'huggingface_hub', 'jinja2', 'httpx', 'pypdf', 'lxml'} & set(sys.modules)\n"
        "print(sorted(heavy), file=sys.stderr)"
    )
    for arguments in (["--version"], ["--help"], ["generate", "--help"], ["summarize", "-h"], []):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, env=environment, text=True, check=True
        )
        assert done.stderr.splitlines()[-1] == "[]"


def test_the_options_default_to_the_settings() -> None:
    """A command without options asks for what the jobs do by themselves."""
    assert ReplyOptions().settings() == ReplySettings()
    assert ReplyOptions().settings().params == SamplingParams()


def test_models_lists_the_catalogue(run: Run) -> None:
    """`models` prints a table of models and one of pairs; with an empty cache none is on disk."""
    ran = run("models")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.split("\n")[0].split("  ")[0] == "model"
    assert "smollm2-135m (default)  98.4 MB  Q4_1          ?        Apache-2.0" in ran.out
    assert "qwen2.5-coder  qwen2.5-coder-1.5b  qwen2.5-coder-0.5b  no" in ran.out
    assert " yes" not in ran.out
    assert "\x1b" not in ran.out


def test_lines_of_a_table_end_with_their_text(run: Run) -> None:
    """Without a terminal no line is padded with spaces, and a table is parted from the next by an empty line."""
    lines = run("models").out.split("\n")
    assert [line for line in lines if line != line.rstrip()] == []
    assert "" in lines[:-1]


def test_a_downloaded_model_is_on_disk(run: Run, default_model_path: Path) -> None:
    """A model whose file is in the cache is marked."""
    ran = run("models", env={"SPECLOCAL_CACHE": str(default_model_path.parent.parent)})
    line = next(line for line in ran.out.splitlines() if line.startswith("smollm2-135m"))
    assert line.split()[-1] == "yes"
