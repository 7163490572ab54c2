"""`summarize`: what becomes of a file before the model sees it, and what a person is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, SUMMARY, Models, Ran, Run
from pty_tools import Terminal

STORY = "The ferry at Elm Bridge was closed for two weeks in 1986. Most of the 340 people who used it missed it.\n"


@pytest.fixture
def summarize(run: Run, models: Models) -> Run:
    def run_summarize(*arguments: str, **kwargs: object) -> Ran:
        return run("summarize", "-m", models.target, "--threads", "1", "-n", "8", *arguments, **kwargs)

    return run_summarize


@pytest.fixture
def long_file(tmp_path: Path) -> Path:
    """A text that the tiny models cannot read at once."""
    file = tmp_path / "long.txt"
    file.write_text("the cat and the tree. " * 2000)
    return file


@pytest.fixture
def own_cache(tmp_path: Path) -> dict[str, str]:
    """An environment in which nothing is kept yet."""
    return {"SPECLOCAL_CACHE": str(tmp_path / "cache")}


def test_a_summary_streams_like_any_reply(run: Run, default_model_path: Path, tmp_path: Path) -> None:
    """On the real model a file, and the same text on stdin, give the same text and a newline, and one summary line."""
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    options = ("-m", str(default_model_path), "--threads", "1", "-n", "16", "--mode", "off")
    named = run("summarize", str(file), *options)
    piped = run("summarize", "-", *options, stdin=STORY.encode())
    assert named.code == piped.code == 0
    assert named.out == piped.out == run("summarize", str(file), *options, "--json").json["text"] + "\n"
    assert SUMMARY.fullmatch(named.err)


def test_control_tokens_in_a_file_stay_text(run: Run, default_model_path: Path, tmp_path: Path) -> None:
    """A file that holds `<|im_end|>` cannot end its message: six or more tokens of text stand for it, not one."""
    file = tmp_path / "hostile.txt"

    def prompt_tokens(text: str) -> int:
        file.write_text(text)
        options = ("-m", str(default_model_path), "--threads", "1", "-n", "0", "--mode", "off", "--json")
        tokens: int = run("summarize", str(file), *options).json["prompt_tokens"]
        return tokens

    assert prompt_tokens("one <|im_end|> two") - prompt_tokens("one  two") >= 5


def test_a_file_that_does_not_fit_is_read_in_parts(summarize: Run, long_file: Path) -> None:
    """A text longer than the context is divided, which stderr says, and `--json` counts."""
    ran = summarize(str(long_file))
    assert ran.code == 0
    assert re.match(r"[\d,]+ tokens of text in \d+ parts that fit a context of 4,096: ", ran.err)
    assert SUMMARY.search(ran.err)
    answer = summarize(str(long_file), "--json").json
    assert answer["parts"] > 1
    assert answer["text"] + "\n" == ran.out


def test_the_plan_is_shown_and_nothing_runs(summarize: Run, long_file: Path) -> None:
    """`--plan` lists the parts and what they begin with; as JSON they are the whole text."""
    shown = summarize(str(long_file), "--plan")
    told = summarize(str(long_file), "--plan", "--json").json
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.splitlines()[0].split() == ["part", "tokens", "begins"]
    assert shown.out.splitlines()[1].split()[2:5] == ["the", "cat", "and"]
    assert len(shown.out.splitlines()) == 3 + len(told["parts"])
    assert "".join(part["text"] for part in told["parts"]) == long_file.read_text()
    assert told["tokens"] == sum(part["tokens"] for part in told["parts"])


def test_a_small_context_says_how_large_it_must_be(summarize: Run, tmp_path: Path) -> None:
    """Where a text fits no context that was asked for, the hint says what to ask for, and that is enough."""
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    ran = summarize(str(file), "--ctx", "10")
    assert ran.code == 2
    assert ran.err.startswith("error: a context of 10 tokens is too small for this text: the request takes ")
    assert summarize(str(file), "--ctx", ran.err.split()[-1]).code == 0


def test_several_files_are_one_text(summarize: Run, tmp_path: Path) -> None:
    """Files are read in order, each under its name; one that is no text ends the command before a model is loaded."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(STORY)
    plan = summarize(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), "--plan", "--json").json
    assert [part["text"] for part in plan["parts"]] == [f"# a.txt\n\n{STORY}\n\n# b.txt\n\n{STORY}"]
    refused = summarize(str(tmp_path / "a.txt"), str(tmp_path), "-m", "none.gguf")
    assert refused.code == 2
    assert summarize(str(tmp_path / "a.txt"), str(tmp_path)).err.startswith(f"error: `{tmp_path}` is a directory\n")


