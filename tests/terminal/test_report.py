"""The report of a comparison: all of it in one page, nothing in it taken for markup, and enough to repeat it."""

from __future__ import annotations

import base64
import json
import os
import shlex
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from commands import Models, Run
from comparisons import comparison

from speclocal.decoding.types import SamplingParams
from speclocal.errors import UsageError
from speclocal.jobs.comparison import Comparison, RoundRecord, TaskRecord, load
from speclocal.jobs.measures import acceptance_counts, widths_used
from speclocal.terminal import plots
from speclocal.terminal.report import repeat_command, report_page, section

SECONDS = {
    "chat-bread": {"off": (1.0, 1.1, 1.2), "lookup": (0.5, 0.6, 0.7)},
    "notes": {"off": (1.0, 1.0, 1.0), "lookup": (2.0, 2.0, 2.0)},
}
ATTACK = "<script>alert('x')</script> & $\\frac{1$ \u65e5\u672c"


@pytest.fixture
def made_up() -> Comparison:
    return comparison(SECONDS, draft=True)


def test_the_page_holds_what_was_measured(made_up: Comparison) -> None:
    """Speeds, speedups, hashes, versions, settings and the verdict are in the text of the page."""
    page = report_page([made_up])
    for said in (
        "0.50x",
        "a" * 64,
        "b" * 64,
        "0.3.36",
        "Example CPU",
        "none: greedy",
        "acceptance rate",
        "chat-bread",
    ):
        assert said in page
    assert page.count('<img src="data:image/svg+xml;base64,') == 3


def test_nothing_in_it_is_taken_for_markup(made_up: Comparison) -> None:
    """Names of models, tasks and modes, and texts of replies are escaped, on the page and in its pictures."""
    evil = replace(
        made_up,
        target=replace(made_up.target, name=ATTACK),
        tasks=tuple(replace(task, name=ATTACK, kind=ATTACK) for task in made_up.tasks[:1]),
        runs=tuple(replace(run, task=ATTACK) for run in made_up.runs if run.task == "chat-bread"),
        replies=tuple(replace(reply, task=ATTACK, text=ATTACK) for reply in made_up.replies[:1]),
        forks=tuple(replace(fork, task=ATTACK, plain_text=ATTACK) for fork in made_up.forks),
        machine=replace(made_up.machine, cpu=ATTACK),
    )
    for page in (report_page([evil]), report_page([evil, evil], side_by_side=True)):
        assert "<script" not in page
        assert page.count("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp;") > 5
        assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in page


def test_pictures_are_whole_and_told_in_words(made_up: Comparison) -> None:
    """Each is one SVG, the same from the same numbers, with its numbers in words beside it."""
    drawn = section(made_up)
    again = section(made_up)
    assert drawn.acceptance
    assert drawn.speedups
    for plot in (drawn.speedups, drawn.costs, drawn.acceptance):
        kind, _, data = plot.source.partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert ET.fromstring(base64.b64decode(data)).tag == "{http://www.w3.org/2000/svg}svg"
    assert drawn.costs == again.costs
    assert "4 tokens: 1.60" in drawn.costs.words
    assert "notes, lookup: 0.50" in drawn.speedups.words


def test_passes_are_counted_by_width(made_up: Comparison) -> None:
    """Of six replies by lookup each ran two passes over one token, and two over a draft of three and one more."""
    assert widths_used(made_up)["lookup"] == {1: 12, 4: 12}
    assert widths_used(made_up)["off"] == {1: 48}
    assert acceptance_counts([run for run in made_up.runs if run.mode == "lookup"]) == [(12, 12), (12, 6), (6, 6)]
    assert acceptance_counts([run for run in made_up.runs if run.mode == "off"]) == []


def test_a_strip_has_a_block_for_every_token_of_a_pass(made_up: Comparison) -> None:
    """Of five drafted tokens two are kept, one is rejected, two are not looked at, and the target adds its own."""
    rounds = (RoundRecord(0, "lookup", 5, 3, 2, 3, 0.0, 0.0), RoundRecord(3, "off", 0, 0, 0, 1, 0.0, 0.0))
    shown = section(replace(made_up, replies=(replace(made_up.replies[0], rounds=rounds),)))
    [strip] = shown.strips
    assert strip.rounds[0] == ("accepted", "accepted", "rejected", "untested", "untested", "target")
    assert strip.rounds[1] == ("target",)


def test_a_comparison_without_drafts_has_a_page(made_up: Comparison) -> None:
    """Stopped before anything was drafted, it says so."""
    runs = tuple(run for run in made_up.runs if run.mode == "off")
    page = report_page([replace(made_up, runs=runs, replies=(), forks=(), complete=False)])
    assert "No mode drafted anything." in page
    assert "There is no reply with drafts." in page
    assert "Nothing was measured that could be drawn." in page
    assert "Stopped before its end" in page


