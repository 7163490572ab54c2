"""Pages opened in a browser: they need nothing else, complain about nothing, and fit a narrow window."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import NAMES, Browser, find_chromium
from commands import Models, Run


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium = find_chromium()
    if chromium is None:
        pytest.skip(f"no browser here: none of {', '.join(NAMES)}")
    with Browser(chromium) as running:
        yield running


def test_a_page_that_asks_for_more_is_noticed(browser: Browser, tmp_path: Path) -> None:
    """What the other tests look for can be seen: a request, a complaint, a broken picture, and a wide page."""
    page = tmp_path / "page.html"
    page.write_text('<body style="width: 3000px"><img src="missing.png"><script>console.error("no")</script>')
    visit = browser.visit(page)
    assert visit.requests == [(tmp_path / "missing.png").as_uri()]
    assert any("no" in complaint for complaint in visit.complaints)
    assert (visit.broken, visit.scripts) == (1, 1)
    assert visit.width > 2000


@pytest.fixture(scope="module")
def explanation(run: Run, models: Models, tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "explanation.html"
    attack = "<script>alert(1)</script><img src=x>"
    drafting = ("-m", models.target, "-d", models.draft, "--threads", "1")
    assert run("explain", attack, *drafting, "--html", str(page)).code == 0
    return page


@pytest.mark.parametrize("width", [1100, 500])
def test_the_tour_is_one_page(browser: Browser, explanation: Path, width: int) -> None:
    visit = browser.visit(explanation, width)
    assert (visit.requests, visit.complaints, visit.broken, visit.scripts) == ([], [], 0, 0)
    assert visit.width <= width
    assert "6 of 6: in practice" in visit.text
    assert "<script>alert(1)</script><img src=x>" in visit.text


@pytest.fixture(scope="module")
def reports(run: Run, models: Models, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The report of a comparison, and that of two side by side."""
    folder = tmp_path_factory.mktemp("pages")
    one, two, saved = folder / "one.html", folder / "two.html", folder / "saved.json"
    attack = "the cat <script>alert(1)</script> the cat <script>alert(1)</script>"
    asked = ("-m", models.target, "-d", models.draft, "--threads", "1", "-n", "24", "--repeats", "2")
    assert run("compare", attack, *asked, "--report", str(one), "--save", str(saved)).code == 0
    again = ("--replay", str(saved), "--replay", str(saved), "--report", str(two))
    assert run("compare", *again).code == 0
    return [one, two]


@pytest.mark.parametrize("width", [1300, 500])
@pytest.mark.parametrize("which", [0, 1])
def test_a_report_is_one_page(browser: Browser, reports: list[Path], which: int, width: int) -> None:
    """Nothing is asked for and nothing complained about, all pictures show, and a narrow window is wide enough."""
    visit = browser.visit(reports[which], width)
    assert (visit.requests, visit.complaints, visit.broken, visit.scripts) == ([], [], 0, 0)
    assert visit.width <= width
    assert "Rounds of one reply" in visit.text
    assert "speclocal compare --model target.gguf --draft draft.gguf" in visit.text
    assert "<script>alert(1)</script>" in visit.text