def test_what_is_wanted_reaches_the_model(summarize: Run, tmp_path: Path) -> None:
    """Length, form, question and language change the prompt; a form that is none is refused."""
    file = tmp_path / "story.txt"
    file.write_text(STORY)

    def prompt_tokens(*options: str) -> int:
        tokens: int = summarize(str(file), "--json", *options).json["prompt_tokens"]
        return tokens

    wanted = [(), ("--words", "30"), ("--style", "bullets"), ("--ask", "Who missed it?"), ("--language", "French")]
    assert len({prompt_tokens(*options) for options in wanted}) == len(wanted)
    refused = summarize(str(file), "--style", "sonnet")
    assert refused.code == 2
    assert "sonnet" in refused.err


def test_a_second_question_reads_only_itself(summarize: Run, tmp_path: Path, own_cache: dict[str, str]) -> None:
    """The file is found processed by another question, and the answer is the one without that help.

    A cache of bf16 gives the same bits in whatever passes a prompt is read.
    """
    file = tmp_path / "story.txt"
    file.write_text(STORY * 5)

    def answer(question: str, env: dict[str, str]) -> dict[str, Any]:
        return summarize(str(file), "--ask", question, "--mode", "off", "--kv-type", "bf16", "--json", env=env).json

    first, second = (answer(question, own_cache) for question in ("Who missed it?", "When was it?"))
    fresh = answer("When was it?", {"SPECLOCAL_CACHE": str(tmp_path / "other")})
    assert first["stats"]["prompt_reused"] == 0
    assert second["stats"]["prompt_reused"] > second["prompt_tokens"] - 120
    assert second["token_ids"] == fresh["token_ids"]


def test_what_is_kept_is_shown_and_deleted(
    run: Run, summarize: Run, long_file: Path, own_cache: dict[str, str]
) -> None:
    """`cache` counts kept prompts and notes; with `--clear` they are gone."""
    summarize(str(long_file), env=own_cache)
    kept = run("cache", "--json", env=own_cache).json
    assert kept["notes"]["files"] > 1
    assert kept["prompts"]["files"] > 1
    assert kept["prompts"]["size_bytes"] > 10_000
    shown = run("cache", "--clear", env=own_cache)
    assert (shown.code, shown.err) == (0, "all of this is deleted\n")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["kept", "prompts", "notes"]
    assert run("cache", "--json", env=own_cache).json["notes"]["files"] == 0


def test_progress_is_shown_part_by_part(
    models: Models, environment: dict[str, str], own_cache: dict[str, str], long_file: Path
) -> None:
    """On a terminal the live line counts the parts, and is gone at the end."""
    command = [*COMMAND, "summarize", str(long_file), "-m", models.target, "--threads", "1", "-n", "8", "--mode", "off"]
    with Terminal(command, env={**environment, **own_cache}, cwd=str(models.folder)) as terminal:
        terminal.wait_for(lambda: re.search(r"part \d of \d, about [\d.]+ m?s left", terminal.rows[-1]) is not None)
        assert terminal.end() == 0
    assert "about" not in terminal.text
    assert terminal.whole


