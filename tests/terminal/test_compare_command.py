"""`compare` as people run it: what it prints, writes and refuses, and what is seen while it runs."""

from __future__ import annotations

import csv
import json
import re
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, Models, Ran, Run
from pty_tools import Terminal

from speclocal.jobs.comparison import from_json

RHYME = "the cat sat on the mat and the cat sat on the hat"


@pytest.fixture(scope="module")
def compare(run: Run, models: Models) -> Run:
    """Run `compare` on the tiny target with one thread, short replies, once; later options overrule."""

    def run_compare(*arguments: str, **kwargs: Any) -> Ran:
        return run("compare", "-m", models.target, "--threads", "1", "-n", "8", "--repeats", "1", *arguments, **kwargs)

    return run_compare


@pytest.fixture(scope="module")
def report(run: Run, models: Models, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of all modes on a prompt, three times."""
    path = tmp_path_factory.mktemp("reports") / "report.json"
    options = ("-m", models.target, "-d", models.draft, "--threads", "1", "-n", "8")
    path.write_text(run("compare", RHYME, *options, "--json").out)
    return path


def test_a_comparison_is_tables_and_a_verdict_on_stdout(compare: Run, models: Models) -> None:
    """Outside a terminal nothing is drawn twice and nothing is coloured, and stderr is empty."""
    ran = compare(RHYME, "-d", models.draft, "--modes", "lookup:3,draft,auto", "--repeats", "2")
    assert (ran.code, ran.err) == (0, "")
    assert "\x1b" not in ran.out
    lines = ran.out.splitlines()
    assert lines[0].startswith("target.gguf with draft.gguf: ")
    assert "speclocal " in lines[0]
    assert lines[1] == "greedy, replies of up to 8 tokens, every mode 2 times in rotating order"
    assert [line.split()[0] for line in lines[5:9]] == ["off", "lookup:3", "draft", "auto"]
    assert lines[-1] == "texts: every mode wrote the very tokens of plain decoding"
    assert lines[-2].startswith("every mode ran twice: ")
    assert lines[-3].startswith("prompt: ")
    assert any(line.startswith("tokens/s: ") for line in lines)


def test_the_modes_of_default_are_those_the_models_allow(compare: Run, models: Models) -> None:
    """Without a draft model mode `draft` is left out with a note; where it was asked for, that is an error."""
    told = compare(RHYME, "--json")
    assert told.json["comparisons"][0]["modes"] == ["off", "lookup", "auto"]
    assert told.err == "`draft` is left out: no draft model\n"
    refused = compare(RHYME, "--modes", "off,draft:4")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.startswith("error: mode `draft` needs a draft model")
    both = compare(RHYME, "-d", models.draft, "--json")
    assert both.json["comparisons"][0]["modes"] == ["off", "lookup", "draft", "auto"]


def test_json_is_the_records_and_what_follows_from_them(report: Path) -> None:
    told = json.loads(report.read_text())
    (comparison,) = from_json(told)
    assert comparison.complete
    assert len(comparison.runs) == 12
    (entry,) = told["comparisons"]
    assert [(each["task"], each["mode"]) for each in entry["measures"]] == [
        ("prompt", mode) for mode in ("off", "lookup", "draft", "auto")
    ]
    assert entry["measures"][1]["speedup"]["pairs"] == 3
    assert [each["mode"] for each in entry["overall"]] == ["lookup", "draft", "auto"]
    assert set(entry["use"]) == {"prompt"}
    assert entry["use_overall"] == entry["use"]["prompt"]


def test_csv_has_a_row_for_every_task_and_mode(compare: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    ran = compare(RHYME, "--modes", "lookup", "--csv", str(path))
    assert ran.code == 0
    assert "tokens/s" in ran.out
    printed = compare(RHYME, "--modes", "lookup", "--csv", "-")
    for text in (path.read_text(), printed.out):
        off, lookup = csv.DictReader(StringIO(text))
        assert (off["mode"], lookup["mode"], lookup["runs"], lookup["same_text"]) == ("off", "lookup", "1", "yes")
        assert (off["speedup"], lookup["speedup_low"]) == ("", "")
        assert float(lookup["speedup"]) > 0


def test_a_report_is_shown_again_as_it_was(run: Run, report: Path, tmp_path: Path) -> None:
    """`--replay` needs no model, prints the same tables every time, and turns into every other form."""
    shown = run("compare", "--replay", str(report))
    assert shown.code == 0
    assert shown.out == run("compare", "--replay", str(report)).out
    again = run("compare", "--replay", str(report), "--json", "--save", str(tmp_path / "copy.json"))
    assert again.json == json.loads(report.read_text()) == json.loads((tmp_path / "copy.json").read_text())
    assert len(run("compare", "--replay", str(report), "--csv", "-").out.splitlines()) == 5


def test_two_reports_are_laid_side_by_side(run: Run, report: Path, tmp_path: Path) -> None:
    """The second may be given as an argument or by another `--replay`; every speedup is compared."""
    told = json.loads(report.read_text())
    for each in told["comparisons"][0]["runs"]:  # real times would differ by chance
        each["decode_seconds"] = 1.0 + 0.01 * each["repeat"]
        each["request_seconds"] = 2.0
    first, other = tmp_path / "first.json", tmp_path / "other.json"
    first.write_text(json.dumps(told))
    for each in told["comparisons"][0]["runs"]:
        if each["mode"] == "lookup":
            each["decode_seconds"] *= 100
            each["request_seconds"] *= 100
    other.write_text(json.dumps(told))
    shown = run("compare", "--replay", str(first), str(other))
    assert shown.code == 0
    assert "both were measured under the same conditions" in shown.out
    assert re.search(r"^lookup .* 0\.01x, differs$", shown.out, re.M)
    assert re.search(r"^draft .* 1\.00x, within noise$", shown.out, re.M)
    assert run("compare", "--replay", str(first), "--replay", str(other)).out == shown.out


def test_reports_of_several_models_are_shown_one_by_one(run: Run, report: Path, tmp_path: Path) -> None:
    """Side by side there is room for one model each: else every one has its tables, and none is dropped."""
    told = json.loads(report.read_text())
    names = ("first.gguf", "second.gguf")
    two = {**told, "comparisons": [json.loads(json.dumps(told["comparisons"][0])) for _ in names]}
    for each, name in zip(two["comparisons"], names, strict=True):
        each["target"]["name"] = name
    both, page = tmp_path / "both.json", tmp_path / "page.html"
    both.write_text(json.dumps(two))
    shown = run("compare", "--replay", str(both), str(report), "--report", str(page))
    assert (shown.code, shown.out.count("mode    tokens/s") + shown.out.count("mode      tokens/s")) == (0, 3)
    for name in names:
        assert f"{name} with " in shown.out
        assert f"<h1>{name} with " in page.read_text()


def test_a_file_is_summarized_and_tasks_are_chosen(compare: Run, models: Models, tmp_path: Path) -> None:
    """A file, a prompt and built-in tasks are all asked about, in this order."""
    file = tmp_path / "notes.txt"
    file.write_text("The ferry runs at nine. The ferry does not run on Sundays.")
    options = ("--modes", "lookup", "-n", "4", "--json")
    told = compare("hello", "--file", str(file), "--tasks", "prose", *options).json["comparisons"][0]
    assert [(task["name"], task["kind"]) for task in told["tasks"]] == [
        ("prompt", "prompt"),
        (str(file), "summary"),
        ("prose-lighthouse", "prose"),
    ]
    assert told["tasks"][1]["text"].startswith("The ferry runs at nine.")
    assert "Summarize the text above" in told["tasks"][1]["text"]
    assert told["conditions"]["params"]["repeat_penalty"] == 1.0
    alone = compare("--file", str(file), *options).json["comparisons"][0]
    assert alone["conditions"]["params"]["repeat_penalty"] == 1.1


def test_built_in_tasks_that_do_not_fit_are_left_out(compare: Run) -> None:
    """The tiny model was trained on 4,096 tokens of few letters each: the minutes are too long for it."""
    ran = compare("--modes", "lookup", "-n", "2", "--json")
    names = [task["name"] for task in ran.json["comparisons"][0]["tasks"]]
    assert "chat-bread" in names
    assert "summary-minutes" not in names
    assert re.match(r"`summary-minutes` is left out: \d+ tokens and a reply of 2 do not fit", ran.err)


def test_several_models_are_compared_one_after_the_other(compare: Run, models: Models) -> None:
    ran = compare(RHYME, "-m", models.draft, "--modes", "lookup", "--json")
    assert [each["target"]["name"] for each in ran.json["comparisons"]] == [models.target, models.draft]
    shown = compare(RHYME, "-m", models.draft, "--modes", "lookup")
    assert [line for line in shown.out.splitlines() if line.startswith(("target.gguf:", "draft.gguf:"))]


def test_what_was_measured_before_an_error_is_shown(compare: Run, models: Models) -> None:
    """A second model whose header is sound but which cannot be loaded does not cost the numbers of the first."""
    ran = compare(RHYME, "-m", models.unloadable, "--modes", "lookup")
    assert ran.code == 1
    assert "tokens/s" in ran.out
    assert f"`{models.unloadable}`" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--modes", "fast"), "error: there is no mode `fast`\n\nhint: choose from auto, off, lookup, draft\n"),
        (("--modes", "off"), "error: `off` leaves nothing to compare with plain decoding\n"),
        (("--modes", "auto:4"), "error: mode `auto` has no fixed draft length\n"),
        (("--modes", "lookup:0"), "error: `lookup:0` asks for drafts of `0` tokens\n"),
        (("--tasks", "poem"), "error: there is no task `poem`\n\nhint: choose from chat-bread (chat), "),
        ((" ",), "error: the prompt is empty\n"),
        (("hello", "--file", "prompt"), "error: two tasks are called `prompt`\n"),
        (("-n", "0"), "error: invalid value for `--max-tokens` / `-n`: Input should be greater than or equal to 1\n"),
        (("--repeats", "0"), "error: invalid value for `--repeats`: Input should be greater than or equal to 1\n"),
        (("--json", "--csv", "-"), "error: `--json` and `--csv -` both print to stdout\n"),
        (("--csv", "nowhere/rows.csv"), "error: `--csv`: there is no directory `"),
        (("--save", "nowhere/r.json"), "error: `--save`: there is no directory `"),
        (("--save", "."), "error: `--save`: `.` is a directory\n\nhint: give the name of a file\n"),
        (("--save", "-"), "error: `--save -` cannot write to stdout\n\nhint: `--json` prints the same there\n"),
        (("--save", "one", "--csv", "one"), "error: `--csv` and `--save` both write to `one`\n"),
        (("--file", "prompt", "--csv", "./prompt"), "error: `--csv prompt` would replace what is read\n"),
        (("--report", "target.gguf"), "error: `--report target.gguf` would replace what is read\n"),
        (("--file", "nothing.txt"), "error: "),
        (("-m", "no-such-model"), "error: "),
    ],
)
def test_wrong_commands_are_refused_before_anything_runs(
    compare: Run, models: Models, arguments: tuple[str, ...], said: str
) -> None:
    (models.folder / "prompt").write_text("a file with an unlucky name")
    ran = compare(*arguments)
    assert ran.code in (1, 2)
    assert ran.out == ""
    assert ran.err.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nothing.json",), "error: `nothing.json` cannot be read: No such file or directory\n"),
        (("r.json", "--seed", "7"), "error: `--replay` measures nothing: `--seed` says what to measure\n"),
        (("r.json", "-m", "other"), "error: `--replay` measures nothing: `--model` says what to measure\n"),
        (("r.json", "--repeats", "9"), "error: `--replay` measures nothing: `--repeats` says what to measure\n"),
        (("r.json", "--csv", "r.json"), "error: `--csv r.json` would replace what is read\n"),
    ],
)
def test_an_old_report_is_not_measured(run: Run, models: Models, arguments: tuple[str, ...], said: str) -> None:
    """Options that say what to measure are refused, and the report itself is no place to write to."""
    (models.folder / "r.json").write_text("{}")
    ran = run("compare", "--replay", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(said)


def test_a_damaged_report_is_named(run: Run, report: Path, tmp_path: Path) -> None:
    path = tmp_path / "damaged.json"
    path.write_text(report.read_text()[:-100])
    ran = run("compare", "--replay", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error: `{path}` is no report of a comparison: ")


def command(models: Models, *arguments: str) -> list[str]:
    model = str(models.folder / models.target)
    return [*COMMAND, "compare", RHYME, "-m", model, "--threads", "1", "--modes", "lookup,auto", *arguments]


@pytest.mark.parametrize("columns", [80, 40])
def test_the_table_fills_in_while_it_runs(models: Models, environment: dict[str, str], columns: int) -> None:
    """On a terminal the share that is done, the time left and the table so far are seen; then only the result is."""
    with Terminal(command(models, "-n", "400"), columns=columns, env=environment) as terminal:
        terminal.wait_for(lambda: any(re.match(r"\d+%, about .* left  █", row) for row in terminal.rows))
        terminal.wait_for(lambda: any(re.match(r"prompt +[\d.,]+/s +[\d.]+x", row) for row in terminal.rows))
        assert terminal.end() == 0
    assert not any(re.match(r"\d+%", line) for line in terminal.lines)  # bars of times may have its blocks, too
    assert sum(line.startswith("mode ") for line in terminal.lines) >= 1
    assert terminal.whole
    assert not terminal.screen.cursor.hidden


def test_ctrl_c_prints_a_whole_json_object(models: Models, environment: dict[str, str]) -> None:
    """What was measured is in it, and that it is not complete; a replay says so too."""
    program = (
        "import signal\n"
        "from speclocal.jobs.compare import Comparing\n"
        "progress = Comparing._progress\n"
        "def interrupted(self, doing):\n"
        "    if len(self.so_far.runs) == 4: signal.raise_signal(signal.SIGINT)\n"
        "    return progress(self, doing)\n"
        "Comparing._progress = interrupted\n"
        "from speclocal.terminal.cli import main\n"
        "main()"
    )
    arguments = command(models, "-n", "8", "--json")[len(COMMAND) :]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"")
    (comparison,) = from_json(json.loads(done.stdout))
    assert (len(comparison.runs), comparison.complete) == (4, False)


def test_ctrl_c_shows_what_was_measured(models: Models, environment: dict[str, str]) -> None:
    """The finished runs are shown, marked as incomplete, with the exit code of an interrupt."""
    with Terminal(command(models, "-n", "400", "--repeats", "500"), env=environment, rows=40) as terminal:
        terminal.wait_for(lambda: any(re.match(r"prompt +[\d.,]+/s +[\d.]+x", row) for row in terminal.rows))
        terminal.press("c")
        assert terminal.end() == 130
    assert any(line.startswith("INCOMPLETE: ") for line in terminal.lines)
    assert any(line.startswith("lookup ") for line in terminal.lines)
    assert not any(" left" in line for line in terminal.lines)
    assert "Traceback" not in terminal.text
    assert terminal.whole
    assert not terminal.screen.cursor.hidden


def test_a_stopped_process_leaves_the_terminal_as_it_was(models: Models, environment: dict[str, str]) -> None:
    """Ctrl-Z takes the table away and shows the cursor; after `fg` the table is there again."""

    def drawn() -> bool:
        return any(re.match(r"\d+%, about .* left", row) for row in terminal.rows)

    with Terminal(command(models, "-n", "400", "--repeats", "500"), env=environment) as terminal:
        terminal.wait_for(drawn)
        terminal.press("z")
        terminal.wait_for(lambda: not drawn() and not terminal.screen.cursor.hidden)
        terminal.kill(signal.SIGCONT)
        terminal.wait_for(drawn)
        terminal.press("c")
        assert terminal.end() == 130
    assert terminal.whole
