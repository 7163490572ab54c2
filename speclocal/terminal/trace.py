"""A reply round by round: shown on a key press or all at once, and written down for programs.

Knows the view and the keyboard; what a round looks like is trace_words.py's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from speclocal.decoding.stats import Stats
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.trace import rounds_of
from speclocal.llama.vocab import Vocab
from speclocal.terminal.keys import read_key
from speclocal.terminal.outputs import STDOUT
from speclocal.terminal.render import View
from speclocal.terminal.trace_words import (
    ending,
    judged_table,
    legend,
    round_json,
    round_lines,
    rule_words,
    times,
    totals,
)

_PROMPT = "any key: the next round, a: all of them, q: quit"


@contextmanager
def written(path: str) -> Iterator[TextIO | None]:
    """Open the file that rounds are written to; `-` is stdout, and no path no file."""
    if path in ("", STDOUT):
        yield sys.stdout if path else None
        return
    with open(path, "w", encoding="utf-8") as file:
        yield file


def trace(
    reply: Reply,
    vocab: Vocab,
    settings: ReplySettings,
    view: View,
    *,
    shown: bool,
    stepping: bool,
    file: TextIO | None,
) -> list[dict[str, Any]]:
    """Run a reply and return its rounds as plain values.

    shown: whether a person sees them; stepping: each on a key press. file: gets every round as a line of JSON.
    """
    begin, stats, values = reply.stats.prompt_tokens, Stats(), []
    if shown:
        view.line(legend(coloured=view.coloured))
        view.sentences([rule_words(seeded=settings.seed is not None)])
    for number, round_ in enumerate(rounds_of(reply), 1):
        stats.add(round_)
        stats.decode_seconds += round_.seconds
        values.append(round_json(number, round_, begin, vocab))
        if file:
            file.write(json.dumps(values[-1]) + "\n")
            file.flush()
        if not shown:
            continue
        view.text("\n")
        for line in round_lines(number, round_, begin, vocab, coloured=view.coloured):
            view.line(line)
        if round_.num_drafted:
            view.tables(judged_table(round_, vocab, view.columns))
        view.sentences([f"{ending(round_, vocab)}; {times(round_)}"])
        if stepping and not round_.finish:
            view.doing(_PROMPT)
            key = read_key()
            if key in ("", "q", "Q"):
                break
            stepping = key not in ("a", "A")
    if shown:
        view.sentences(["", totals(stats)])
    return values
