"""A round for people and for programs: what was drafted, how it was judged, what was emitted.

Knows finished rounds and a vocabulary, not where they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from speclocal.decoding.stats import Stats
from speclocal.decoding.types import Fate, Round
from speclocal.jobs.trace import DraftedToken, DraftFate, drafted_tokens
from speclocal.llama.vocab import Vocab
from speclocal.terminal import words
from speclocal.terminal.fitted import Column, fitted

_STYLES = {DraftFate.ACCEPTED: "green", DraftFate.REJECTED: "red", DraftFate.UNTESTED: "dim"}
_MARKS = {DraftFate.ACCEPTED: "+", DraftFate.REJECTED: "-", DraftFate.UNTESTED: "."}
_OWN_STYLE, _OWN_MARK = "bold cyan", "="


def legend(*, coloured: bool) -> Text:
    """Return how tokens are marked by their fates."""
    line = Text("tokens: ")
    for fate in DraftFate:
        line += _marked(fate.value, _STYLES[fate], _MARKS[fate], coloured=coloured) + Text(" ")
    return line + _marked("the target's own", _OWN_STYLE, _OWN_MARK, coloured=coloured)


def rule_words(*, seeded: bool) -> str:
    """Return the rule by which tokens are judged."""
    if seeded:
        return "rule: target and drafter choose with the same noise; a token is kept if the target chooses it too"
    return (
        "rule: a token is kept if the draw is below the threshold p/q; else another is drawn from the residual, "
        "what p has more than q"
    )


def round_lines(number: int, round_: Round, begin: int, vocab: Vocab, *, coloured: bool) -> list[Text]:
    """Return what a round did: who drafted how much, and the draft with what was emitted after it.

    begin: where in the whole text the reply begins.
    """
    drafted = words.count(round_.num_drafted, "token")
    draft = f"{round_.drafter} drafted {drafted}" if round_.num_drafted else "nothing drafted"
    heading = Text(f"round {number}, from token {round_.position - begin + 1}: {draft}", style="bold")
    tokens = Text()
    for each in drafted_tokens(round_):
        tokens += _marked(words.token(each.token, vocab), _STYLES[each.fate], _MARKS[each.fate], coloured=coloured)
    last = round_.verdicts[-1]
    if last.fate is not Fate.ACCEPTED:
        tokens += _marked(words.token(last.token, vocab), _OWN_STYLE, _OWN_MARK, coloured=coloured)
    return [heading, tokens]


def judged_table(round_: Round, vocab: Vocab, room: int) -> Table:
    """Return what every drafted token was judged by, as far as there is room: threshold and draw, or with a seed the
    target's choice."""
    tokens = drafted_tokens(round_)

    def column(name: str, texts: Iterable[str], importance: int, *, right: bool = True) -> Column:
        cells = [Text(text, style=_STYLES[each.fate]) for text, each in zip(texts, tokens, strict=True)]
        return Column(name, cells, importance, right)

    columns = [
        column("drafted", (words.token(each.token, vocab) for each in tokens), 9, right=False),
        column("p", (_number(each.p) for each in tokens), 5),
        column("q", (_number(each.q) for each in tokens), 4),
    ]
    if any(each.draw is not None for each in tokens):
        columns += [
            column("threshold", (_number(each.threshold) for each in tokens), 7),
            column("draw", (_number(each.draw) for each in tokens), 6),
            column("", (each.fate.value for each in tokens), 8, right=False),
        ]
    else:
        chosen = ("" if each.emitted is None else words.token(each.emitted, vocab) for each in tokens)
        columns += [
            column("", (each.fate.value for each in tokens), 8, right=False),
            column("target chose", chosen, 7, right=False),
        ]
    return fitted(columns, room)


def ending(round_: Round, vocab: Vocab) -> str:
    """Return where the round's last token comes from, and why the reply ends if it does."""
    last = round_.verdicts[-1]
    text = f"`{words.token(last.token, vocab)}`"
    origin = "the target's choice" if last.draw is None else "from the residual"
    told = {
        Fate.ACCEPTED: f"{text} is the last",
        Fate.CORRECTION: f"instead {text}, {origin}",
        Fate.OWN: f"bonus: {text}, the target's own" if round_.num_drafted else f"{text}, the target's own",
    }[last.fate]
    return f"{told}; the reply ends: {round_.finish}" if round_.finish else told


def times(round_: Round) -> str:
    """Return what the round's time went into."""
    spent = {"draft": round_.draft_seconds, "verify": round_.verify_seconds, "other": _other_seconds(round_)}
    return ", ".join(f"{name} {words.duration(seconds)}" for name, seconds in spent.items())


def totals(stats: Stats) -> str:
    """Return one line on all rounds. The time spent looking at them is not counted."""
    return (
        f"{words.count(stats.rounds, 'round')}: {words.count(stats.tokens, 'token')} in "
        f"{words.duration(stats.decode_seconds)}; "
        f"{stats.drafted} drafted, {stats.tested} tested, {stats.accepted} accepted"
    )


def round_json(number: int, round_: Round, begin: int, vocab: Vocab) -> dict[str, Any]:
    """Return a round as plain values. begin: where in the whole text the reply begins."""
    return {
        "round": number,
        "position": round_.position - begin,
        "drafter": round_.drafted_by,
        "drafted": [_drafted_json(drafted, vocab) for drafted in drafted_tokens(round_)],
        "emitted": [
            {"token": verdict.token, "text": _raw(verdict.token, vocab), "fate": verdict.fate.value}
            for verdict in round_.verdicts
        ],
        "draft_seconds": round_.draft_seconds,
        "verify_seconds": round_.verify_seconds,
        "other_seconds": _other_seconds(round_),
        "finish": round_.finish,
    }


def _drafted_json(drafted: DraftedToken, vocab: Vocab) -> dict[str, Any]:
    return {
        "token": drafted.token,
        "text": _raw(drafted.token, vocab),
        "p": drafted.p,
        "q": drafted.q,
        "threshold": drafted.threshold,
        "draw": drafted.draw,
        "fate": drafted.fate.value,
    }


def _marked(text: str, style: str, mark: str, *, coloured: bool) -> Text:
    """Return a token in its colour, or between marks where there are no colours."""
    return Text(text, style=style) if coloured else Text(f"[{mark}{text}]")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _other_seconds(round_: Round) -> float:
    return max(0.0, round_.seconds - round_.draft_seconds - round_.verify_seconds)


def _raw(token: int, vocab: Vocab) -> str:
    return vocab.piece(token).decode("utf-8", "replace")
