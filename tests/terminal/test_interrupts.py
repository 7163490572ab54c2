"""Ctrl-C: the text so far, exit code 130, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import COMMAND

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def test_ctrl_c_keeps_the_text_so_far(default_model_path: Path, environment: dict[str, str]) -> None:
    """An interrupt during the reply leaves what was written, and no traceback."""
    options = ["-m", str(default_model_path), "--threads", "1", "-n", "2000", "--mode", "off"]
    with subprocess.Popen([*COMMAND, "generate", "Count to 1000.", *options], env=environment, **QUIET) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert len(first + rest) > 0


def test_ctrl_c_ends_a_json_reply_with_nothing(default_model_path: Path, environment: dict[str, str]) -> None:
    """Half an object is worse than none: with `--json` an interrupt leaves stdout empty."""
    program = (
        "import os, signal, sys\n"
        "from speclocal.jobs import reply\n"
        "write = reply.Reply._write\n"
        "def interrupted(self):\n"
        "    for number, event in enumerate(write(self)):\n"
        "        if number == 3: signal.raise_signal(signal.SIGINT)\n"
        "        yield event\n"
        "reply.Reply._write = interrupted\n"
        "from speclocal.terminal.cli import main\n"
        "main()"
    )
    options = ["-m", str(default_model_path), "--threads", "1", "-n", "20", "--mode", "off", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", program, "generate", "Hi", *options], env=environment, **QUIET, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("function", ["llama_model_load_from_file", "llama_init_from_model"])
def test_ctrl_c_while_a_model_is_loaded_is_not_lost(
    default_model_path: Path, environment: dict[str, str], function: str
) -> None:
    """An interrupt that arrives inside native code, which calls back into Python to log, still ends the command."""
    program = (
        "import os, signal, sys, threading, time\n"
        "import llama_cpp\n"
        f"native = llama_cpp.{function}\n"
        "def load(*arguments):\n"
        "    started = threading.Event()\n"
        "    def interrupt():\n"
        "        started.wait()\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    threading.Thread(target=interrupt).start()\n"
        "    started.set()\n"
        "    return native(*arguments)\n"
        f"llama_cpp.{function} = load\n"
        "from speclocal.terminal.cli import main\n"
        "main()"
    )
    options = ["-m", str(default_model_path), "--threads", "1", "-n", "20", "--mode", "off"]
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program, "generate", "Hi", *options], env=environment, **QUIET, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_ctrl_c_while_the_program_is_imported(environment: dict[str, str]) -> None:
    """An interrupt before the command line is read is no traceback either."""
    program = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'typer': signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from speclocal.__main__ import main\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program, "models"], env=environment, **QUIET, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_sigterm_ends_a_reply_with_a_whole_line(default_model_path: Path, environment: dict[str, str]) -> None:
    """What is ended from outside in the reply leaves whole lines, no traceback, and the code of the signal."""
    options = ["-m", str(default_model_path), "--threads", "1", "-n", "2000", "--mode", "off"]
    with subprocess.Popen([*COMMAND, "generate", "Count to 1000.", *options], env=environment, **QUIET) as process:
        assert process.stdout is not None
        first = process.stdout.read(1)
        process.send_signal(signal.SIGTERM)
        rest, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (128 + signal.SIGTERM, b"")
    assert (first + rest).endswith(b"\n")
