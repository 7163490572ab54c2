"""`speclocal explain`: six pages, by key on a terminal, as plain text, and as HTML."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import COMMAND, Models, Ran, Run
from pty_tools import Terminal

TITLES = [
    "1 of 6: why decoding waits for memory",
    "2 of 6: a cheap draft",
    "3 of 6: verify in one pass",
    "4 of 6: acceptance, length, costs",
    "5 of 6: exactly the same output",
    "6 of 6: in practice",
]
PROMPT = "the cat sat on the mat, the cat sat on the mat"


@pytest.fixture(scope="session")
def explain(run: Run, models: Models) -> Run:
    def run_explain(*arguments: str, **kwargs: Path) -> Ran:
        return run("explain", PROMPT, "-m", models.target, "--threads", "1", *arguments, **kwargs)

    return run_explain


def titles(text: str) -> list[str]:
    return re.findall(r"^\d of 6: .*$", text, re.MULTILINE)


@pytest.mark.parametrize("drafting", [(), ("-d", "draft.gguf")])
def test_all_pages_are_plain_text_in_a_pipe(explain: Run, drafting: tuple[str, ...]) -> None:
    """Six pages in order, no escape codes, no number that is none, and lines for a screen of 80 columns."""
    ran = explain(*drafting)
    assert (ran.code, titles(ran.out)) == (0, TITLES)
    assert "\x1b" not in ran.out
    assert not re.search(r"\b(nan|inf|None)\b", ran.out)
    prose = [line for line in ran.out.splitlines() if "  " not in line]
    assert max(map(len, prose)) <= 80
    assert bool(re.search("^prompt lookup +0 B", ran.out, re.MULTILINE)) == (not drafting)


def test_figures_follow_the_options(explain: Run) -> None:
    """The textbook's example stands in the table of lengths, and bandwidth sets the ceiling."""
    given = ("--alpha", "0.7", "--gamma", "4", "--cost-ratio", "0.1", "--bandwidth", "50", "--batch", "3")
    out = explain(*given, "--tokens", "1000").out
    assert re.search(r"^ +4 +2\.77  1\.98x \u2588+", out, re.MULTILINE)
    assert re.search(r"^memory here +50\.0 GB/s  given$", out, re.MULTILINE)
    assert re.search(r"^1,000 tokens +1,000 passes", out, re.MULTILINE)
    assert re.search(r"^ +3 \(chosen\) ", out, re.MULTILINE)


def test_the_tour_can_be_read_by_programs(explain: Run) -> None:
    """`--json` prints what was measured and what follows, the same drafts in every run."""
    first, second = (explain("--json", "-d", "draft.gguf").json for _ in range(2))
    assert explain("--json", "--raw").json["prompt_tokens"] < first["prompt_tokens"]
    assert first["figures"]["alpha"] == second["figures"]["alpha"]
    assert first["simulation"]["counts"] == second["simulation"]["counts"]
    assert first["textbook"]["gamma"] == 4


def test_keys_lead_forth_and_back(environment: dict[str, str], models: Models) -> None:
    """Space goes on, b goes back, other keys do nothing, q ends; the terminal is then as it was."""
    command = [*COMMAND, "explain", PROMPT, "-m", models.target, "--threads", "1"]
    with Terminal(command, env=environment, cwd=str(models.folder), rows=50) as terminal:

        def see(number: int, times: int) -> None:
            title = TITLES[number - 1]
            terminal.wait_for(lambda: titles(terminal.text).count(title) == times and "q: quit" in terminal.rows[-1])

        see(1, 1)
        terminal.type("x ")
        see(2, 1)
        terminal.type("b")
        see(1, 2)
        terminal.type("n")
        see(2, 2)
        terminal.type("\x1b[C")  # the right arrow
        see(3, 1)
        terminal.type("q")
        assert terminal.end() == 0
        assert "q: quit" not in terminal.text
        assert terminal.echoes


def test_the_tour_ends_after_its_last_page(environment: dict[str, str], models: Models) -> None:
    """Six times on is the end."""
    command = [*COMMAND, "explain", PROMPT, "-m", models.target, "--threads", "1"]
    with Terminal(command, env=environment, cwd=str(models.folder), rows=50) as terminal:
        for number in range(1, 7):
            terminal.wait_for(lambda n=number: TITLES[n - 1] in terminal.text and "q: quit" in terminal.rows[-1])
            terminal.type(" ")
        assert terminal.end() == 0
    assert titles(terminal.text) == TITLES


def test_a_page_that_is_too_long_for_the_terminal_is_parted(environment: dict[str, str], models: Models) -> None:
    """On 24 lines the title of what is shown is always to be seen; a page goes on under its title."""
    command = [*COMMAND, "explain", PROMPT, "-m", models.target, "--threads", "1"]
    with Terminal(command, env=environment, cwd=str(models.folder), rows=24) as terminal:
        seen: list[str] = []
        while not seen or seen[-1].removesuffix(" (goes on)") != TITLES[-1]:
            number = len(seen)
            terminal.wait_for(lambda n=number: len(titles(terminal.text)) > n and "q: quit" in terminal.rows[-1])
            seen.append(titles(terminal.text)[number].rstrip())
            assert seen[-1] in [row.rstrip() for row in terminal.rows]
            terminal.type(" ")
        terminal.type("q")
        assert terminal.end() == 0
    assert list(dict.fromkeys(title.removesuffix(" (goes on)") for title in seen)) == TITLES
    assert len(seen) > len(TITLES)


def test_all_pages_at_once_need_no_key(environment: dict[str, str], models: Models) -> None:
    """`--all` asks for nothing, on a terminal too."""
    command = [*COMMAND, "explain", PROMPT, "-m", models.target, "--threads", "1", "--all"]
    with Terminal(command, env=environment, cwd=str(models.folder)) as terminal:
        assert terminal.end() == 0
    assert titles(terminal.text) == TITLES


def test_what_a_person_wrote_is_no_markup_on_the_page(run: Run, models: Models, tmp_path: Path) -> None:
    """The page holds the prompt as text, no script, and a policy that forbids every request."""
    page, attack = tmp_path / "out.html", '<script>alert(1)</script> & "quotes" `<b>`'
    ran = run("explain", attack, "-m", models.target, "--threads", "1", "--html", str(page))
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith(f"written: {page}\n")
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp;" in text
    assert "default-src &#39;none&#39;" not in text
    assert "default-src 'none'; style-src 'unsafe-inline'; img-src data:" in text
    assert [title for title in TITLES if f"<h2>{title}</h2>" in text] == TITLES


@pytest.mark.parametrize("place", ["nowhere/out.html", "."])
def test_a_page_that_cannot_be_written_is_refused_first(explain: Run, place: str) -> None:
    """Before a model is loaded or measured."""
    ran = explain("--html", place)
    assert (ran.code, ran.out) == (2, "")
    assert "hint: " in ran.err


def test_the_default_model_is_explained(run: Run, default_model_path: Path) -> None:
    """On a real model the bytes are those of the file, but for its header, and the output follows p."""
    ran = run("explain", "Count from one to ten, twice.", "-m", str(default_model_path), "--threads", "1", "--json")
    found = json.loads(ran.out)
    assert found["target"]["weight_bytes"] == pytest.approx(default_model_path.stat().st_size, rel=0.05)
    assert found["simulation"]["largest_gap"] <= 5 * found["simulation"]["gap_deviation"]
