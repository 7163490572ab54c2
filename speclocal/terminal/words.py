"""Numbers and sentences for people.

Knows how to say things, not where they are shown.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speclocal.decoding.stats import Stats
    from speclocal.jobs.conversation import Conversation
    from speclocal.jobs.reply import Reply, ReplySettings
    from speclocal.jobs.summarize import PartProgress, Plan
    from speclocal.jobs.worker import Worker
    from speclocal.llama.vocab import Vocab
    from speclocal.models.removal import Removable
    from speclocal.models.repos import Chosen

_VISIBLE = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"} | {
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
}


_SHORT = 60
_MOST = 8  # files that are named
_BAR = 20  # columns
_DOING = {"off": "plain", "lookup": "lookup", "draft": "draft model"}
_CUT_OFF = {
    None: "stopped: the text so far stays, as a reply that was cut off",
    "length": "cut off: the reply may not be longer",
    "context": "cut off: the context is full",
}
"""By the value of the Finish of a reply; None where somebody stopped it."""


def visible(text: str) -> str:
    """Return `text` with control characters shown, so that a terminal does not obey them."""
    return text.translate(_VISIBLE)


def on_one_line(text: str) -> str:
    """Return `text` with newlines and tabs shown, too."""
    return visible(text).replace("\n", "\u240a").replace("\t", "\u2409")


def token(token: int, vocab: Vocab) -> str:
    """Return the text of a token on one line; a control token by its name."""
    return on_one_line(vocab.shown(token))


def count(num: int, noun: str) -> str:
    """Return a number of things: 1 token, 2,197 tokens."""
    return f"{num:,} {noun}" if num == 1 else f"{num:,} {noun}s"


def progress_bar(share: float) -> str:
    """Return a bar that is full at a share of 1."""
    done = round(_BAR * share)
    return "\u2588" * done + "\u2591" * (_BAR - done)


def number(value: float) -> str:
    """Return `value` in three significant digits: 1,230, 31.2, 0.740."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def size(num_bytes: float) -> str:
    """Return a size in decimal units: 98.4 MB."""
    for unit in ("B", "kB", "MB"):
        if num_bytes < 1000:
            return f"{number(num_bytes)} {unit}"
        num_bytes /= 1000
    return f"{number(num_bytes)} GB"


def duration(seconds: float) -> str:
    """Return a time: 41.0 ms, 4.10 s, 2 min 5 s."""
    if seconds < 1:
        return f"{number(seconds * 1000)} ms"
    if seconds < 120:
        return f"{number(seconds)} s"
    return f"{int(seconds // 60)} min {int(seconds % 60)} s"


def remaining(seconds: float) -> str:
    """Return the time that something will still take, as roughly as it is known: about 12 s left, about 3 min left."""
    return f"about {max(1, round(seconds))} s left" if seconds < 100 else f"about {round(seconds / 60)} min left"


def fetching(name: str, done: int, total: int | None, per_second: float | None) -> str:
    """Return the live line of a download: how far it is, how fast, and how long it will take."""
    line = f"fetching {name}: {size(done)}" + (f" of {size(total)}" if total else "")
    if per_second is not None:
        line += f", {size(per_second)}/s"
        if total and per_second > 0:
            line += f", {remaining((total - done) / per_second)}"
    return line


def fetched(name: str, num_bytes: int, seconds: float) -> str:
    """Return what is said of a model that was fetched and checked."""
    return f"{name}: {size(num_bytes)} in {duration(seconds)}, checked"


def chosen(choice: Chosen) -> str:
    """Return which file of a repository was taken, and what else there is."""
    others = ", ".join(choice.others[:_MOST]) + (", ..." if len(choice.others) > _MOST else "")
    return f"chosen: {choice.file.file}" + (f"; there are also {others}" if others else "")


def removal(models: Sequence[Removable]) -> str:
    """Return the question whether to remove models."""
    files = "".join(f"\n  {path}" for model in models for path in model.paths)
    names = " and ".join(f"{model.name} ({size(model.num_bytes)})" for model in models)
    return f"remove {names}?{files}\n[y/N] "


def summary(reply: Reply) -> str:
    """Return one line on a finished reply."""
    stats = reply.stats
    parts = [f"{count(stats.tokens, 'token')} in {duration(stats.decode_seconds)}"]
    if stats.tokens_per_second is not None:
        parts[0] += f": {number(stats.tokens_per_second)} tokens/s"
    if reply.estimated_speedup is not None and stats.drafted:
        parts.append(f"about {number(reply.estimated_speedup)}x plain")
    if stats.drafted:
        parts += [count(stats.rounds, "round"), f"{number(stats.tokens_per_round or 0)} tokens per round"]
        if stats.acceptance_rate is not None:
            parts.append(f"acceptance {stats.acceptance_rate:.2f}")
    parts.append(f"prompt: {count(stats.prompt_tokens, 'token')} in {duration(stats.prompt_seconds)}")
    return ", ".join(parts)


