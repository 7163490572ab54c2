"""The pages of the tour about costs: why decoding is slow, what drafts cost, when they pay, and what changes that.

Knows how to explain; every figure comes from an Explanation.
"""

from __future__ import annotations

from speclocal.jobs.explanation import BATCHES, LENGTHS, Explanation
from speclocal.terminal.predictions import best_words, break_even_words
from speclocal.terminal.sheets import Facts, Grid, Sheet, bar, grid
from speclocal.terminal.words import duration, number, size

_WIDTHS = (1, 2, 4, 8, 16)


def waiting(found: Explanation) -> Sheet:
    """1: decoding reads all weights for every token, and that is what takes the time."""
    target = found.target
    reached = target.bytes_per_second
    if found.given.bandwidth:
        source, asked = "given", found.given.bandwidth
    elif found.memory_bytes_per_second:
        source, asked = f"a plain read by {_threads(found.threads)}", found.memory_bytes_per_second
    else:
        source, asked = "what passes reach; the device's memory cannot be asked", reached
    facts = Facts(
        (
            ("weights a pass reads", size(target.weight_bytes), f"{number(target.num_weights / 1e6)} million numbers"),
            (
                "cache it reads too",
                size(found.context_bytes),
                f"{found.prompt_tokens + found.tokens:,} tokens of context",
            ),
            ("a pass over one token", duration(target.token_seconds), f"{number(1 / target.token_seconds)} tokens/s"),
            ("so it reads", f"{size(reached)}/s", "weights alone, measured"),
            ("memory here", f"{size(asked)}/s", source),
            ("ceiling", f"{number(found.ceiling)} tokens/s", f"plain decoding at {size(found.bandwidth)}/s"),
            (
                f"{found.tokens:,} tokens",
                f"{found.tokens:,} passes",
                f"{size(found.tokens * target.weight_bytes)} read, "
                f"{duration(found.tokens * target.weight_bytes / found.bandwidth)} at the ceiling",
            ),
        )
    )
    taken = {width: target.verify_ratio(width) * target.token_seconds for width in _WIDTHS}
    most = max(seconds / width for width, seconds in taken.items())
    passes = grid(
        "tokens in a pass",
        "time",
        "of one",
        "<per token",
        "operations per byte",
        rows=[
            (
                str(width),
                duration(seconds),
                number(seconds / target.token_seconds),
                bar(duration(seconds / width), seconds / width, most),
                number(target.operations_per_byte(width)),
            )
            for width, seconds in taken.items()
        ],
    )
    return Sheet(
        "1 of 6: why decoding waits for memory",
        (
            f"A model writes token by token, and for every token it reads all of its weights. {target.name}:",
            facts,
            "A pass over several tokens reads the same weights and does more with each byte:",
            passes,
            _what_it_waits_for(found),
        ),
    )


def _what_it_waits_for(found: Explanation) -> str:
    """Return whether memory is what passes wait for here, and up to which width."""
    share = f"A pass over one token takes {found.share_of_memory:.0%} of what memory can give"
    speed = f"{number(found.target.operations_per_second / 1e9)} billion operations a second"
    if found.share_of_memory > 1:
        return "With that bandwidth a pass over one token could not be as fast as it is here: it would wait for bytes."
    if found.busy_width < 1:
        return (
            f"{share}. Reading long texts, this machine does {speed}, and with that arithmetic takes longer than "
            "memory even for one token. So wide passes gain less here than where memory is the limit: one over 4 "
            f"tokens gives {4 / found.target.verify_ratio(4):.2f} times the tokens a second. More cores, or a GPU, "
            "change that."
        )
    return (
        f"{share}. Reading long texts, this machine does {speed}: about {number(found.busy_width)} tokens in a pass "
        "keep it as busy as its memory. Up to there a pass waits for bytes, and another token should cost little; what "
        "it costs, the third column says."
    )


def drafting(found: Explanation) -> Sheet:
    """2: guesses are cheap where their bytes are few."""
    target, draft = found.target, found.draft
    if draft is not None:
        facts: tuple[tuple[str, str, str], ...] = (
            ("target", size(target.weight_bytes), f"{duration(target.token_seconds)} a pass, {target.name}"),
            ("draft model", size(draft.weight_bytes), f"{duration(draft.token_seconds)} a pass, {draft.name}"),
            ("ratio of bytes", number(draft.weight_bytes / target.weight_bytes), "what memory alone would make it"),
        )
        how = (
            "A draft model of the same vocabulary guesses token by token. A guess costs what reading its bytes costs: "
            "the smaller the model, the cheaper it is, and the more often it is wrong."
        )
    else:
        drafts = found.drafts
        per_token = duration(drafts.draft_seconds / drafts.drafted) if drafts.drafted else "nothing was copied"
        facts = (
            ("target", size(target.weight_bytes), f"{duration(target.token_seconds)} a pass, {target.name}"),
            ("prompt lookup", "0 B", "reads the text so far, no weights"),
            ("a copied token", per_token, f"{drafts.drafted} were drafted in a reply of {drafts.tokens}"),
        )
        how = (
            "No draft model is loaded, so the text itself guesses: what followed the same tokens earlier is copied. "
            "`--model qwen2.5-coder` shows this tour with a draft model."
        )
    origin = "a drafted token / a pass over one" if found.given.cost_ratio is None else "given"
    facts += (
        ("cost ratio c", f"{found.cost_ratio:.4f}", origin),
        (
            f"a draft of {found.gamma}",
            f"{found.gamma * found.cost_ratio:.3f} passes",
            "of the target over one token, before anything is checked",
        ),
    )
    return Sheet("2 of 6: a cheap draft", (how, Facts(facts), _why_cheap(found)))


