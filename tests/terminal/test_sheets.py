"""Pages in parts that a terminal can hold."""

from __future__ import annotations

from speclocal.terminal.sheets import Facts, Part, Sheet, divided, grid

TABLE = grid("a", "b", rows=[["1", "2"]] * 9)  # ten lines, with its headings
FACTS = Facts((("name", "1", "said"),) * 3)


def parts(*given: Part, rows: int, columns: int = 80) -> list[int]:
    screens = divided(Sheet("title", given), columns, rows)
    assert [part for screen in screens for part in screen.parts] == list(given)
    assert [screen.title for screen in screens] == ["title", *["title (goes on)"] * (len(screens) - 1)]
    return [len(screen.parts) for screen in screens]


def test_a_page_that_fits_stays_whole() -> None:
    """Two lines of title; every part has an empty line before it: 2 + 11 + 4 + 2."""
    assert parts(TABLE, FACTS, "a text", rows=19) == [3]
    assert parts(TABLE, FACTS, "a text", rows=18) == [2, 1]


def test_no_part_is_parted() -> None:
    """What is longer than the terminal stands alone."""
    assert parts("a text", TABLE, TABLE, rows=5) == [1, 1, 1]
    assert parts(TABLE, rows=1) == [1]


def test_paragraphs_take_more_lines_where_columns_are_few() -> None:
    """29 characters: one line, or two of 20."""
    assert parts("twenty-nine characters of it.", "a text", rows=6) == [2]
    assert parts("twenty-nine characters of it.", "a text", rows=6, columns=20) == [1, 1]


def test_a_page_without_parts_is_one() -> None:
    assert parts(rows=24) == [0]
