"""A chat without a terminal: lines are messages, stdout holds the replies, and the end of the input ends it."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, SUMMARY, Models, Ran, Run

NAMES = (
    *("help", "mode", "draft", "stats", "system", "temp", "seed", "undo"),
    *("retry", "edit", "save", "load", "file", "reset", "quit"),
)
OPTIONS = ("--kv-type", "bf16", "--threads", "1", "-n", "8", "--mode", "off")


@pytest.fixture
def chat(run: Run, models: Models) -> Run:
    """Pipe lines into a chat with the tiny model, whose cache is such that passes of every width give the same bits."""

    def run_chat(*lines: str, options: tuple[str, ...] = (), end: str = "\n") -> Ran:
        stdin = "\n".join(lines) + end
        return run("chat", "-m", models.target, *OPTIONS, *options, stdin=stdin.encode())

    return run_chat


def objects(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


def test_lines_are_messages(chat: Run) -> None:
    """Two lines, two replies, a newline after each; nothing else on stdout, two summaries on stderr, exit code 0."""
    told = objects(chat("hello", "the cat", options=("--json",)))
    for end in ("\n", ""):
        ran = chat("hello", "", "the cat", end=end)
        assert (ran.code, ran.out) == (0, "".join(f"{reply['text']}\n" for reply in told))
        first, second = [line for line in ran.err.splitlines() if not line.startswith("cut off")]
        assert SUMMARY.fullmatch(first + "\n")
        assert SUMMARY.fullmatch(second + "\n")
        assert "\x1b" not in ran.out + ran.err
    assert told[1]["prompt_tokens"] > told[0]["prompt_tokens"] + 8


def test_windows_lines_are_lines(chat: Run) -> None:
    """CRLF and a byte order mark are no part of a message."""
    assert chat("hello", "the cat").out == chat("\ufeffhello\r", "the cat\r").out


def test_no_input_is_no_chat(chat: Run) -> None:
    """An empty pipe ends at once."""
    ran = chat(end="")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_commands_work_in_a_pipe(chat: Run) -> None:
    """What goes wrong is said on stderr, and the next line is answered."""
    plain = objects(chat("the tree", options=("--json",)))
    ran = chat("hello", "/undo", "/mod", "/mode draft", "/edit", "the tree", "/quit", "never", options=("--json",))
    assert ran.code == 0
    assert [reply["token_ids"] for reply in objects(ran)][1:] == [plain[0]["token_ids"]]
    for said in (
        "taken back: hello\n",
        "error: there is no command `/mod`\n\nhint: did you mean `/mode`? ",
        "error: mode `draft` needs a draft model\n",
        "error: nothing has been said yet\n",
    ):
        assert said in ran.err


def test_another_model_may_draft(chat: Run, models: Models) -> None:
    """`/draft` and `/mode` change who drafts in the middle of a conversation, and not a token of it."""
    plain = objects(chat("hello", "the cat", options=("--json",)))
    switched = chat("hello", f"/draft {models.draft}", "/mode draft 3", "the cat", options=("--json",))
    refused = chat(f"/draft {models.stranger}", "/draft nobody", "/draft", options=("--json",))
    assert [reply["token_ids"] for reply in objects(switched)] == [reply["token_ids"] for reply in plain]
    assert [(reply["mode"], reply["draft"]) for reply in objects(switched)] == [("off", None), ("draft", models.draft)]
    assert objects(switched)[1]["stats"]["drafted"] > 0
    assert refused.code == 0
    assert f"error: `{models.stranger}` cannot draft for `{models.target}`: " in refused.err
    assert "error: no model or pair is called `nobody`\n" in refused.err
    assert refused.err.endswith("draft model: none\n")


def test_a_message_may_begin_like_a_command(chat: Run) -> None:
    """After a space, or where it is no word, a slash begins a message."""
    assert len(objects(chat(" /undo", "/usr/bin/env", "/", options=("--json",)))) == 3


def test_a_message_that_cannot_fit_is_refused_and_the_chat_lives(chat: Run) -> None:
    """One error with both numbers, then the next reply."""
    ran = chat("cat " * 400, "hello", options=("--ctx", "256", "--json"))
    assert ran.code == 0
    assert "tokens, the context holds 256\n" in ran.err
    assert [reply["token_ids"] for reply in objects(ran)] == [
        reply["token_ids"] for reply in objects(chat("hello", options=("--json",)))
    ]


def test_a_chat_is_taken_up_again(chat: Run, models: Models, tmp_path: Path) -> None:
    """A chat that was saved and loaded by another process goes on as one that never ended."""
    whole = objects(chat("hello", "/temp 0.8", "/seed 3", "the cat", "the tree", options=("--json",)))
    place = tmp_path / "my chat.json"
    first = chat("hello", "/temp 0.8", "/seed 3", "the cat", f"/save {place}", options=("--json",))
    second = chat(f"/load {place}", "the tree", options=("--json",))
    assert f"saved to {place}\n" in first.err
    assert "conversation: 2 exchanges\nmode off, temperature 0.800, seed 3\n" in second.err
    told = [reply["token_ids"] for reply in (*objects(first), *objects(second))]
    assert told == [reply["token_ids"] for reply in whole]


def test_a_file_goes_with_the_next_message(chat: Run, tmp_path: Path) -> None:
    """`/file` reads a text, says so, and the next message holds it; what is no text is refused."""
    (tmp_path / "notes.txt").write_text("the cat and the tree\n" * 10)
    ran = chat(f"/file {tmp_path / 'notes.txt'}", "return", "hello", f"/file {tmp_path}", "/file", options=("--json",))
    first, second = objects(ran)
    assert "`notes.txt` goes with your next message: 210 characters\n" in ran.err
    assert first["prompt_tokens"] > objects(chat("return", options=("--json",)))[0]["prompt_tokens"] + 40
    assert second["stats"]["prompt_reused"] > 40
    assert f"error: `{tmp_path}` is a directory\n" in ran.err
    assert "error: which file?\n" in ran.err


def test_the_system_message_is_part_of_every_prompt(chat: Run) -> None:
    """`--system` and `/system` say the same."""
    option = objects(chat("hello", options=("--json", "--system", "the cat")))
    command = objects(chat("/system the cat", "hello", options=("--json",)))
    none = objects(chat("/system the cat", "/system off", "hello", options=("--json",)))
    assert option[0]["token_ids"] == command[0]["token_ids"]
    assert option[0]["prompt_tokens"] == command[0]["prompt_tokens"] > none[0]["prompt_tokens"]


def test_help_lists_every_command(chat: Run) -> None:
    """All commands of the chat, each on a line."""
    told = chat("/help").err
    names = [line.split()[0] for line in told.splitlines() if line.startswith("/")]
    assert names == [f"/{name}" for name in NAMES]


def test_a_chat_cannot_be_raw(chat: Run) -> None:
    """`--raw` is refused before a model is loaded."""
    ran = chat("hello", options=("--raw", "-m", "cut.gguf"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "error: a chat has turns, and `--raw` has none\n\nhint: use `speclocal generate --raw`\n"


def test_a_reader_that_has_enough_ends_it_quietly(run: Run, models: Models, environment: dict[str, str]) -> None:
    """`| head -n 1` is no error."""
    command = f"yes hello | {' '.join(COMMAND)} chat -m {models.target} {' '.join(OPTIONS)} | head -n 1"
    done = subprocess.run(
        ["bash", "-c", command], env=environment, cwd=models.folder, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0
    assert b"error" not in done.stderr
    assert b"Traceback" not in done.stderr


def test_ctrl_c_in_a_pipe_ends_the_chat(default_model_path: Path, environment: dict[str, str]) -> None:
    """Where nobody types, an interrupt is no wish for another reply: the text so far, and exit code 130."""
    command = [*COMMAND, "chat", "-m", str(default_model_path), "--threads", "1", "-n", "2000", "--mode", "off"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"Tell a long story about a ferry.\nAnother one.\n")
        process.stdin.flush()
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert (first + rest).endswith(b"\n")