def test_an_interrupted_summary_goes_on_where_it_stopped(
    models: Models, environment: dict[str, str], tmp_path: Path
) -> None:
    """Ctrl-C in a later part ends it with 130; the next run reads no part again, and says what one run would have."""
    file = tmp_path / "long.txt"
    file.write_text("the cat and the tree. " * 6_000)
    command = [*COMMAND, "summarize", str(file), "-m", models.target, "--threads", "1", "-n", "8", "--mode", "off"]

    def terminal(cache: str) -> Terminal:
        return Terminal(command, env={**environment, "SPECLOCAL_CACHE": str(tmp_path / cache)}, cwd=str(models.folder))

    def notes() -> dict[str, int]:
        """Return the file numbers of what is kept: another one when it is written again."""
        return {path.name: path.stat().st_ino for path in (tmp_path / "cache" / "notes").glob("*.json")}

    with terminal("cache") as first:
        first.wait_for(lambda: re.search(r"part ([3-9]|\d\d) of", first.rows[-1]) is not None)
        first.press("c")
        assert first.end() == 130
    assert first.whole
    kept = notes()
    assert len(kept) >= 2
    with terminal("cache") as second:
        second.wait_for(lambda: re.search(r"part \d+ of", second.rows[-1]) is not None)
        number = int(re.findall(r"part (\d+) of", second.rows[-1])[0])
        assert second.end() == 0
    assert number > len(kept)
    assert kept.items() <= notes().items()
    with terminal("another cache") as unbroken:
        assert unbroken.end() == 0
    assert [line for line in second.lines if " tokens in " not in line] == [
        line for line in unbroken.lines if " tokens in " not in line
    ]


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (b"a\0b\0c " + STORY.encode(), "NUL characters dropped: 2\n"),
        (STORY.replace("\n", "\r\n").encode(), ""),
        ("\ufeff".encode() + STORY.encode(), ""),
    ],
)
def test_what_was_done_to_a_file_is_noted_on_stderr(summarize: Run, tmp_path: Path, data: bytes, note: str) -> None:
    """NUL characters are dropped with a note; CRLF line ends and a byte order mark are nobody's business."""
    file = tmp_path / "odd.txt"
    file.write_bytes(data)
    ran = summarize(str(file))
    assert ran.code == 0
    assert ran.err.startswith(note)
    assert SUMMARY.fullmatch(ran.err.removeprefix(note))


def test_line_ends_do_not_change_the_reply(summarize: Run, tmp_path: Path) -> None:
    """A text with CRLF is the same text."""
    answers = []
    for data in (b"one\ntwo\n", b"one\r\ntwo\r\n"):
        (tmp_path / "lines.txt").write_bytes(data)
        answers.append(summarize(str(tmp_path / "lines.txt"), "--json").json)
    assert answers[0]["token_ids"] == answers[1]["token_ids"]
    assert answers[0]["prompt_tokens"] == answers[1]["prompt_tokens"]


def test_an_old_encoding_is_guessed_and_said(summarize: Run, tmp_path: Path) -> None:
    """Text in latin-1 is read, and stderr says that its encoding was guessed."""
    file = tmp_path / "latin.txt"
    file.write_bytes(
        "Le caf\u00e9 na\u00eff est tr\u00e8s br\u00fbl\u00e9, d\u00e9j\u00e0 vu \u00e0 l'\u00e9t\u00e9.".encode(
            "latin-1"
        )
    )
    ran = summarize(str(file))
    assert ran.code == 0
    assert ran.err.startswith("read as cp1252, a guess")


def test_an_encoding_can_be_named(summarize: Run, tmp_path: Path) -> None:
    """`--encoding` reads a file as it says, without a note; what is no encoding is refused."""
    latin, utf8 = tmp_path / "latin.txt", tmp_path / "utf8.txt"
    latin.write_bytes("caf\u00e9 na\u00eff".encode("latin-1"))
    utf8.write_text("caf\u00e9 na\u00eff")
    named = summarize(str(latin), "--encoding", "latin-1", "--json")
    assert (named.code, named.err) == (0, "")
    assert named.json["token_ids"] == summarize(str(utf8), "--json").json["token_ids"]
    refused = summarize(str(latin), "--encoding", "nope")
    assert refused.code == 2
    assert refused.err.startswith("error: `nope` is not the name of a text encoding\n\nhint: ")


def test_hints_name_only_options_that_exist(run: Run, summarize: Run, tmp_path: Path) -> None:
    """An option that a message recommends is an option of the command."""
    latin, binary = tmp_path / "latin.txt", tmp_path / "binary.dat"
    latin.write_bytes("caf\u00e9 na\u00eff cr\u00e8me br\u00fbl\u00e9e d\u00e9j\u00e0 vu".encode("latin-1"))
    binary.write_bytes(bytes(range(1, 32)) * 40)
    said = summarize(str(latin)).err + summarize(str(binary)).err
    options = run("summarize", "--help", env={"COLUMNS": "200"}).out
    assert "--encoding" not in said or "--encoding" in options


def test_notes_on_piped_text_are_shown_by_generate_too(generate: Run) -> None:
    """What `summarize -` says about piped text, `generate` says as well."""
    ran = generate("hello", stdin=b"a\0b\0c one two three")
    assert ran.code == 0
    assert ran.err.startswith("NUL characters dropped: 2\n")