def _why_cheap(found: Explanation) -> str:
    if found.cost_ratio >= 1:
        return "Here a guess costs as much as the token itself: such drafts cannot pay."
    return (
        "Whatever guesses, the answer stays the same: a bad guess costs time, never quality. A draft of "
        f"{found.gamma} pays where it saves more than {found.gamma * found.cost_ratio:.3f} passes, and what a wider "
        "pass costs to check it."
    )


def choosing(found: Explanation) -> Sheet:
    """4: acceptance, length and costs decide whether drafts pay."""
    lengths = sorted({*LENGTHS, found.gamma})
    pairs = [(found.textbook(length), found.measured(length)) for length in lengths]
    largest = max(1.0, *(each.speedup for pair in pairs for each in pair))
    rows = [
        (
            str(book.gamma),
            f"{book.tokens_per_round:.2f}",
            bar(f"{book.speedup:.2f}x", book.speedup, largest, "dim"),
            bar(f"{real.speedup:.2f}x", real.speedup, largest, "accepted" if real.speedup > 1 else "rejected"),
        )
        for book, real in pairs
    ]
    book, real = found.textbook(found.gamma), found.measured(found.gamma)
    return Sheet(
        "4 of 6: acceptance, length, costs",
        (
            f"If a drafted token is accepted with probability alpha = {found.alpha:.3f} ({_alpha_from(found)}), a "
            "round with a draft of gamma tokens writes 1 + alpha + ... + alpha^gamma, and costs gamma c + v(gamma + 1) "
            f"passes, c = {found.cost_ratio:.4f}. The textbook takes v, the cost of a wider pass, to be 1; measured "
            f"here, v({found.gamma + 1}) = {real.verify_ratio:.3f}.",
            grid("gamma", "tokens per round", "<textbook", "<with measured costs", rows=rows),
            grid(
                "<",
                "textbook",
                "measured",
                rows=[
                    ("best gamma", best_words(book), best_words(real)),
                    (f"break-even alpha, gamma {found.gamma}", break_even_words(book), break_even_words(real)),
                ],
            ),
            "A fixed length takes the bad with the good. `--mode auto` decides anew for every round, from these costs "
            "and from how likely each draft is.",
        ),
    )


def _alpha_from(found: Explanation) -> str:
    """Return where the acceptance rate comes from."""
    if found.given.alpha is not None:
        return "given"
    drafts = found.drafts
    return f"measured: {drafts.accepted} of {drafts.tested}" if drafts.tested else "the textbook's: nothing was tested"


def in_practice(found: Explanation) -> Sheet:
    """6: which methods there are, and when the gain shrinks."""
    batches = sorted({*BATCHES, found.batch})
    gains = [(batch, found.in_batch(batch)) for batch in batches]
    largest = max(1.0, *(each.speedup for _, each in gains))
    rows = [
        (
            f"{batch}{' (chosen)' if batch == found.given.batch else ''}",
            number(found.target.operations_per_byte(batch)),
            f"{each.verify_ratio:.2f}",
            bar(f"{each.speedup:.2f}x", each.speedup, largest, "accepted" if each.speedup > 1 else "rejected"),
            str(each.best_gamma),
        )
        for batch, each in gains
    ]
    return Sheet(
        "6 of 6: in practice",
        (
            _METHODS,
            "With several replies in one pass the weights are shared already, and drafts add rows to a pass that is "
            f"busy. From the measured curve, drafts of {found.gamma} accepted at {found.alpha:.3f}:",
            grid(
                *("replies at once", "operations per byte", f"v of {found.gamma + 1} each", "<gain", "best gamma"),
                rows=rows,
            ),
            "Temperature: the flatter p and q, the less they share, and the fewer drafts are accepted; greedy decoding "
            "keeps the most. A temperature costs no exactness.",
            "Choosing a draft: same vocabulary, same family, a tenth to a third of the bytes; lookup for texts that "
            "repeat their input. Then measure: `speclocal calibrate`, `speclocal compare`.",
        ),
    )


_METHODS: Grid = grid(
    "<method",
    "<needs",
    "<speclocal",
    rows=[
        ("draft model", "a smaller model of the same vocabulary", "runs it: --mode draft"),
        ("prompt lookup", "nothing; a text that repeats itself", "runs it: --mode lookup"),
        ("both, round by round", "measured costs", "runs it: --mode auto"),
        ("Medusa", "extra heads, trained for this very model", "no"),
        ("EAGLE", "a small head on the model's features, trained", "no"),
    ],
)


def _threads(count: int) -> str:
    return "one thread" if count == 1 else f"{count} threads"
