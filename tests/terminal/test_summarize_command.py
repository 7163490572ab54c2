"""`summarize`: what becomes of a file before the model sees it, and what a person is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SUMMARY, Models, Ran, Run

STORY = "The ferry at Elm Bridge was closed for two weeks in 1986. Most of the 340 people who used it missed it.\n"


@pytest.fixture
def summarize(run: Run, models: Models) -> Run:
    def run_summarize(*arguments: str, **kwargs: object) -> Ran:
        return run("summarize", "-m", models.target, "--threads", "1", "-n", "8", *arguments, **kwargs)

    return run_summarize


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


def test_a_file_that_does_not_fit_says_both_numbers(summarize: Run, tmp_path: Path) -> None:
    """A text longer than the context is refused before anything is read: how long it is, and how much fits."""
    file = tmp_path / "long.txt"
    file.write_text("the cat and the tree " * 1000)
    ran = summarize(str(file))
    tokens = summarize(str(file), "--ctx", "20000", "-n", "0", "--json").json["prompt_tokens"]
    assert tokens > 4096
    assert ran == Ran(
        2,
        "",
        f"error: the prompt has {tokens} tokens; the context of `target.gguf` holds 4096\n\nhint: shorten the input\n",
    )


def test_a_small_context_says_how_large_it_must_be(summarize: Run, tmp_path: Path) -> None:
    """Where only `--ctx` is in the way, the hint says what to ask for, and that is enough."""
    file = tmp_path / "story.txt"
    file.write_text(STORY)
    tokens = summarize(str(file), "-n", "0", "--json").json["prompt_tokens"]
    ran = summarize(str(file), "--ctx", "10")
    assert ran == Ran(
        2,
        "",
        f"error: the prompt has {tokens} tokens; the context of `target.gguf` holds 10\n\n"
        f"hint: give a `--ctx` of at least {tokens + 1}\n",
    )
    assert summarize(str(file), "--ctx", str(tokens + 1)).code == 0


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
