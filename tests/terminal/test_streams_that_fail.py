"""Pipes that close, disks that are full, streams that are not there: quiet ends, and errors in one line."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import COMMAND, SUMMARY, Models, Ran

Shell = Callable[[str], Ran]


@pytest.fixture
def shell(models: Models, environment: dict[str, str]) -> Shell:
    """Run a line of bash; $say is a command that answers, $reply what it answers."""

    def run_line(line: str) -> Ran:
        command = shlex.join([*COMMAND, "generate", "-m", models.target, "--threads", "1", "-n", "8", "hello"])
        script = f'set -o pipefail; say() {{ {command} "$@"; }}; speclocal() {{ {shlex.join(COMMAND)} "$@"; }}; {line}'
        done = subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=models.folder,
            env=environment,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())

    return run_line


def test_a_reader_that_has_enough_ends_the_command_quietly(shell: Shell) -> None:
    """`| head` closes the pipe in the middle: exit code 0, and not a word on stderr."""
    ran = shell("say -n 4000 --stop zzzz | head -c 20")
    assert (ran.code, len(ran.out.encode()) > 0, ran.err) == (0, True, "")
    assert shell("say --json | true").code == 0


def test_a_reader_that_has_enough_of_a_table_ends_it_quietly(shell: Shell) -> None:
    """`models | head` is no failure either."""
    assert shell("speclocal models | head -c 5") == Ran(0, "model", "")


@pytest.mark.parametrize(
    "line",
    ["say > /dev/full", "say --json > /dev/full", "speclocal models > /dev/full", "speclocal --help > /dev/full"],
)
def test_a_full_disk_is_an_error_in_one_line(shell: Shell, line: str) -> None:
    """Output that cannot be written fails with a message."""
    ran = shell(line)
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "No space left on device" in ran.err
    assert "Traceback" not in ran.err


def test_a_closed_stdin_is_an_empty_one(shell: Shell) -> None:
    """Without stdin an argument is answered, and a command that needs stdin says so."""
    ran = shell("say <&-")
    assert ran.code == 0
    assert SUMMARY.fullmatch(ran.err)
    ran = shell("speclocal summarize - -m target.gguf <&-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: there is no standard input\n\nhint: give the name of a file\n"


def test_a_closed_stdout_is_no_traceback(shell: Shell) -> None:
    """With nowhere to write, the command ends; it does not end in a traceback."""
    for options in ("", "--json"):
        assert "Traceback" not in shell(f"say {options} >&-").err


def test_a_closed_stderr_costs_only_the_messages(shell: Shell) -> None:
    """Without stderr, or with one that is full, the text is the same, and an error still has its exit code."""
    answer = shell("say").out
    for nowhere in ("2>&-", "2> /dev/full"):
        assert shell(f"say {nowhere}") == Ran(0, answer, "")
        assert shell(f"say -m zzz {nowhere}") == Ran(2, "", "")


def test_a_cache_that_cannot_be_written_costs_time_only(shell: Shell) -> None:
    """A reply needs no place for its measurements: the cache may be a file, or HOME may lead nowhere."""
    answer = shell("say").out
    for setting in ("SPECLOCAL_CACHE=/dev/null", "SPECLOCAL_CACHE=/proc/none", "SPECLOCAL_CACHE= HOME=/proc/none"):
        ran = shell(f"export {setting}; say")
        assert (ran.code, ran.out) == (0, answer)
        assert SUMMARY.fullmatch(ran.err)


def test_two_commands_at_once_do_not_disturb_each_other(shell: Shell, tmp_path: Path) -> None:
    """Both measure the same model and store it; both answer, and whole measurements remain."""
    answer = shell("say").out
    ran = shell(f"export SPECLOCAL_CACHE={tmp_path}; say > {tmp_path}/a & say > {tmp_path}/b; wait $!")
    assert ran.code == 0
    assert (tmp_path / "a").read_bytes().decode(errors="replace") == answer
    assert (tmp_path / "b").read_bytes().decode(errors="replace") == answer
    assert {file.suffix for file in (tmp_path / "measured").iterdir()} == {".json"}
    assert len(list((tmp_path / "measured").glob("*.calibration.json"))) == 1
