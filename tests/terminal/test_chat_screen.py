"""A chat at a terminal: typing, stopping, commands, and a screen that holds everything once."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import COMMAND, Models
from pty_tools import Terminal, wrapped

COLOURS = "Name three colours."
RIVERS = "And three rivers?"
Talk = Callable[..., Terminal]


@pytest.fixture
def talk(environment: dict[str, str], models: Models, tmp_path: Path) -> Talk:
    """Start a chat with the tiny model, in a home of its own."""

    def start(
        *options: str, model: str | Path = "", columns: int = 80, rows: int = 24, env: dict[str, str] | None = None
    ) -> Terminal:
        command = [*COMMAND, "chat", "-m", str(model or models.target), "--threads", "1", "--mode", "off", *options]
        own = {**environment, "XDG_STATE_HOME": str(tmp_path / "state"), **(env or {})}
        return Terminal(command, columns=columns, rows=rows, env=own, cwd=str(models.folder))

    return start


def say(terminal: Terminal, *lines: str) -> None:
    """Type lines, each when there is a prompt again."""
    for line in lines:
        wait_for_prompt(terminal)
        shown = f"> {line}"[: terminal.screen.columns].rstrip()
        seen = terminal.text.count(shown)
        terminal.type(f"{line}\r")
        terminal.wait_for(lambda shown=shown, seen=seen: terminal.text.count(shown) > seen)  # type: ignore[misc]


def wait_for_prompt(terminal: Terminal) -> None:
    terminal.wait_for(lambda: terminal.row == ">")


def leave(terminal: Terminal) -> None:
    """Press Ctrl-D at the prompt, and see that everything is as it was before."""
    wait_for_prompt(terminal)
    terminal.press("d")
    assert terminal.end() == 0
    assert terminal.whole
    assert terminal.echoes


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (20, 8)])
def test_two_turns_stand_on_the_screen_once(
    talk: Talk, default_model_path: Path, ask: Callable[..., object], columns: int, rows: int
) -> None:
    """Messages, replies and their numbers follow each other; the live line tells mode and context, and goes."""
    first = ask(COLOURS, "-n", "24", "--mode", "off", "--json").json["text"]  # type: ignore[attr-defined]
    with talk("-n", "24", model=default_model_path, columns=columns, rows=rows) as terminal:
        say(terminal, COLOURS)
        if columns == 80:
            terminal.wait_for(
                lambda: re.search(r"\d tokens/s  off  context \d+ of 4096$", terminal.rows[-1]) is not None
            )
        say(terminal, RIVERS)
        leave(terminal)
    text = "\n".join(wrapped(first, columns))
    assert terminal.text.count(f"\n{text}\n") == 1
    assert "".join(terminal.lines).count("24 tokens in") == 2
    assert "tokens/s  off" not in terminal.text
    prompts = [line for line in terminal.lines if line.startswith(">")]
    assert prompts == [f"> {COLOURS}"[:columns].rstrip(), f"> {RIVERS}"[:columns].rstrip(), ">"]


def test_ctrl_c_while_the_prompt_is_read(talk: Talk, default_model_path: Path, tmp_path: Path) -> None:
    """Ctrl-C in the processing of a long file: the chat goes on, and the message is not part of it."""
    (tmp_path / "long.txt").write_text("the quick brown fox jumps over the lazy dog " * 300)
    with talk("-n", "8", model=default_model_path) as terminal:
        say(terminal, f"/file {tmp_path / 'long.txt'}", COLOURS)
        terminal.wait_for(lambda: terminal.rows[-1].startswith("reading the prompt: "))
        terminal.press("c")
        say(terminal, "/stats", COLOURS)
        leave(terminal)
    assert "stopped before the first word: the message is not part of the conversation" in terminal.text
    assert "conversation: 0 exchanges" in terminal.text
    assert "^C" not in terminal.text
    assert terminal.text.count("\n8 tokens in") == 1


def test_ctrl_c_in_a_reply_keeps_its_text(talk: Talk, default_model_path: Path) -> None:
    """The text so far stays on the screen and in the conversation, and the chat goes on."""
    with talk("-n", "2000", model=default_model_path) as terminal:
        say(terminal, "Tell a long story about a ferry.")
        terminal.wait_for(lambda: " tokens/s" in terminal.rows[-1])
        terminal.press("c")
        say(terminal, "/stats")
        leave(terminal)
    assert "stopped: the text so far stays, as a reply that was cut off" in terminal.text
    assert "conversation: 1 exchange" in terminal.lines


def test_typing_during_a_reply_waits_for_the_prompt(talk: Talk, default_model_path: Path) -> None:
    """What is typed while a reply is written does not stand in it, and is there at the next prompt."""
    with talk("-n", "60", model=default_model_path) as terminal:
        say(terminal, "Tell a short story.")
        terminal.wait_for(lambda: " tokens/s" in terminal.rows[-1])
        terminal.type("/undo")
        terminal.wait_for(lambda: terminal.row == "> /undo")
        assert terminal.text.count("/undo") == 1
        terminal.type("\r")
        leave(terminal)
    assert "taken back: Tell a short story." in terminal.text


def test_commands_change_the_next_reply(talk: Talk) -> None:
    """`/mode`, `/temp`, `/seed` and `/undo` say what they did, and the conversation goes on."""
    with talk("-n", "8") as terminal:
        say(terminal, "hello", "/mode lookup 4", "/temp 0.8", "/seed 7", "the cat", "/undo", "/stats")
        leave(terminal)
    assert "mode lookup (drafts of 4), temperature 0.800, seed 7" in terminal.text
    assert "taken back: the cat" in terminal.text
    assert "conversation: 1 exchange" in terminal.lines
    assert re.search(r"prompt: \d\d+ of \d+ tokens were in the cache", terminal.text)


def test_an_unknown_command_suggests_the_nearest(talk: Talk) -> None:
    """A mistyped command is not sent to the model."""
    with talk() as terminal:
        say(terminal, "/mod off")
        leave(terminal)
    assert "error: there is no command `/mod`" in terminal.text
    assert "did you mean `/mode`?" in terminal.text
    assert "tokens in" not in terminal.text


def test_a_full_context_is_said(talk: Talk) -> None:
    """When the oldest exchanges go, one line says so; a message that cannot fit is refused, and the chat lives."""
    with talk("-n", "40", "--ctx", "256") as terminal:
        say(terminal, *[f"the cat and the tree {number}" for number in range(8)], "/edit " + "cat " * 300, "/undo")
        leave(terminal)
    assert re.search(r"the context is full: the (oldest exchange is|\d oldest exchanges are) forgotten", terminal.text)
    joined = "".join(terminal.lines)
    assert re.search(r"error: the prompt has \d+ tokens, the context holds 256", joined)
    assert "taken back: the cat and the tree 7" in joined


def test_ctrl_c_at_the_prompt_asks_for_a_second_one(talk: Talk) -> None:
    """With a text it gives the text up; without one it says how to leave, and the second one leaves."""
    with talk("-n", "4") as terminal:
        wait_for_prompt(terminal)
        terminal.type("never sent")
        terminal.wait_for(lambda: terminal.row == "> never sent")
        terminal.press("c")
        wait_for_prompt(terminal)
        assert "leaves the chat" not in terminal.text
        terminal.press("c")
        terminal.wait_for(lambda: "Ctrl-C again or Ctrl-D leaves the chat" in terminal.text)
        say(terminal, "hello")
        wait_for_prompt(terminal)
        terminal.press("c")
        terminal.wait_for(lambda: terminal.text.count("Ctrl-C again") == 2)
        wait_for_prompt(terminal)
        terminal.press("c")
        assert terminal.end() == 0
    assert terminal.whole
    assert terminal.text.count("\n4 tokens in") == 1


def test_a_message_may_have_several_lines(talk: Talk) -> None:
    """Alt-Enter and a paste begin new lines; Enter sends them all."""
    with talk("-n", "4") as terminal:
        wait_for_prompt(terminal)
        terminal.type("one\x1b\rtwo \x1b[200~three\r\nfour\x1b[201~\r")
        say(terminal, "/undo")
        leave(terminal)
    assert "taken back: one two three four" in terminal.text


def test_the_last_message_can_be_edited(talk: Talk) -> None:
    """`/edit` puts it back into the line; what is sent takes its place, and Ctrl-C leaves it as it was."""
    with talk("-n", "4") as terminal:
        say(terminal, "the cat", "/edit")
        terminal.wait_for(lambda: terminal.row == "> the cat")
        terminal.type(" and the tree\r")
        wait_for_prompt(terminal)
        terminal.type("/edit\r")
        terminal.wait_for(lambda: terminal.row == "> the cat and the tree")
        terminal.press("c")
        say(terminal, "/undo", "/stats")
        leave(terminal)
    assert "taken back: the cat and the tree" in terminal.text
    assert "conversation: 0 exchanges" in terminal.text


def test_lines_are_remembered_and_commands_completed(talk: Talk) -> None:
    """The next chat knows the lines of the last; Tab completes a command."""
    with talk("-n", "4") as terminal:
        say(terminal, "the cat")
        leave(terminal)
    with talk("-n", "4") as terminal:
        wait_for_prompt(terminal)
        terminal.type("\x1b[A")
        terminal.wait_for(lambda: terminal.row == "> the cat")
        terminal.press("c")
        wait_for_prompt(terminal)
        terminal.type("/sta\t")
        terminal.wait_for(lambda: terminal.row.startswith("> /stats"))
        terminal.press("c")
        leave(terminal)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("place", ["the prompt", "a reply"])
def test_a_chat_that_is_ended_gives_the_terminal_back(
    talk: Talk, default_model_path: Path, name: str, place: str
) -> None:
    """`kill` leaves a terminal in which all rows scroll, and which shows what is typed."""
    with talk("-n", "2000", model=default_model_path) as terminal:
        wait_for_prompt(terminal)
        if place == "a reply":
            say(terminal, "Tell a long story about a ferry.")
            terminal.wait_for(lambda: " tokens/s" in terminal.rows[-1])
        terminal.kill(signal.Signals[name])
        assert terminal.end() in (-signal.Signals[name], 128 + signal.Signals[name])
        assert terminal.echoes
    assert terminal.whole
    assert "Traceback" not in terminal.text


def test_a_simple_terminal_gets_no_escape_codes(talk: Talk) -> None:
    """With TERM=dumb there is a prompt and no line editor, and Ctrl-D leaves."""
    with talk("-n", "4", env={"TERM": "dumb"}) as terminal:
        say(terminal, "the cat", "/nothing")
        wait_for_prompt(terminal)
        terminal.press("d")
        assert terminal.end() == 0
    assert b"\x1b" not in terminal.written
    assert "4 tokens in" in terminal.text


def test_replies_go_where_stdout_goes(environment: dict[str, str], models: Models, tmp_path: Path) -> None:
    """With stdout in a file the prompt stays on the terminal, and the file holds replies only."""
    chat = f"{' '.join(COMMAND)} chat -m {models.target} --threads 1 --mode off -n 8 > {tmp_path / 'text'}"
    with Terminal(["bash", "-c", chat], env=environment, cwd=str(models.folder)) as terminal:
        say(terminal, "hello", "/stats")
        leave(terminal)
    text = (tmp_path / "text").read_bytes()
    assert text.endswith(b"\n")
    assert b">" not in text.split(b"\n")[0][:2]
    assert b"\x1b[" not in text
    assert "8 tokens in" in terminal.text


def test_a_new_size_between_and_within_replies(talk: Talk, default_model_path: Path) -> None:
    """After a resize at the prompt and in a reply, the text is whole and the live line gone."""
    with talk("-n", "60", model=default_model_path) as terminal:
        wait_for_prompt(terminal)
        terminal.resize(60, 12)
        say(terminal, "Tell a short story.")
        terminal.wait_for(lambda: " tokens/s" in terminal.rows[-1])
        terminal.resize(100, 20)
        say(terminal, "/stats")
        leave(terminal)
    assert "conversation: 1 exchange" in terminal.lines
    assert " off  context " not in terminal.text


def test_a_chat_that_is_put_aside_goes_on_where_it_was(environment: dict[str, str], models: Models) -> None:
    """Ctrl-Z at the prompt gives the shell its terminal back, and `fg` the chat what was typed."""
    command = f"{' '.join(COMMAND)} chat -m {models.target} --threads 1 --mode off -n 4"
    with Terminal(["bash", "--norc", "-i"], env={**environment, "PS1": "shell$ "}, cwd=str(models.folder)) as terminal:
        terminal.wait_for(lambda: terminal.row == "shell$")
        terminal.type(f"{command}\r")
        wait_for_prompt(terminal)
        terminal.type("the cat")
        terminal.wait_for(lambda: terminal.row == "> the cat")
        terminal.press("z")
        terminal.wait_for(lambda: terminal.row == "shell$")
        assert terminal.whole
        terminal.type("echo $((6 * 7)); fg\r")
        terminal.wait_for(lambda: "42" in terminal.lines and terminal.row == "> the cat")
        terminal.type("\r")
        terminal.wait_for(lambda: "4 tokens in" in terminal.text)
        wait_for_prompt(terminal)
        terminal.press("d")
        terminal.wait_for(lambda: terminal.row == "shell$")
        terminal.type("exit $?\r")
        assert terminal.end() == 0


@pytest.mark.parametrize("command", ["chat", "generate"])
def test_a_stdout_that_lacks_a_character_gets_another(
    environment: dict[str, str], models: Models, tmp_path: Path, command: str
) -> None:
    """In an old encoding the text is whole but for what it cannot say, and nothing fails."""
    old = {**environment, "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    asked = "generate hello" if command == "generate" else "chat"
    line = f"echo hello | {' '.join(COMMAND)} {asked} -m {models.target} --threads 1 --mode off -t 1.5 --seed 3 -n 60"
    with Terminal(["bash", "-c", f"{line} > {tmp_path / 'text'}"], env=old, cwd=str(models.folder)) as terminal:
        assert terminal.end() == 0
    text = (tmp_path / "text").read_bytes()
    assert text.isascii()
    assert len(text) > 60
    assert "Traceback" not in terminal.text
