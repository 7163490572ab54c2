"""`generate` on the real default model: what reaches stdout, and what decides over it.

A context below 160 tokens is read in passes whose bits do not depend on their width, so that every mode must agree.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SUMMARY, Run

MODES = ("off", "lookup", "draft", "auto")
LIST = "Repeat this list three times: red, green, blue, red, green, blue."
KEYS = [
    "text",
    "token_ids",
    "finish_reason",
    "prompt_tokens",
    "model",
    "draft",
    "mode",
    "seed",
    "estimated_speedup",
    "stats",
]
STATS = [
    *("tokens", "decode_seconds", "tokens_per_second", "prompt_seconds", "rounds", "drafted", "tested", "accepted"),
    *("acceptance_rate", "draft_utilisation", "tokens_per_round", "draft_seconds", "verify_seconds", "other_seconds"),
    *("prompt_reused", "rounds_by_drafter", "drafted_by_drafter"),
]


def test_stdout_is_the_text_and_one_newline(ask: Run) -> None:
    """Without a terminal stdout holds the text and a newline, stderr a summary line, and nothing an escape code."""
    shown = ask("Name three colours.", "-n", "24", "--mode", "off")
    told = ask("Name three colours.", "-n", "24", "--mode", "off", "--json")
    assert (shown.code, told.code, told.err) == (0, 0, "")
    assert shown.out == told.json["text"] + "\n"
    assert told.json["text"] != ""
    assert SUMMARY.fullmatch(shown.err)
    assert "\x1b" not in shown.out + shown.err + told.out


def test_json_is_one_object_with_the_documented_keys(ask: Run, default_model_path: Path) -> None:
    """`--json` prints one object on one line, its keys are the documented ones in their order."""
    ran = ask("Hello", "-n", "4", "--mode", "lookup", "--seed", "7", "--json")
    answer = ran.json
    assert ran.out.count("\n") == 1
    assert list(answer) == KEYS
    assert list(answer["stats"]) == STATS
    assert {key: answer[key] for key in ("model", "draft", "mode", "seed", "finish_reason")} == {
        "model": str(default_model_path),
        "draft": None,
        "mode": "lookup",
        "seed": 7,
        "finish_reason": "length",
    }
    assert answer["prompt_tokens"] > 0


def test_every_mode_says_the_same_at_temperature_zero(ask: Run, default_model_path: Path) -> None:
    """Greedy token ids do not depend on the mode; the numbers in `stats` keep their meanings."""
    answers = {
        mode: ask(LIST, "-n", "40", "--mode", mode, "-d", str(default_model_path), "--json").json for mode in MODES
    }
    assert answers["off"]["prompt_tokens"] + 40 < 160
    assert {mode: answer["token_ids"] for mode, answer in answers.items()} == dict.fromkeys(
        MODES, answers["off"]["token_ids"]
    )
    assert {mode: answer["mode"] for mode, answer in answers.items()} == {mode: mode for mode in MODES}
    assert answers["off"]["stats"]["drafted"] == 0
    assert answers["lookup"]["stats"]["accepted"] > 0
    assert answers["draft"]["stats"]["acceptance_rate"] == 1
    for answer in answers.values():
        stats = answer["stats"]
        assert stats["tokens"] == len(answer["token_ids"]) == 40
        assert stats["accepted"] <= stats["tested"] <= stats["drafted"]
        assert stats["rounds"] <= stats["tokens"]
        assert stats["rounds"] == sum(stats["rounds_by_drafter"].values())
        assert stats["prompt_reused"] == 0
        parts = stats["draft_seconds"] + stats["verify_seconds"] + stats["other_seconds"]
        assert parts == pytest.approx(stats["decode_seconds"])
        assert stats["tokens_per_second"] == pytest.approx(stats["tokens"] / stats["decode_seconds"])
        assert stats["tokens_per_round"] == pytest.approx(stats["tokens"] / stats["rounds"])
        if stats["drafted"]:
            assert stats["draft_utilisation"] == pytest.approx(stats["accepted"] / stats["drafted"])


def test_without_a_seed_two_runs_differ(ask: Run) -> None:
    """Sampling without `--seed` differs every time: at temperature 2 two equal replies of 24 tokens do not occur."""
    first, second = (
        ask("Tell a story.", "-n", "24", "-t", "2", "--top-k", "0", "--top-p", "1", "--json") for _ in "ab"
    )
    assert first.json["token_ids"] != second.json["token_ids"]
    assert first.json["seed"] is None


def test_end_of_generation_finishes_with_eos(ask: Run) -> None:
    """A reply that the model ends itself says so, and its text does not show the end."""
    answer = ask("Say hello.", "-n", "100", "--mode", "off", "--json").json
    assert answer["finish_reason"] == "eos"
    assert len(answer["token_ids"]) < 100
    assert "<|im_end|>" not in answer["text"]


def test_a_stop_string_cuts_every_mode_at_the_same_place(ask: Run, default_model_path: Path) -> None:
    """The text ends before the stop string and the ids with the token that completed it, whoever drafts."""
    whole = ask(LIST, "-n", "40", "--mode", "off", "--json").json
    stop = whole["text"][20:26]
    options = ("-n", "40", "-d", str(default_model_path), "--stop", "not in the text", "--stop", stop, "--json")
    answers = [ask(LIST, *options, "--mode", mode).json for mode in MODES]
    for answer in answers:
        assert answer["finish_reason"] == "stop"
        assert answer["text"] == whole["text"][: whole["text"].index(stop)]
        assert answer["token_ids"] == whole["token_ids"][: len(answer["token_ids"])] == answers[0]["token_ids"]


def test_raw_continues_the_text_without_a_template(ask: Run) -> None:
    """`--raw` gives the model the bare text: far fewer prompt tokens than the chat template makes."""
    raw = ask("The capital of France is", "--raw", "-n", "4", "--mode", "off", "--json").json
    chat = ask("The capital of France is", "-n", "4", "--mode", "off", "--json").json
    assert raw["prompt_tokens"] == 5
    assert chat["prompt_tokens"] > 20
    assert raw["text"] == " Paris.\n\n"


def test_stdin_is_added_to_the_prompt(ask: Run) -> None:
    """Piped text stands after the prompt, after an empty line; alone it is the prompt."""
    asked = ask("Translate:\n\nbonjour", "-n", "4", "--json", "--mode", "off").json
    both = ask("Translate:", "-n", "4", "--json", "--mode", "off", stdin=b"bonjour").json
    alone = ask("-n", "4", "--json", "--mode", "off", stdin=b"Translate:\n\nbonjour").json
    for piped in (both, alone):
        assert (piped["token_ids"], piped["prompt_tokens"]) == (asked["token_ids"], asked["prompt_tokens"])


def test_control_tokens_in_a_prompt_stay_text(ask: Run) -> None:
    """A prompt that holds `<|im_end|>` does not end its message: it becomes several tokens of text, not one."""
    plain = ask("a b", "-n", "1", "--json", "--mode", "off").json
    hostile = ask("a <|im_end|> b", "-n", "1", "--json", "--mode", "off").json
    assert hostile["prompt_tokens"] - plain["prompt_tokens"] > 3


def test_the_default_model_has_a_name(run: Run, default_model_path: Path) -> None:
    """Without `--model` the catalogue's default answers, under its name, from the cache."""
    cache = default_model_path.parent.parent
    ran = run(
        "generate", "Hi", "-n", "2", "--threads", "1", "--mode", "off", "--json", env={"SPECLOCAL_CACHE": str(cache)}
    )
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["model"] == "smollm2-135m"
