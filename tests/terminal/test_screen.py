"""What a person sees: text that is only ever appended, one live line under it, and a terminal left as it was found."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import COMMAND, SUMMARY, Models, Run
from pty_tools import Terminal, wrapped

STORY = "Tell a short story about a ferry."
SHOW = str(Path(__file__).with_name("show.py"))
Show = Callable[..., Terminal]


@pytest.fixture
def show(environment: dict[str, str], tmp_path: Path) -> Show:
    """Start a terminal that shows scripted pieces: each a text and a fate, `wait` or `error`."""

    def start(
        *pieces: tuple[str, str], columns: int = 80, rows: int = 24, env: dict[str, str] | None = None, **asked: object
    ) -> Terminal:
        command = [sys.executable, SHOW, json.dumps({"pieces": pieces, **asked})]
        return Terminal(command, columns=columns, rows=rows, env={**environment, **(env or {})}, cwd=str(tmp_path))

    return start


@pytest.fixture(scope="module")
def story(ask: Run) -> str:
    """What the default model tells, 80 tokens of it."""
    text: str = ask(STORY, "-n", "80", "--mode", "off", "--json").json["text"]
    return text


def tell(model: Path, *options: str) -> list[str]:
    return [*COMMAND, "generate", STORY, "-m", str(model), "--threads", "1", "-n", "80", "--mode", "off", *options]


def assert_ends_with_summary(lines: list[str], columns: int) -> None:
    """The rest of the screen is one summary line, wrapped by the terminal."""
    padded = [line.ljust(columns) for line in lines[:-1]]
    assert SUMMARY.fullmatch("".join([*padded, *lines[-1:]]) + "\n"), lines


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (20, 5)])
def test_the_screen_holds_the_text_once_and_the_summary(
    default_model_path: Path, environment: dict[str, str], story: str, columns: int, rows: int
) -> None:
    """The whole text stands on and above the screen exactly once, wrapped by the terminal; the live line is gone."""
    with Terminal(tell(default_model_path), columns=columns, rows=rows, env=environment) as terminal:
        terminal.wait_for(lambda: terminal.rows[-1].startswith("reading the prompt:"))
        terminal.wait_for(
            lambda: re.match(r"\d+ tokens  [\d.]+ tokens/s"[: columns - 8], terminal.rows[-1]) is not None
        )
        assert terminal.screen.margins is not None
        assert terminal.end() == 0
    expected = wrapped(story, columns)
    assert terminal.lines[: len(expected)] == expected
    assert_ends_with_summary(terminal.lines[len(expected) :], columns)
    assert terminal.whole


def test_drafted_tokens_are_green_and_the_text_is_the_same(
    default_model_path: Path, environment: dict[str, str], story: str
) -> None:
    """`--show-drafts` colours accepted tokens; the characters on the screen are those of plain decoding."""
    command = tell(default_model_path, "--show-drafts", "-d", str(default_model_path), "--mode", "draft")
    with Terminal(command, env=environment) as terminal:
        assert terminal.end() == 0
    expected = wrapped(story, 80)
    assert terminal.lines[: len(expected)] == expected
    shown = [cell for y in range(len(expected)) for cell in terminal.screen.buffer[y].values() if cell.data.strip()]
    green = [cell for cell in shown if cell.fg == "green"]
    assert len(shown) * 0.6 < len(green) < len(shown)
    assert terminal.whole


def test_ctrl_c_gives_the_terminal_back(default_model_path: Path, environment: dict[str, str]) -> None:
    """Ctrl-C in the reply: exit code 130, the text so far, no live line, and all rows scroll again."""
    with Terminal(tell(default_model_path, "-n", "2000"), columns=40, rows=10, env=environment) as terminal:
        terminal.wait_for(lambda: " tokens/s" in terminal.rows[-1])
        terminal.press("c")
        assert terminal.end() == 130
    assert terminal.whole
    assert "tokens/s" not in terminal.text
    assert "Traceback" not in terminal.text
    assert terminal.lines


def test_ctrl_c_while_the_prompt_is_read(default_model_path: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Ctrl-C while a long file is read: exit code 130, and a clean screen."""
    (tmp_path / "long.txt").write_text("the quick brown fox jumps over the lazy dog " * 600)
    options = ["-m", str(default_model_path), "--threads", "1", "--mode", "off"]
    with Terminal([*COMMAND, "summarize", str(tmp_path / "long.txt"), *options], env=environment) as terminal:
        terminal.wait_for(lambda: terminal.rows[-1].startswith("reading the prompt: "))
        terminal.press("c")
        assert terminal.end() == 130
    assert terminal.whole
    assert [line for line in terminal.lines if line not in ("", "^C")] == []


