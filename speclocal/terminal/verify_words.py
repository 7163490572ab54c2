"""What was verified, in plain words and as plain values.

Knows the parts of a verification and a vocabulary, not how anything was found.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from speclocal.decoding.costs import DEEP, Calibration
from speclocal.jobs.erring import ErringDrafter
from speclocal.jobs.findings import BitsPart, BrokenOff, Check, ComparedReply, DistributionPart, Part, Sampled, TextPart
from speclocal.jobs.verify import FALSE_ALARM
from speclocal.llama.vocab import Vocab
from speclocal.terminal import words
from speclocal.terminal.fork_words import fork_words

_CHECKED = {
    Check.GREEDY: "at temperature 0 every mode writes what plain decoding writes",
    Check.SEEDED: "with a seed every mode writes what plain decoding writes",
    Check.DISTRIBUTION: "without a seed, what is written follows the model's own distribution",
    Check.CACHE: "what is dropped from the cache leaves no trace",
    Check.WIDTHS: "which passes over several tokens compute the bits of one-token passes",
}
_ON_PURPOSE = " (plain decoding's tokens as drafts, every third of them wrong)"
_NO_DRAFTS = "nothing is drafted with this model, since its cache can neither drop tokens nor be copied"


def sentences(number: int, part: Part, vocab: Vocab) -> list[str]:
    """Return what a part has shown: a heading, and indented what stands under it."""
    outcome = "DOES NOT HOLD" if not part.holds else "holds" if part.tested else "NOT TESTED"
    heading = f"{number} {part.name}: {_CHECKED[part.name]}: {outcome}"
    if isinstance(part, BrokenOff):
        told = [f"broke off: {part.error.message}"]
    elif isinstance(part, TextPart):
        told = _of_texts(part, vocab)
    elif isinstance(part, DistributionPart):
        told = _of_samples(part)
    else:
        told = _of_bits(part)
    return [heading, *(f"  {sentence}" for sentence in told)]


def conclusion(parts: list[Part]) -> str:
    """Return the last sentence."""
    failed = [f"{number} ({part.name})" for number, part in enumerate(parts, 1) if not part.holds]
    if failed:
        return f"NOT exact here: {', '.join(failed)}"
    untested = [f"{number} ({part.name})" for number, part in enumerate(parts, 1) if not part.tested]
    if untested:
        return f"exact here as far as it was tested, which parts {', '.join(untested)} could not be"
    forks = sum(len(part.forks) for part in parts if isinstance(part, TextPart))
    if forks:
        return f"exact here, but for {words.count(forks, 'fork')} by arithmetic; `--strict` avoids them"
    said = "exact here: all parts hold, and no reply differs from plain decoding"
    if limit := _limit(parts):
        said += (
            f"; at {limit} tokens of context fewer widths are exact than at these, so longer texts may fork by "
            "arithmetic, which `--strict` avoids"
        )
    return said


def parts_json(parts: list[Part], vocab: Vocab) -> list[dict[str, Any]]:
    """Return the parts as plain values; forks tell the texts of their tokens too."""
    values = []
    for part in parts:
        if isinstance(part, BrokenOff):
            values.append({"name": part.name, "holds": False, "error": part.error.message})
            continue
        value = {"name": part.name, "holds": part.holds, **asdict(part), "tested": part.tested}
        for fork in (reply["fork"] for reply in value.get("replies", ()) if reply["fork"]):
            for name in ("plain", "other"):
                token = fork[f"{name}_token"]
                fork[f"{name}_text"] = None if token is None else vocab.shown(token)
        values.append(value)
    return values


def _limit(parts: list[Part]) -> int | None:
    """Return at how many tokens of context fewer widths were found exact than at few; None where none are lost."""
    calibration = next((part.calibration for part in parts if isinstance(part, BitsPart) and part.calibration), None)
    if calibration is None or set(calibration.exact[-1].widths) >= set(calibration.exact[0].widths):
        return None
    return calibration.exact[-1].depth


def _of_texts(part: TextPart, vocab: Vocab) -> list[str]:
    if not part.replies:
        return [_NO_DRAFTS]
    modes = dict.fromkeys(reply.mode for reply in part.replies)
    told = [_of_mode(mode, [reply for reply in part.replies if reply.mode == mode]) for mode in modes]
    if not part.tested:
        no_width = "no draft was tested: no width beyond 1 is exact here; `--kv-type bf16` can change that"
        told.append(no_width if part.strict else "no draft was tested: more tokens (`-n`) make room for drafts")
    for reply in part.replies:
        if reply.fork:
            plain, other = (_text(token, vocab) for token in (reply.fork.plain_token, reply.fork.other_token))
            forked = fork_words(reply.fork, plain, other, greedy=part.name == Check.GREEDY)
            told.append(f"{reply.mode}, {reply.request}: {forked}")
    return told


def _text(token: int | None, vocab: Vocab) -> str:
    return "" if token is None else vocab.shown(token)


def _of_mode(mode: str, replies: list[ComparedReply]) -> str:
    same = sum(reply.fork is None for reply in replies)
    tokens, tested, accepted = (
        sum(getattr(reply, name) for reply in replies) for name in ("num_tokens", "num_tested", "num_accepted")
    )
    return (
        f"{mode}{_ON_PURPOSE * (mode == ErringDrafter.name)}: {same} of {len(replies)} replies the same; {accepted} of "
        f"their {tokens} tokens were drafted, {words.count(tested - accepted, 'draft')} rejected"
    )


def _of_samples(part: DistributionPart) -> list[str]:
    if not part.samples:
        return [_NO_DRAFTS]
    num_replies = part.samples[0].two_tokens.num_samples
    told = [
        f"{num_replies:,} replies simulated at each place, with p and q of these models and the rule that answers",
        *(f"{_sample(sampled)}{': FAILS' * (sampled.p_value < part.limit)}" for sampled in part.samples),
        f"limit: p-value {part.limit:.1g}; a right rule falls below it about once in {1 / FALSE_ALARM:,.0f} runs",
    ]
    if not part.tested:
        told.append(
            "too little is left to chance here to tell rules apart: another `--temperature`, nearer to 1, would"
        )
    for mistake, samples in part.wrong.items():
        worst = min(samples, key=lambda sampled: sampled.p_value)
        caught = "caught" if part.fails(samples) else "NOT CAUGHT"
        told.append(f"wrong rule, {mistake}: {caught}, p-value {_p_value(worst.p_value)}")
    return told


def _sample(sampled: Sampled) -> str:
    one, two = sampled.one_token, sampled.two_tokens
    return (
        f"{sampled.request}, token {sampled.position + 1}, drafts by {sampled.drafter} (accepted at "
        f"{sampled.acceptance:.2f}): one token: p-value {_p_value(one.p_value)}, largest gap {one.largest_gap:.4f}; "
        f"two: p-value {_p_value(two.p_value)}, largest gap {two.largest_gap:.4f}"
    )


def _p_value(value: float) -> str:
    return f"{value:.2g}" if value >= 1e-300 else "below 1e-300"


def _of_bits(part: BitsPart) -> list[str]:
    if part.calibration is None and not part.checks:
        return [_NO_DRAFTS]
    broken = [check for check in part.checks if not check.holds]
    if part.calibration is None:
        return [f"{check.what}: {_bits(check.holds, check.largest_difference)}" for check in part.checks]
    told = _of_widths(part.calibration)
    told.append(f"confirmed now: {len(part.checks) - len(broken)} of {len(part.checks)} widths")
    return told + [f"{check.what}: {_bits(False, check.largest_difference)}" for check in broken]


def _of_widths(calibration: Calibration) -> list[str]:
    told = []
    for found in calibration.exact:
        beyond = " and beyond" if found.depth > DEEP else ""
        told.append(f"to {found.depth} tokens of context{beyond}, of those tried: {', '.join(map(str, found.widths))}")
    return told


def _bits(holds: bool, largest_difference: float) -> str:
    return "the same logits, bit for bit" if holds else f"logits differ by up to {words.number(largest_difference)}"
