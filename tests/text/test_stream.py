"""Streamed text equals the text of the whole bytes up to the first stop, however the bytes are cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speclocal.errors import UsageError
from speclocal.text.stream import TextStream

TEXTS = st.text(alphabet="ab\n é€😀", max_size=40)
STOPS = st.lists(st.text(alphabet="ab\n é€", min_size=1, max_size=4), max_size=4)
CUTS = st.lists(st.integers(min_value=0, max_value=200), max_size=30)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return [data[start:end] for start, end in pairwise(places)]


def reference(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Read the text character by character until it ends in a stop, the longest that it ends in."""
    for end in range(len(text) + 1):
        met = [stop for stop in stops if text[:end].endswith(stop)]
        if met:
            stop = max(met, key=len)
            return text[: end - len(stop)], stop
    return text, None


def streamed(data: list[bytes], stops: list[str]) -> tuple[str, TextStream]:
    stream = TextStream(stops)
    return "".join([*map(stream.push, data), stream.finish()]), stream


@given(TEXTS, STOPS, CUTS)
def test_streamed_text_is_the_text_up_to_the_first_stop(text: str, stops: list[str], cuts: list[int]) -> None:
    shown, stream = streamed(pieces(text.encode(), cuts), stops)
    assert (shown, stream.stopped) == reference(text, stops)


@given(st.binary(max_size=40), CUTS)
def test_any_bytes_decode_as_in_one_piece(data: bytes, cuts: list[int]) -> None:
    shown, _ = streamed(pieces(data, cuts), [])
    assert shown == data.decode("utf-8", errors="replace")


@given(st.binary(max_size=40), STOPS, CUTS)
def test_text_is_what_was_returned(data: bytes, stops: list[str], cuts: list[int]) -> None:
    shown, stream = streamed(pieces(data, cuts), stops)
    assert stream.text == shown


@given(TEXTS, STOPS, CUTS)
def test_no_more_than_a_stop_is_held_back(text: str, stops: list[str], cuts: list[int]) -> None:
    stream, received = TextStream(stops), b""
    for piece in pieces(text.encode(), cuts):
        stream.push(piece)
        received += piece
        held = len(received.decode("utf-8", errors="ignore")) - len(stream.text)
        assert stream.stopped or held < max(map(len, stops), default=1)


def test_a_character_is_shown_once_it_is_whole() -> None:
    stream = TextStream()
    assert [stream.push(bytes([byte])) for byte in "é€".encode()] == ["", "é", "", "", "€"]


def test_a_character_cut_off_by_the_end_is_one_replacement_character() -> None:
    assert streamed(["€".encode()[:2]], [])[0] == "\ufffd"


def test_what_might_begin_a_stop_waits_until_it_does_not() -> None:
    stream = TextStream(["###"])
    assert [stream.push(b"a##"), stream.push(b"b#"), stream.finish()] == ["a", "##b", "#"]


def test_nothing_follows_a_stop() -> None:
    stream = TextStream(["END"])
    assert [stream.push(b"x EN"), stream.push(b"D y"), stream.push(b"z"), stream.finish()] == ["x ", "", "", ""]
    assert stream.stopped == "END"


def test_the_stop_that_ends_first_wins() -> None:
    shown, stream = streamed([b"abcd"], ["abcd", "c"])
    assert (shown, stream.stopped) == ("ab", "c")


def test_of_stops_that_end_together_the_longest_wins() -> None:
    shown, stream = streamed([b"xab", b"c"], ["c", "abc", "bc"])
    assert (shown, stream.stopped) == ("x", "abc")


def test_an_empty_stop_is_refused() -> None:
    with pytest.raises(UsageError, match="stop string is empty"):
        TextStream(["a", ""])