def test_two_reports_stand_side_by_side(made_up: Comparison) -> None:
    """What differs is named, and how each speedup changed."""
    other = comparison({"chat-bread": {"off": (1.0, 1.1, 1.2), "lookup": (0.25, 0.31, 0.35)}}, draft=True)
    page = report_page([made_up, replace(other, machine=replace(other.machine, cpu="Other CPU"))], side_by_side=True)
    assert "the two differ in: machine" in page
    assert "1.98x, differs" in page
    assert page.count('<div class="pair">') == 6


def nothing_of(made_up: Comparison, **changes: Any) -> Comparison:
    """The same comparison before anything was measured."""
    return replace(made_up, runs=(), replies=(), forks=(), **changes)


def test_a_command_line_loses_no_digits(made_up: Comparison) -> None:
    """What is repeated is what was measured, not what it is rounded to; the layout of the weights is part of it."""
    params = SamplingParams(temperature=0.12345678, top_p=0.99999999, min_p=1e-9, repeat_penalty=1.00000001)
    conditions = replace(made_up.conditions, params=params, layout="file", reading_layout="file")
    words = shlex.split(repeat_command(replace(made_up, conditions=conditions)))
    options = dict(pairwise(words))
    for option, value in (("--temperature", 0.12345678), ("--top-p", 0.99999999), ("--min-p", 1e-9)):
        assert float(options[option]) == value
    assert (float(options["--repeat-penalty"]), options["--layout"]) == (1.00000001, "file")


def test_a_command_line_names_all_that_was_asked(made_up: Comparison) -> None:
    """Built-in tasks by name, files by name, a prompt as it was, settings and models."""
    asked = (
        *made_up.tasks[:1],
        TaskRecord("notes.txt", "summary", "...", 20, 0.5, None),
        TaskRecord("prompt", "prompt", "what's `this`?", 20, 0.5, None),
    )
    conditions = replace(made_up.conditions, seed=7, raw=True, gpu_layers=0)
    words = shlex.split(repeat_command(nothing_of(made_up, tasks=asked, conditions=conditions)))
    assert words[:2] == ["speclocal", "compare"]
    options = {word: words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("--")}
    expected = {"--model": "target", "--draft": "small", "--modes": "off,lookup", "--tasks": "chat-bread"}
    expected |= {"--file": "notes.txt", "--seed": "7", "--gpu-layers": "0", "--repeats": "3", "--temperature": "0"}
    assert expected.items() <= options.items()
    assert words[-2:] == ["--", "what's `this`?"]
    assert "--raw" in words


def test_the_command_line_on_the_page_repeats_the_comparison(run: Run, models: Models, tmp_path: Path) -> None:
    """Run as it stands there, it compares the same modes and tasks under the same conditions."""
    first, second, notes = tmp_path / "first.json", tmp_path / "second.json", tmp_path / "notes.txt"
    asked = ("-m", models.target, "-d", models.draft, "--threads", "1", "-n", "6")
    options = ("--modes", "lookup:3,draft", "--repeats", "2", "-t", "0.5", "--seed", "3", "--file", str(notes))
    notes.write_text("the cat sat on the mat")
    prompt = ("--", "-- the cat's mat, the cat's mat")
    assert run("compare", *asked, *options, "--save", str(first), *prompt).code == 0
    [before] = load(first)
    assert run("compare", "--save", str(second), *shlex.split(repeat_command(before))[2:]).code == 0
    [after] = load(second)
    assert (after.conditions, after.modes, after.target.sha256) == (
        before.conditions,
        before.modes,
        before.target.sha256,
    )
    assert [task.text for task in after.tasks] == [task.text for task in before.tasks]
    assert [each.token_ids for each in after.runs] == [each.token_ids for each in before.runs]


@pytest.mark.parametrize("place", ["nowhere/out.html", "."])
def test_a_report_that_cannot_be_written_is_refused_first(run: Run, models: Models, place: str) -> None:
    """Before a model is loaded."""
    ran = run("compare", "hello", "-m", models.cut, "--report", place)
    assert (ran.code, ran.out) == (2, "")
    assert place.split("/")[0] in ran.err


def test_without_matplotlib_a_report_is_refused_first(run: Run, models: Models, tmp_path: Path) -> None:
    """The error says how to install it; nothing is measured, and all else works without it."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['matplotlib'] = None\n")
    lacking = {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    ran = run("compare", "hello", "-m", models.cut, "--report", str(tmp_path / "out.html"), env=lacking)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: `--report` draws with matplotlib, which is not installed")
    assert "pip install matplotlib" in ran.err
    asked = ("a b a b a b", "-m", models.target, "--modes", "off,lookup", "--repeats", "1", "-n", "4", "--threads", "1")
    assert json.loads(run("compare", *asked, "--json", env=lacking).out)["comparisons"]


def test_where_matplotlib_is_the_check_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plots.check_installed()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="not installed"):
        plots.check_installed()