def test_an_error_in_the_reply_gives_the_terminal_back(show: Show) -> None:
    """What was written stays, the error begins a line of its own, and the live line is gone."""
    with show(("some text", "own"), ("it broke", "error"), rows=8) as terminal:
        assert terminal.end() == 0
    assert terminal.lines == ["some text", "error: it broke", "", "hint: try again"]
    assert terminal.whole


def test_the_live_line_follows_a_new_size(show: Show, tmp_path: Path) -> None:
    """After a resize the live line is drawn on the new last row, and the end leaves nothing of the old one."""
    before = [(f"line {i}\n", "own") for i in range(30)]
    after = [(f"more {i}\n", "own") for i in range(30)]
    with show(*before, ("", "wait"), *after, pause=0.02, rows=10, columns=40) as terminal:
        terminal.wait_for(lambda: "line 29" in terminal.text and "tokens/s" in terminal.rows[-1])
        terminal.resize(140, 20)
        (tmp_path / "go").touch()
        terminal.wait_for(lambda: terminal.rows[-1].startswith("7 tokens  7.00 tokens/s"))
        assert terminal.end() == 0
    assert terminal.lines[-31:-1] == [f"more {i}" for i in range(30)]
    assert terminal.lines[-1].startswith("7 tokens in 1.00 s: 7.00 tokens/s")
    assert [line for line in terminal.lines[:-1] if "tokens/s" in line] == []
    assert terminal.whole


def test_the_size_is_that_of_the_terminal_not_of_stdout(
    show: Show, environment: dict[str, str], tmp_path: Path
) -> None:
    """With the text in a file the live line still stands on the last row of the terminal that stderr is."""
    script = json.dumps({"pieces": [["text", "own"], ["", "wait"], ["end", "own"]]})
    command = ["bash", "-c", f"{sys.executable} {SHOW} '{script}' > text"]
    with Terminal(command, rows=30, columns=60, env=environment, cwd=str(tmp_path)) as terminal:
        terminal.wait_for(lambda: "reading the prompt" in terminal.text)
        assert terminal.rows[-1].startswith("reading the prompt: 5 of 5 tokens")
        (tmp_path / "go").touch()
        assert terminal.end() == 0
    assert (tmp_path / "text").read_text() == "textend\n"
    assert len(terminal.lines) == 2  # the summary, in two rows of 60 columns


def test_a_long_reply_can_be_scrolled_through_whole(show: Show) -> None:
    """Of 500 lines, with blank ones among them, none is lost or doubled while they scroll away over the live line."""
    lines = [f"line {number} " + "word " * (number % 9) if number % 10 else "" for number in range(1, 501)]
    pieces = [(f"{line}\n", "own") for line in lines]
    with show(*pieces, columns=30, rows=12) as terminal:
        assert terminal.end() == 0
    expected = wrapped("\n".join(lines), 30)
    assert terminal.lines[: len(expected)] == expected
    assert_ends_with_summary(terminal.lines[len(expected) :], 30)


def test_no_character_is_lost_at_the_right_margin(show: Show) -> None:
    """The live line, drawn while a row is just full, does not cost the character in the last column."""
    pieces = [
        ("abcdefghijklmnopqrst", "own"),
        ("UVW", "own"),
        ("x" * 17, "own"),
        ("YZ\n", "own"),
        ("1" * 20, "own"),
        ("\n2", "own"),
    ]
    with show(*pieces, pause=0.15, columns=20, rows=20) as terminal:
        terminal.wait_for(lambda: terminal.rows[-1].startswith("7 tokens  7.00"))
        assert terminal.end() == 0
    assert terminal.lines[:5] == ["abcdefghijklmnopqrst", "UVW" + "x" * 17, "YZ", "1" * 20, "2"]


