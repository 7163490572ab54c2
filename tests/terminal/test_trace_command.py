"""`trace`: a reply round by round, on paper, on a terminal key by key, and for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, Models, Ran, Run
from pty_tools import Terminal

from speclocal.terminal import words

STEP = "any key: the next round, a: all of them, q: quit"
Trace = Callable[..., Ran]
Watch = Callable[..., Terminal]


@pytest.fixture(scope="module")
def options(models: Models) -> list[str]:
    """A short reply of the tiny pair, drafted two tokens at a time."""
    pair = ["-m", models.target, "-d", models.draft, "--threads", "1"]
    return [*pair, "-n", "10", "--mode", "draft", "-g", "2", "--raw", "the quick"]


@pytest.fixture(scope="module")
def trace(run: Run, options: list[str]) -> Trace:
    return lambda *arguments, **kwargs: run("trace", *options, *arguments, **kwargs)


@pytest.fixture
def watch(environment: dict[str, str], models: Models, options: list[str]) -> Watch:
    """Start `trace` at a terminal."""

    def start(*arguments: str, env: dict[str, str] | None = None) -> Terminal:
        command = [*COMMAND, "trace", *options, *arguments]
        return Terminal(command, columns=150, rows=60, env={**environment, **(env or {})}, cwd=str(models.folder))

    return start


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def num_rounds(terminal: Terminal) -> int:
    return sum(line.startswith("round ") for line in terminal.lines)


def test_lines_of_json_are_the_reply(trace: Trace, run: Run, options: list[str]) -> None:
    """`--jsonl -` writes nothing but rounds; what they emit is the reply, and every token is accounted for."""
    ran = trace("--jsonl", "-")
    assert (ran.code, ran.err) == (0, "")
    rounds = lines_of(ran.out)
    reply = run("generate", *options, "--json").json
    assert [token["token"] for round_ in rounds for token in round_["emitted"]] == reply["token_ids"]
    assert [round_["round"] for round_ in rounds] == list(range(1, len(rounds) + 1))
    assert sum(len(round_["drafted"]) for round_ in rounds) == reply["stats"]["drafted"]
    fates = [drafted["fate"] for round_ in rounds for drafted in round_["drafted"]]
    assert fates.count("accepted") == reply["stats"]["accepted"]
    assert [round_["finish"] for round_ in rounds] == [None] * (len(rounds) - 1) + [reply["finish_reason"]]
    position = 0
    for round_ in rounds:
        assert round_["position"] == position
        position += len(round_["emitted"])
        assert set(round_) == {
            *("round", "position", "drafter", "drafted", "emitted"),
            *("draft_seconds", "verify_seconds", "other_seconds", "finish"),
        }


def test_a_file_of_rounds_and_one_object_agree(trace: Trace, tmp_path: Path) -> None:
    """`--jsonl FILE` holds the rounds that `--json` prints, but for the time they took."""

    def timeless(rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{name: value for name, value in each.items() if not name.endswith("_seconds")} for each in rounds]

    path = tmp_path / "rounds.jsonl"
    ran = trace("--jsonl", str(path), "-t", "0.8", "--seed", "5")
    assert ran.code == 0
    assert ran.out.startswith("tokens: ")
    answer = trace("--json", "-t", "0.8", "--seed", "5").json
    assert timeless(lines_of(path.read_text())) == timeless(answer["rounds"])
    assert answer["token_ids"] == [token["token"] for round_ in answer["rounds"] for token in round_["emitted"]]


def test_paper_shows_marks_numbers_and_times(trace: Trace) -> None:
    """Without a terminal all rounds come at once: fates as marks, a row for every drafted token, no escape codes."""
    ran = trace()
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    rounds = lines_of(trace("--jsonl", "-").out)
    marks = {"accepted": "+", "rejected": "-", "untested": "."}
    for number, round_ in enumerate(rounds, 1):
        count = len(round_["drafted"])
        drafted = f"draft drafted {count} token{'s' * (count > 1)}" if count else "nothing drafted"
        head = f"round {number}, from token {round_['position'] + 1}: {drafted}\n"
        strip = "".join(f"[{marks[each['fate']]}{words.on_one_line(each['text'])}]" for each in round_["drafted"])
        assert head + strip in ran.out
    assert len(re.findall(r"; draft [\d.]+ m?s, verify [\d.]+ m?s, other [\d.]+ m?s\n", ran.out)) == len(rounds)
    assert re.search(r"\ndrafted +p +q +threshold +draw\n", ran.out)
    assert re.search(
        rf"\n{len(rounds)} rounds: 10 tokens in [\d.]+ m?s; \d+ drafted, \d+ tested, \d+ accepted\n$", ran.out
    )


def test_with_a_seed_the_choice_of_the_target_is_shown(trace: Trace) -> None:
    """The coupled rule has no draw; the legend says how it judges."""
    out = trace("-t", "0.8", "--seed", "5").out
    assert "rule: target and drafter choose with the same noise" in out
    assert re.search(r"\ndrafted +p +q +target chose\n", out)
    assert "threshold" not in out


def test_a_key_brings_the_next_round_and_a_all_the_others(watch: Watch, trace: Trace) -> None:
    """One round for every key; after `a` the rest; then the terminal is as it was."""
    total = len(lines_of(trace("--jsonl", "-").out))
    assert total > 3
    with watch() as terminal:
        for key in ("n", "\x1b[C", "a"):
            seen = num_rounds(terminal)
            terminal.wait_for(lambda seen=seen: num_rounds(terminal) > seen and terminal.rows[-1] == STEP)  # type: ignore[misc]
            assert num_rounds(terminal) == seen + 1
            terminal.type(key)
        assert terminal.end() == 0
        assert num_rounds(terminal) == total
        assert terminal.echoes
        assert terminal.whole
    assert STEP not in terminal.text


def test_q_quits(watch: Watch) -> None:
    """After `q` no other round is run; the totals are those of what was seen."""
    with watch() as terminal:
        terminal.wait_for(lambda: terminal.rows[-1] == STEP)
        terminal.type("q")
        assert terminal.end() == 0
        assert num_rounds(terminal) == 1
        assert terminal.lines[-1].startswith("1 round: ")
        assert terminal.echoes
        assert terminal.whole


def test_ctrl_c_while_waiting_for_a_key_gives_the_terminal_back(watch: Watch) -> None:
    """Ctrl-C interrupts as everywhere, and keys are shown again."""
    with watch() as terminal:
        terminal.wait_for(lambda: terminal.rows[-1] == STEP)
        terminal.press("c")
        assert terminal.end() == 130
        assert terminal.echoes
        assert terminal.whole


def test_a_terminal_shows_fates_in_colours(watch: Watch) -> None:
    """Accepted tokens are green and there are no marks; with NO_COLOR it is the other way round."""
    with watch("--all") as terminal:
        assert terminal.end() == 0
        strip = terminal.screen.buffer[4]
        assert strip[0].fg == "green"
        assert "[+" not in terminal.text
    with watch("--all", env={"NO_COLOR": "1"}) as terminal:
        assert terminal.end() == 0
        assert terminal.rows[4].startswith("[+")
        assert {cell.fg for row in terminal.screen.buffer.values() for cell in row.values()} == {"default"}


def test_two_kinds_of_json_do_not_share_stdout(trace: Trace) -> None:
    """It says so before a model is loaded."""
    ran = trace("--json", "--jsonl", "-")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: `--json` and `--jsonl -` both write to stdout\n")


def test_a_file_that_cannot_be_written_is_an_error(trace: Trace, tmp_path: Path) -> None:
    """Before a model is opened."""
    ran = trace("--jsonl", str(tmp_path / "no folder" / "rounds.jsonl"))
    assert (ran.code, ran.out) == (2, "")
    assert "there is no directory" in ran.err


class Hostile:
    """A vocabulary whose tokens would clear the screen, begin a line, and control the model."""

    def shown(self, token: int) -> str:
        return ("\x1b[2J", "\n\tx", "<|im_end|>", "\ufffd")[token]


def test_token_texts_are_shown_and_never_obeyed() -> None:
    """Escape codes, newlines, control tokens and halves of characters are one line of visible text."""
    shown = [words.token(token, Hostile()) for token in range(4)]  # type: ignore[arg-type]
    assert shown == ["\u241b[2J", "\u240a\u2409x", "<|im_end|>", "\ufffd"]