def insight(reply: Reply) -> list[str]:
    """Return what mode `auto` did and why: who drafted, where the time went, and why a draft model did not draft."""
    stats = reply.stats
    if reply.estimated_speedup is None or not stats.rounds:
        return []
    shares = [
        f"{_DOING[name]} {rounds / stats.rounds:.0%}"
        + (f" (drafts of {number(drafted / rounds)})" if (drafted := stats.drafted_by_drafter[name]) else "")
        for name, rounds in sorted(stats.rounds_by_drafter.items(), key=lambda item: -item[1])
    ]
    times = {"verify": stats.verify_seconds, "draft": stats.draft_seconds, "other": stats.other_seconds}
    spent = ", ".join(f"{name} {duration(seconds)}" for name, seconds in times.items())
    lines = [f"rounds: {', '.join(shares)}; time: {spent}"]
    if verdict := reply.why_no_draft_model:
        lines.append(
            f"draft model off: costs {verdict.cost_ratio:.2f} of a pass here, accepted {verdict.acceptance:.2f}, "
            f"would run at {verdict.speedup:.2f}x"
        )
    return lines


def end_of_turn(reply: Reply) -> list[str]:
    """Return what is said at the end of a reply in a chat: why it is shorter than it could be, and its numbers."""
    if not reply.finish_reason and not reply.text:
        return ["stopped before the first word: the message is not part of the conversation"]
    ending = _CUT_OFF.get(reply.finish_reason)
    return [ending, summary(reply)] if ending else [summary(reply)]


def turn(reply: Reply, context_size: int) -> list[str]:
    """Return what `/stats` tells of a reply and its prompt."""
    stats = reply.stats
    return [
        summary(reply),
        *insight(reply),
        f"prompt: {stats.prompt_reused} of {stats.prompt_tokens} tokens were in the cache",
        f"context: {stats.prompt_tokens + stats.tokens} of {context_size} tokens used",
    ]


def settings(settings: ReplySettings, mode: str) -> str:
    """Return how the next reply will be made, with who drafts it."""
    drafts = f" (drafts of {settings.num_draft_tokens})" if settings.num_draft_tokens else ""
    seed = "new for every reply" if settings.seed is None else settings.seed
    return f"mode {mode}{drafts}, temperature {number(settings.params.temperature)}, seed {seed}"


def forgotten(num_exchanges: int) -> str:
    """Return what is said when a conversation outgrows the context."""
    what = "the oldest exchange is" if num_exchanges == 1 else f"the {num_exchanges} oldest exchanges are"
    return f"the context is full: {what} forgotten"


def conversation(conversation: Conversation) -> str:
    """Return how long a conversation is, and how much of it the model does not see any more."""
    forgotten = f", {conversation.num_forgotten} of them forgotten" if conversation.num_forgotten else ""
    return f"conversation: {count(len(conversation.exchanges), 'exchange')}{forgotten}"


def shortened(text: str) -> str:
    """Return the beginning of a text, on one line."""
    return textwrap.shorten(text, _SHORT, placeholder=" ...")


def live(stats: Stats) -> str:
    """Return the live line of a growing reply."""
    parts = [f"{stats.tokens} tokens"]
    if stats.tokens_per_second is not None:
        parts.append(f"{number(stats.tokens_per_second)} tokens/s")
    if stats.acceptance_rate is not None:
        parts.append(f"acceptance {stats.acceptance_rate:.2f}")
    return "  ".join(parts)


def live_turn(stats: Stats, mode: str, context_size: int) -> str:
    """Return the live line of a growing reply in a chat: who drafts, and how full the context is."""
    used = stats.prompt_tokens + stats.tokens
    return f"{live(stats)}  {mode}  context {used} of {context_size}"


def part(progress: PartProgress) -> str:
    """Return the live line while the parts of a text are read."""
    left = "" if progress.seconds_left is None else f", {remaining(progress.seconds_left)}"
    return f"{progress_bar((progress.number - 1) / progress.total)} part {progress.number} of {progress.total}{left}"


def plan_words(plan: Plan) -> str:
    """Return how a text is read, in one line."""
    tokens = f"{plan.num_tokens:,} tokens of text"
    if len(plan.parts) == 1:
        return f"{tokens}, read in one piece"
    return (
        f"{tokens} in {len(plan.parts)} parts that fit a context of {plan.context_size:,}: notes on each are combined; "
        "after an interrupt the same command goes on"
    )


OPEN_WORKER = (
    "warning: other machines can reach this worker, and the protocol asks nobody who they are and hides nothing: "
    "whoever reaches the port can use the memory, and perhaps take over the process. Use it in a network you trust"
)


def worker(worker: Worker) -> list[str]:
    """Return what a worker lends and how to use it."""
    lent = [
        f"{device.name} ({device.description}, {size(device.free_bytes)} of {size(device.total_bytes)} free)"
        for device in worker.devices
    ]
    return [
        f"lending {', '.join(lent)}, {count(worker.threads, 'thread')}, at {worker.address}; Ctrl-C ends it",
        f"use it with `--rpc {worker.address}`; it serves one program at a time",
    ]