def test_control_characters_are_shown_not_obeyed(show: Show) -> None:
    """Model text with escape sequences, bells and carriage returns changes nothing but the characters shown."""
    with show(("a\x1b[31mred\x1b[2J\x07\r\x7f\x9b1mb [bold]c[/bold]", "own")) as terminal:
        assert terminal.end() == 0
    assert terminal.lines[0] == "a\u241b[31mred\u241b[2J\u2407\u240d\u2421\ufffd1mb [bold]c[/bold]"
    assert terminal.whole


def test_control_characters_are_kept_outside_a_terminal(
    show: Show, environment: dict[str, str], tmp_path: Path
) -> None:
    """A file gets the text as the model wrote it."""
    script = json.dumps({"pieces": [["a\x1b[31mb", "own"]]})
    command = ["bash", "-c", f"{sys.executable} {SHOW} '{script}' > text"]
    with Terminal(command, env=environment, cwd=str(tmp_path)) as terminal:
        assert terminal.end() == 0
    assert (tmp_path / "text").read_text() == "a\x1b[31mb\n"


def test_a_simple_terminal_gets_no_escape_codes(show: Show) -> None:
    """With TERM=dumb, a terminal that nobody knows, or no TERM, what is written is text."""
    for term in ("dumb", "unknown", ""):
        with show(("one ", "own"), ("two", "accepted"), show_drafts=True, env={"TERM": term}) as terminal:
            assert terminal.end() == 0
        assert b"\x1b" not in terminal.written
        assert terminal.lines[0] == "one two"


