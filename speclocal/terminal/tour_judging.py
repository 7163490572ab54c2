"""The pages of the tour about judging: one pass decides over a draft, and the output is the target's all the same.

Knows how to explain; every figure comes from an Explanation.
"""

from __future__ import annotations

from speclocal.jobs.explanation import Explanation, ShownRound
from speclocal.jobs.trace import DraftedToken, DraftFate
from speclocal.terminal import words
from speclocal.terminal.sheets import Cell, Sheet, bar, grid
from speclocal.terminal.words import number

_SHOWN_TOKENS = 8
_LONGEST_TOKEN = 16


def verifying(found: Explanation) -> Sheet:
    """3: one pass judges a whole draft."""
    title, shown = "3 of 6: verify in one pass", found.drafts.shown
    if shown is None:
        return Sheet(title, ("In the reply that was tried nothing was drafted: no token run occurred twice.",))
    rows = [
        (str(i), Cell(_token(text)), number(each.q), *_judged(each))
        for i, (text, each) in enumerate(zip(shown.texts, shown.drafted, strict=True), 1)
    ]
    width = len(shown.drafted) + 1
    drafter = found.draft.name if found.draft else "prompt lookup"
    if shown.own is not None:
        origin = "drawn from what p has more than q" if shown.corrected else "its own next token"
        rows.append(("", Cell(_token(shown.own)), "", "", "", Cell(f"target: {origin}", "target")))
    return Sheet(
        title,
        (
            f"A real round, drafted by {drafter} and judged by {found.target.name} at temperature "
            f"{found.temperature}. One pass over {width} tokens gives p after every one of them; it costs "
            f"{number(found.target.verify_ratio(width))} of a pass over one here.",
            grid("", "<drafted", "q", "p", "draw", "<accepted if draw < p/q", rows=rows),
            f"This round wrote {words.count(shown.num_emitted, 'token')} with one pass. " + _ending(shown),
            f"The whole reply: {found.drafts.drafted} drafted, {found.drafts.tested} tested, "
            f"{found.drafts.accepted} accepted, {found.drafts.tokens} tokens in {found.drafts.rounds} rounds.",
        ),
    )


def _ending(shown: ShownRound) -> str:
    """Return why a round has no more tokens."""
    if shown.own is None:
        return "The reply ends with the last of them, and what was drafted after it goes untested."
    if shown.corrected:
        return "It stops at the first rejection; what was drafted after it goes untested, and the cache is rolled back."
    return "All of the draft was accepted, so the pass gave one token more."


def _judged(drafted: DraftedToken) -> tuple[str, str, Cell]:
    """Return p, the draw, and what became of a drafted token."""
    if drafted.p is None or drafted.draw is None or drafted.threshold is None:
        return "", "", Cell(drafted.fate.value, "dim")
    sign = "<" if drafted.fate is DraftFate.ACCEPTED else "\u2265"
    reason = f"{drafted.draw:.3f} {sign} {drafted.threshold:.3f}"
    return number(drafted.p), f"{drafted.draw:.3f}", Cell(f"{drafted.fate.value}: {reason}", drafted.fate.value)


def staying_exact(found: Explanation) -> Sheet:
    """5: what comes out follows p, whatever q is."""
    seen = found.simulation
    largest = float(max(seen.p.max(), seen.q.max(), seen.output.max()))
    rows: list[tuple[Cell, ...]] = [
        (
            Cell(_token(text)),
            bar(f"{p:.3f}", p, largest, "target"),
            bar(f"{q:.3f}", q, largest, "dim"),
            bar(f"{output:.3f}", output, largest, "accepted"),
        )
        for text, p, q, output in list(zip(seen.texts, seen.p, seen.q, seen.output, strict=True))[:_SHOWN_TOKENS]
    ]
    if (rest := len(seen.texts) - _SHOWN_TOKENS) > 0:
        sums = (float(values[_SHOWN_TOKENS:].sum()) for values in (seen.p, seen.q, seen.output))
        others = Cell(words.count(rest, "other"), "dim")
        rows.append((others, *(bar(f"{total:.3f}", total, largest, "dim") for total in sums)))
    before = _cut(" ".join(seen.before.split()), 48)
    return Sheet(
        "5 of 6: exactly the same output",
        (
            f"A position of the same reply, after \u201c{before}\u201d. p is the target's choice, "
            f"q that of {seen.guesser}. A token is drawn from q, accepted if a random number is below p/q, and else "
            f"replaced by one drawn from what p has more than q; {seen.num_draws:,} times:",
            grid("<token", "<p", "<q", "<output", rows=rows),
            f"The output follows p: the largest gap is {seen.largest_gap:.4f}, and chance alone allows about "
            f"{3 * seen.gap_deviation:.4f} there. Taken unseen, the drafts would be off by {seen.gap_of_q:.4f}. "
            f"Accepted were {seen.num_accepted / seen.num_draws:.3f} of them, "
            f"as sum(min(p, q)) = {seen.acceptance:.3f} foretells, give or take {3 * seen.acceptance_deviation:.3f}.",
        ),
    )


def _token(text: str) -> str:
    """Return a token with its spaces and line ends visible."""
    return _cut(words.on_one_line(text).replace(" ", "\u2423"), _LONGEST_TOKEN)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}\u2026"
