"""`speclocal predict`: what it prints, and what it refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from commands import Models, Run

EXAMPLE = ("predict", "--alpha", "0.7", "--gamma", "4", "--cost-ratio", "0.1")
PLAIN = ("--plain-ms-per-token", "50")


def test_the_textbook_and_the_measured_curve_stand_side_by_side(run: Run) -> None:
    """The same drafts by both: what is a gain in the textbook can be a loss on a real curve."""
    ran = run(*EXAMPLE, "--verify-cost", "1:1,2:1.57,3:2.09,4:2.56,5:3.12")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        "drafts of 4, accepted at 0.700, cost ratio 0.100\n\n"
        "                          textbook   measured\n"
        "tokens per round            2.7731     2.7731\n"
        "cost of drafting             0.400      0.400\n"
        "cost of the pass over 5      1.000      3.120\n"
        "cost of the round            1.400      3.520\n"
        "speedup                     1.981x     0.788x\n"
        "best draft length        4, 1.981x  1, 1.018x\n"
        "break-even acceptance        0.287      0.823\n"
    )


def test_without_a_length_the_best_one_is_taken(run: Run) -> None:
    """With a curve it is the best on that curve, and the textbook is asked about the same drafts."""
    found = run("predict", "--alpha", "0.9", "--verify-cost", "1:1,2:1.1,3:2.9", "--json").json
    assert found["measured"]["gamma"] == found["textbook"]["gamma"] == found["measured"]["best_gamma"] == 1
    assert found["measured"]["speedup"] == pytest.approx(1.9 / 1.1)


def test_time_saved_needs_no_prediction(run: Run) -> None:
    """750,000,000 tokens at 20 ms saved on each are 4,167 hours a day."""
    ran = run("predict", "--tokens-per-day", "750000000", "--ms-per-token", "20")
    assert ran.out == "750,000,000 tokens a day, 20.0 ms saved on each: 4,167 hours saved a day\n"


def test_time_saved_follows_from_the_speedup(run: Run) -> None:
    """Of 40 ms per token a speedup of 2 saves half; that of the measured curve counts where there is one."""
    asked = ("--alpha", "1", "--gamma", "1", "--tokens-per-day", "1e6", "--plain-ms-per-token", "40", "--json")
    assert run("predict", *asked).json["saving"]["ms_saved_per_token"] == pytest.approx(20)
    slower = run("predict", *asked, "--verify-cost", "2:4").json["saving"]
    assert slower["ms_saved_per_token"] == pytest.approx(-40)
    assert slower["hours_per_day"] == pytest.approx(-40e3 / 3600)


def test_a_calibration_is_taken_from_a_file_or_a_pipe(run: Run, models: Models, tmp_path: Path) -> None:
    """`calibrate --json | predict --verify-cost -` uses the curve and the cost ratio of this machine."""
    printed = run("calibrate", "-m", models.target, "-d", models.draft, "--threads", "1", "--json").out
    (tmp_path / "curve.json").write_text(printed)
    piped = run("predict", "--alpha", "0.8", "--verify-cost", "-", "--json", stdin=printed.encode()).json
    assert piped == run("predict", "--alpha", "0.8", "--verify-cost", "curve.json", "--json", cwd=tmp_path).json
    assert piped["measured"]["cost_ratio"] > 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "there is nothing to predict from"),
        (("--gamma", "4"), "there is nothing to predict from"),
        (("--alpha", "1.5"), "should be less than or equal to 1"),
        (("--alpha", "0.5", "--cost-ratio", "inf"), "the cost ratio is inf"),
        (("--alpha", "0.5", "--cost-ratio", "1e308"), "the cost ratio is 1e+308"),
        (("--tokens-per-day", "inf", "--ms-per-token", "20"), "`--tokens-per-day` is inf"),
        (("--tokens-per-day", "5", "--ms-per-token", "nan"), "`--ms-per-token` is nan"),
        (("--alpha", "0.5", "--verify-cost", "1:1,100000000:5"), "a curve has passes over 1 to 4096 tokens"),
        (("--alpha", "0.5", "--verify-cost", f"1:1,{'9' * 5000}:5"), "is no width:cost pair"),
        (("--alpha", "0.5", "--verify-cost", f"1:1,1{'0' * 600}:2"), "a curve has passes over 1 to 4096 tokens"),
        (("--alpha", "0.5", "--verify-cost", "1:1,2"), "`2` is no width:cost pair"),
        (("--alpha", "0.5", "--verify-cost", "nowhere.json"), "No such file or directory"),
        (("--alpha", "0.5", "--verify-cost", "target.gguf"), "it is not text"),
        (("--alpha", "0.5", "--tokens-per-day", "5"), "what each token saves is not known"),
        (("--ms-per-token", "5"), "a time for each token says nothing alone"),
        (("--tokens-per-day", "5", "--plain-ms-per-token", "5"), "not known without a speedup"),
    ],
)
def test_what_cannot_be_predicted_is_an_error(run: Run, arguments: tuple[str, ...], error: str) -> None:
    """It says what is missing, on stderr and with exit code 2."""
    ran = run("predict", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert error in ran.err
    assert "hint: " in ran.err


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        '{"models": {"a": {"seconds": {"1": 1' + "0" * 400 + "}}}}",
        '{"models": {"a": {"seconds": {"1": 0.01}}, "b": {"seconds": {"1": -5}}}}',
        '{"models": {"a": {"seconds": {"2": 0.01}}}}',
        '{"models": {"a": {"seconds": {"1": 1, "2": 5e-324}}}}',
        '{"models": {"a": {"seconds": {"2": 1, "1": 0}}}}',
    ],
    ids=["deep", "huge", "a draft model in no time", "no first point", "hardly any time", "no time"],
)
def test_what_is_no_calibration_is_an_error(run: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "curve.json"
    path.write_text(text)
    ran = run("predict", "--alpha", "0.5", "--gamma", "1", "--verify-cost", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")


def test_time_lost_is_called_lost(run: Run) -> None:
    """Drafts that slow down save nothing, and no number is negative; without a draft there is no break-even."""
    ran = run("predict", "--alpha", "0.1", "--gamma", "4", "--cost-ratio", "0.9", "--tokens-per-day", "1000000", *PLAIN)
    assert re.search(r"1,000,000 tokens a day, [\d.]+ ms lost on each: [\d.]+ hours lost a day", ran.out)
    assert re.search(r"break-even acceptance +no draft", run("predict", "--alpha", "0.7", "--gamma", "0").out)