def test_no_color_means_no_colours(show: Show) -> None:
    """With NO_COLOR nothing is coloured, drafts neither."""
    pieces = (("one ", "own"), ("two", "accepted"), ("bad", "error"))
    with show(*pieces, show_drafts=True, env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
    assert re.findall(rb"\x1b\[[\d;]*m", terminal.written) != []
    assert [
        code for code in re.findall(rb"\x1b\[([\d;]*)m", terminal.written) if re.search(rb"\b[349]\d\b", code)
    ] == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_command_that_is_ended_gives_the_terminal_back(show: Show, name: str) -> None:
    """`kill` leaves a terminal in which all rows scroll, and a command that ended by a signal."""
    with show(("text", "own"), ("", "wait"), rows=8) as terminal:
        terminal.wait_for(lambda: terminal.rows[0] == "text" and terminal.screen.margins is not None)
        terminal.kill(signal.Signals[name])
        assert terminal.end() in (-signal.Signals[name], 128 + signal.Signals[name])
    assert terminal.whole


def test_a_stopped_command_gives_the_terminal_back_until_it_goes_on(show: Show, tmp_path: Path) -> None:
    """Ctrl-Z leaves a terminal in which all rows scroll; after `fg` the live line is drawn again."""
    with show(("text", "own"), ("", "wait"), *[(" more", "own")] * 9, pause=0.05, rows=8) as terminal:
        terminal.wait_for(lambda: terminal.rows[0] == "text" and terminal.screen.margins is not None)
        terminal.press("z")
        terminal.wait_for(lambda: terminal.whole)
        (tmp_path / "go").touch()
        terminal.kill(signal.SIGCONT)
        terminal.wait_for(lambda: terminal.rows[-1].startswith("7 tokens  7.00 tokens/s"))
        assert terminal.end() == 0
    assert terminal.lines[0].startswith("text^Z more more")
    assert terminal.whole


def test_a_silent_pipe_is_waited_for_in_words(environment: dict[str, str], models: Models) -> None:
    """A command that reads from a pipe into which nothing is written says so, until something is."""
    command = f"sleep 3 | {' '.join(COMMAND)} generate hi -m {models.target} --threads 1 -n 4 --mode off"
    with Terminal(["bash", "-c", command], env=environment, cwd=str(models.folder)) as terminal:
        terminal.wait_for(lambda: terminal.rows[-1] == "waiting for standard input")
        assert terminal.end() == 0
    assert "waiting" not in terminal.text
    assert terminal.whole


def test_a_terminal_of_three_rows_has_none_to_spare(show: Show) -> None:
    """Where rows are few there is no live line, and the text is whole."""
    with show(*[(f"{i}\n", "own") for i in range(9)], rows=3) as terminal:
        assert terminal.end() == 0
    assert terminal.lines[:9] == [str(i) for i in range(9)]
    assert b"\x1b[1;2r" not in terminal.written
    assert terminal.whole


def test_wide_characters_wrap_as_the_terminal_does(show: Show) -> None:
    """Chinese and emoji are written as they are: the terminal decides where a line ends."""
    text = "\u4f60\u597d" * 15 + "\U0001f680"
    with show((text, "own"), columns=21, rows=8) as terminal:
        assert terminal.end() == 0
    assert "".join(terminal.lines).replace("\x00", "").startswith(text)


def test_long_names_do_not_break_the_live_line(show: Show) -> None:
    """The live line is cut to the width of the terminal."""
    with show(("x", "own"), ("", "wait"), columns=12, rows=6) as terminal:
        terminal.wait_for(lambda: terminal.rows[-1] == "reading the")
        assert terminal.rows[0] in ("", "x")


def test_json_on_a_terminal_is_one_object(environment: dict[str, str], models: Models) -> None:
    """`--json` shows no live line and no summary, on a terminal neither."""
    command = [*COMMAND, "generate", "hi", "-m", models.target, "--threads", "1", "-n", "4", "--json"]
    with Terminal(command, columns=4000, env=environment, cwd=str(models.folder)) as terminal:
        assert terminal.end() == 0
    assert json.loads(terminal.text)["finish_reason"] == "length"
    assert b"\x1b" not in terminal.written


def test_json_on_a_terminal_cannot_control_it(environment: dict[str, str]) -> None:
    """Control characters are escaped in the JSON that a terminal shows: DEL and C1 too, which JSON allows."""
    program = (
        "from speclocal.terminal.render import View\n"
        "with View(quiet=True) as view: view.result({'text': 'a\\x1b[1m\\x7f\\x9b1m'})"
    )
    with Terminal([sys.executable, "-c", program], env=environment) as terminal:
        assert terminal.end() == 0
    assert not re.search(rb"[\x1b\x7f]|\xc2[\x80-\x9f]", terminal.written)
    assert json.loads(terminal.text) == {"text": "a\x1b[1m\x7f\x9b1m"}


def test_the_tables_fit_a_narrow_terminal(environment: dict[str, str]) -> None:
    """On 40 columns the list of models wraps inside its columns, and no name is lost."""
    with Terminal([*COMMAND, "models"], columns=40, rows=60, env=environment) as terminal:
        assert terminal.end() == 0
    assert "\u2026" not in terminal.text
    assert terminal.whole


def test_errors_wrap_as_the_terminal_does(environment: dict[str, str], models: Models) -> None:
    """An error is one line for the terminal to wrap; its label is set off, names in it are plain."""
    name = "[red]none[/red]"
    command = [*COMMAND, "generate", "hi", "-m", name]
    with Terminal(command, columns=30, env=environment, cwd=str(models.folder)) as terminal:
        assert terminal.end() == 2
    assert terminal.lines[:2] == wrapped(f"error: there is no file `{name}`", 30)
    assert terminal.whole


def test_names_on_the_live_line_are_shown_not_obeyed(
    environment: dict[str, str], models: Models, tmp_path: Path
) -> None:
    """A model file named with an escape code, measured for the first time, does not clear the screen."""
    name = "we\x1b[2Jird\n.gguf"
    (tmp_path / name).write_bytes((models.folder / models.target).read_bytes())
    command = [*COMMAND, "generate", "hi", "-m", name, "--threads", "1", "-n", "4"]
    env = {**environment, "SPECLOCAL_CACHE": str(tmp_path / "cache")}
    with Terminal(command, env=env, cwd=str(tmp_path)) as terminal:
        assert terminal.end() == 0
    assert b"measuring we\xe2\x90\x9b[2Jird" in terminal.written
    assert b"\x1b[2J" not in terminal.written
