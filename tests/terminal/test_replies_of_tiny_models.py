"""What only needs some model: limits, modes that fall back, notes, and options at their ends."""

from __future__ import annotations

import pytest
from commands import SUMMARY, Models, Run


def test_no_tokens_are_a_reply_too(generate: Run) -> None:
    """`--max-tokens 0` reads the prompt and writes nothing but an empty line; rates of nothing are null."""
    ran = generate("hello", "-n", "0")
    assert (ran.code, ran.out) == (0, "\n")
    assert SUMMARY.fullmatch(ran.err)
    answer = generate("hello", "-n", "0", "--json").json
    assert (answer["text"], answer["token_ids"], answer["finish_reason"]) == ("", [], "length")
    assert answer["stats"]["tokens"] == answer["stats"]["rounds"] == 0
    assert answer["stats"]["tokens_per_second"] is None


@pytest.mark.parametrize("mode", ["off", "lookup", "draft", "auto"])
def test_a_full_context_finishes_the_reply(generate: Run, models: Models, mode: str) -> None:
    """Every mode writes until the context is full, one token beyond it included, and says why it ends."""
    answer = generate("hello", "-m", models.short, "-d", models.short, "-n", "1000", "--mode", mode, "--json").json
    plain = generate("hello", "-m", models.short, "-n", "1000", "--mode", "off", "--json").json
    assert (answer["finish_reason"], answer["token_ids"]) == ("context", plain["token_ids"])


def test_the_largest_values_are_no_trouble(generate: Run) -> None:
    """Options at their far ends answer, greedily where the temperature is next to nothing."""
    plain = generate("hello", "--json").json["token_ids"]
    for options in (
        ("-n", "1000000", "--stop", "zzzz", "--ctx", "64"),
        ("-t", "1e-300"),
        ("-t", "1e-9", "--seed", "5"),
        ("--seed", str(2**63 - 1)),
        ("--top-k", "99999999999999999999"),
        ("--gpu-layers", "0", "--draft-gpu-layers", "0"),
        ("-g", "64"),
    ):
        ran = generate("hello", *options, "--json")
        assert (ran.code, ran.err, ran.json["token_ids"][:8]) == (0, "", plain)


def test_text_from_an_old_terminal_is_read_as_far_as_it_goes(generate: Run) -> None:
    """An argument that is no UTF-8 is answered, not refused with a traceback."""
    ran = generate(b"\xff\xfe caf\xe9", "--stop", b"\xff")
    assert ran.code == 0
    assert SUMMARY.fullmatch(ran.err)


def test_emoji_and_chinese_survive(generate: Run) -> None:
    """A prompt outside ASCII costs tokens and nothing else."""
    ran = generate("\U0001f469\u200d\U0001f680 \u4f60\u597d \u05e9\u05dc\u05d5\u05dd")
    assert ran.code == 0
    assert SUMMARY.fullmatch(ran.err)


@pytest.mark.parametrize("mode", ["lookup", "draft", "auto"])
def test_a_recurrent_model_is_drafted_for_like_any_other(generate: Run, models: Models, mode: str) -> None:
    """That its cache cannot drop tokens is no reason for a note, and the reply is the plain one."""
    plain = generate("hello", "-m", models.recurrent, "--mode", "off", "--json").json
    ran = generate("hello", "-m", models.recurrent, "-d", models.draft, "--mode", mode, "--json")
    assert ran.err == ""
    assert (ran.json["mode"], ran.json["token_ids"]) == (mode, plain["token_ids"])


def test_a_recurrent_model_drafts_like_any_other(generate: Run, models: Models) -> None:
    """A draft model whose cache cannot drop its guesses drafts, and the reply is the plain one."""
    plain = generate("hello", "--mode", "off", "--json").json
    ran = generate("hello", "-d", models.recurrent, "--mode", "draft", "--json")
    assert ran.err == ""
    assert (ran.json["mode"], ran.json["token_ids"]) == ("draft", plain["token_ids"])
    assert ran.json["stats"]["drafted"] > 0


def test_a_context_beyond_the_training_is_noted(generate: Run, models: Models) -> None:
    """`--ctx` above what the model was trained on is obeyed, and said."""
    ran = generate("hello", "-m", models.short, "--ctx", "1000", "--json")
    assert (ran.code, ran.err) == (0, "a context of 1000 tokens is more than the 64 the model was trained on\n")


def test_a_draft_model_may_be_larger_or_the_target_itself(generate: Run, models: Models) -> None:
    """Whoever drafts, the greedy text is the target's."""
    plain = generate("hello", "-n", "24", "--mode", "off", "--json").json
    for draft in (models.target, models.draft, f"./{models.target}"):
        answer = generate("hello", "-n", "24", "-d", draft, "--mode", "draft", "--json").json
        assert (answer["token_ids"], answer["draft"]) == (plain["token_ids"], draft)


def test_verbose_shows_the_native_log_on_stderr_only(generate: Run) -> None:
    """`--verbose` adds llama.cpp's lines to stderr; stdout stays one object."""
    ran = generate("hello", "--verbose", "--json")
    assert "llama_model_loader" in ran.err
    assert ran.json["finish_reason"] == "length"


def test_a_blank_pipe_does_not_spoil_a_prompt(generate: Run) -> None:
    """A prompt given as an argument is answered though what is piped in is blank, as from an empty file."""
    plain = generate("hello", "--json").json
    for blank in (b"", b"\n", b"  \n\n"):
        assert generate("hello", "--json", stdin=blank).json["token_ids"] == plain["token_ids"]


def test_a_model_path_need_not_be_utf8(generate: Run, models: Models) -> None:
    """A file whose name is no UTF-8 is loaded like any other."""
    name = b"caf\xe9.gguf"
    (models.folder / name.decode("utf-8", "surrogateescape")).write_bytes((models.folder / models.target).read_bytes())
    ran = generate("hello", "-m", name)
    assert ran.code == 0
    assert SUMMARY.fullmatch(ran.err)


@pytest.mark.parametrize("mode", ["off", "lookup"])
def test_a_draft_model_that_is_not_used_is_not_loaded(generate: Run, models: Models, mode: str) -> None:
    """A mode without a draft model neither fetches nor loads one that a pair brings along; this one cannot be."""
    ran = generate("hello", "-d", models.unloadable, "--mode", mode, "--json")
    assert (ran.code, ran.err, ran.json["draft"]) == (0, "", None)
