"""What a model is asked for: form, length, question and language in words, always after the text."""

from __future__ import annotations

import pytest

from speclocal.jobs.modes import Style
from speclocal.jobs.requests import Request, with_text

EVERY = [
    Request(style, num_words, question, language)
    for style in Style
    for num_words in (None, 250)
    for question in ("", "Who is Ada?")
    for language in ("", "French")
]


@pytest.mark.parametrize("request_", EVERY)
def test_a_request_says_all_that_is_wanted(request_: Request) -> None:
    """The reply is told its form, length, question and language; notes on parts are told all but form and length."""
    assert ("250 words" in request_.about_text()) == (request_.num_words == 250)
    assert ("bullet" in request_.about_text()) == (request_.style is Style.BULLETS)
    for asked in (request_.about_text(), request_.about_part()):
        assert (request_.question or "ummarize") in asked
        assert ("Write in French." in asked) == bool(request_.language)


def test_the_plain_summary() -> None:
    """The default, word for word."""
    assert Request().about_text() == "Summarize the text above in one short paragraph. Keep to what it says."
    assert with_text(" text\n", "do") == "text\n\n---\n\ndo"
