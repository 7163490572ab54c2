"""Comparisons as JSON: they come back the same, and what is none is refused with the place that does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from comparisons import comparison

from speclocal.errors import UsageError
from speclocal.jobs.comparison import from_json, load, to_json
from speclocal.jobs.modes import Mode
from speclocal.jobs.wanted import ComparedMode

THREE = comparison({"chat-bread": {"off": [1.0, 1.1, 1.2], "lookup": [0.5, 0.6, 0.7]}}, draft=True)


def document() -> Any:
    return json.loads(json.dumps(to_json([THREE, comparison({"prose": {"off": [1.0]}})])))


def test_a_comparison_comes_back_from_json_as_it_was() -> None:
    """Everything that is recorded survives the way through JSON text, with its types."""
    first, second = from_json(document())
    assert first == THREE
    assert first.target.calibration.seconds == {1: 0.010, 2: 0.012, 4: 0.016, 8: 0.024}
    assert second.draft is None


def test_what_a_later_speclocal_adds_is_left_out() -> None:
    """A report with more in it than is known is read all the same."""
    told = document()
    told["comparisons"][0]["weather"] = "fine"
    told["measures"] = []
    assert from_json(told)[0] == THREE


def damage(told: Any, what: str) -> Any:
    first = told["comparisons"][0]
    match what:
        case "a string for a number":
            first["runs"][1]["decode_seconds"] = "fast"
        case "a boolean for a number":
            first["runs"][1]["decode_seconds"] = True
        case "no time":
            first["runs"][1]["decode_seconds"] = 0.0
        case "tokens from nowhere":
            first["runs"][1]["token_ids"].append(9)
        case "acceptance above 1":
            first["runs"][3]["accepted_at"] = [2, 2, 2]
        case "no rounds":
            first["runs"][3]["passes"][0]["rounds"] = 0
        case "positions without tokens":
            first["runs"][3]["tested_at"] = [0]
            first["runs"][3]["accepted_at"] = [0]
        case "more accepted than drafted":
            first["runs"][3]["passes"][1]["accepted"] = 500
        case "drafts of any length":
            first["runs"][3]["passes"][1]["drafted"] = 10**18
        case "a number that is none":
            first["runs"][3]["passes"][1]["draft_seconds"] = float("nan")
        case "a time without end":
            first["runs"][3]["request_seconds"] = 1e308
        case "a prompt in no time at all":
            first["tasks"][0]["prompt_seconds"] = -1.0
        case "a cause that nobody knows":
            first["forks"][0]["cause"] = "weather"
        case "a curve as wide as memory":
            first["target"]["calibration"]["seconds"]["2000000000"] = 1.0
        case "a mode that was not compared":
            first["modes"] = ["off"]
        case "no tasks":
            first["tasks"] = []
        case "a round from nowhere":
            first["replies"][0]["rounds"][0]["emitted"] = 9
        case "passes in no time":
            first["target"]["calibration"]["seconds"]["1"] = 0
        case "a curve without its first point":
            del first["target"]["calibration"]["seconds"]["1"]
        case "a missing field":
            del first["machine"]["cpu"]
        case "a list for an object":
            first["target"] = []
        case "an impossible temperature":
            first["conditions"]["params"]["temperature"] = -1.0
        case "another form":
            told["format"] = 99
        case "nothing in it":
            told["comparisons"] = []
    return told


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("a string for a number", "Comparison.runs[1].decode_seconds is 'fast', not float"),
        ("a boolean for a number", "Comparison.runs[1].decode_seconds is True, not float"),
        ("no time", "a reply in 0.0 of 1.6 seconds"),
        ("tokens from nowhere", "a reply of 9 tokens whose passes say otherwise"),
        ("acceptance above 1", "a reply that accepted more tokens than were tested, or positions without any"),
        ("no rounds", "0 rounds with 2 tokens"),
        ("positions without tokens", "a reply that accepted more tokens than were tested, or positions without any"),
        ("more accepted than drafted", "drafts of 3: 6 tokens drafted, 5 tested, 500 accepted"),
        (
            "drafts of any length",
            "drafts of 1000000000000000000: 2000000000000000000 tokens drafted, 5 tested, 4 accepted",
        ),
        ("a number that is none", "Comparison.runs[3].passes[1].draft_seconds is nan"),
        ("a time without end", "a reply in 0.5 of 1e+308 seconds"),
        ("a prompt in no time at all", "something that took -1.0, 0.0 seconds"),
        ("a cause that nobody knows", "'weather' is not a valid Cause"),
        ("a curve as wide as memory", "a calibration has passes over 1 to 4096 tokens"),
        ("a mode that was not compared", "something of `lookup` on `chat-bread`, which were not compared"),
        ("no tasks", "something of `"),
        ("a round from nowhere", "a round of 9 tokens, 3 of them drafted"),
        ("passes in no time", "a pass that takes no time, or for ever"),
        (
            "a curve without its first point",
            "a calibration needs a pass over one token, and a depth at which widths were compared",
        ),
        ("a missing field", "Comparison.machine has no cpu"),
        ("a list for an object", "Comparison.target is [], not dict"),
        ("an impossible temperature", "temperature is -1.0"),
        ("another form", "it has form 99, this speclocal reads form 1"),
        ("nothing in it", "it holds no comparison"),
    ],
)
def test_a_damaged_report_names_its_first_fault(tmp_path: Path, what: str, said: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(damage(document(), what)))
    with pytest.raises(UsageError) as error:
        load(path)
    assert error.value.message.startswith(f"`{path}` is no report of a comparison: {said}")


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"text": "a reply"}', "[" * 100_000])
def test_other_files_are_no_reports(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="is no report of a comparison"):
        load(path)


def test_texts_that_are_none_are_spelled_out(tmp_path: Path) -> None:
    """Half a surrogate, as a file name that is not UTF-8 has, can be shown and written again."""
    told = document()
    told["comparisons"][0]["target"]["name"] = "m\udce9"
    path = tmp_path / "report.json"
    path.write_text(json.dumps(told))
    assert load(path)[0].target.name == "m\\udce9"


def test_a_report_that_is_not_there_is_a_wrong_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(tmp_path / "nothing.json")


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("off", ComparedMode(Mode.OFF)),
        (" auto ", ComparedMode(Mode.AUTO)),
        ("lookup:10", ComparedMode(Mode.LOOKUP, 10)),
        ("draft:64", ComparedMode(Mode.DRAFT, 64)),
    ],
)
def test_modes_have_names(text: str, mode: ComparedMode) -> None:
    assert ComparedMode.parse(text) == mode
    assert mode.name == text.strip()


@pytest.mark.parametrize(
    "text", ["", "fast", "off:3", "auto:4", "lookup:", "lookup:0", "draft:65", "draft:x", "draft:²"]
)
def test_what_is_no_mode_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as error:
        ComparedMode.parse(text)
    assert error.value.hint
