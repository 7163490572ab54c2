"""What a run against llama.cpp says: rates, ratios, and the README's section.

Knows the numbers of against_llamacpp.py's JSON, not how they were measured. Ratios are taken within a repeat, where
both sides ran minutes apart at most, and the median over the repeats is reported.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, fields
from statistics import geometric_mean as mean
from typing import Any

SPECLOCAL, LLAMA = "speclocal", "llama.cpp"
OFF, AUTO, NONE = f"{SPECLOCAL} off", f"{SPECLOCAL} auto", f"{LLAMA} none"


@dataclass
class Run:
    """One reply of one engine in one mode.

    tokens: emitted, the end of generation included. steps: those of them that decode_seconds paid for.
    outside_seconds: of decode_seconds, what was not spent inside llama.cpp's functions; None where it cannot be told.
    """

    engine: str
    mode: str
    prompt: str
    repeat: int
    prompt_tokens: int
    load_seconds: float  # until the engine was ready, its files in the page cache; part of no rate
    tokens: int
    steps: int
    prompt_seconds: float
    decode_seconds: float
    drafted: int
    accepted: int
    finish: str
    rounds: int | None = None
    outside_seconds: float | None = None
    rounds_by_drafter: dict[str, int] = field(default_factory=dict)
    token_ids: list[int] = field(default_factory=list)

    @property
    def setting(self) -> str:
        return f"{self.engine} {self.mode}"

    @property
    def rate(self) -> float:
        """Tokens per second of decoding."""
        return self.steps / self.decode_seconds

    def request_seconds(self, steps: int) -> float:
        """Return the seconds of the whole request, had its reply been `steps` tokens long."""
        return self.prompt_seconds + steps / self.rate


@dataclass
class Comparison:
    """All runs, and what they were run with."""

    about: dict[str, Any]
    kinds: dict[str, str]  # prompt -> kind, in the order of the prompts
    runs: list[Run]

    @classmethod
    def of_json(cls, raw: dict[str, Any]) -> Comparison:
        known = {f.name for f in fields(Run)}
        runs = [Run(**{key: value for key, value in run.items() if key in known}) for run in raw["runs"]]
        return cls(raw["about"], raw["kinds"], runs)

    def to_json(self) -> dict[str, Any]:
        return {"about": self.about, "kinds": self.kinds, "runs": [asdict(run) for run in self.runs]}

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(f"{engine} {mode}" for engine, mode in self.about["settings"]))

    @property
    def prompts(self) -> list[str]:
        """The prompts that every setting has answered."""
        return [p for p in self.kinds if all(self.of(setting, p) for setting in self.settings)]

    def of(self, setting: str, prompt: str) -> list[Run]:
        return [run for run in self.runs if run.setting == setting and run.prompt == prompt]

    def rate(self, setting: str, prompt: str) -> float:
        return statistics.median(run.rate for run in self.of(setting, prompt))

    def ratio(self, a: str, b: str, prompt: str, of: Callable[[Run], float] = lambda run: run.rate) -> float:
        """Return the median over the repeats of a's value / b's value."""
        divisors = {run.repeat: of(run) for run in self.of(b, prompt)}
        return statistics.median(of(run) / divisors[run.repeat] for run in self.of(a, prompt) if run.repeat in divisors)

    def fixed(self) -> list[str]:
        return [s for s in self.settings if s.startswith(SPECLOCAL) and s != AUTO]

    def llama(self) -> list[str]:
        return [s for s in self.settings if s.startswith(LLAMA)]

    def best(self, settings: Iterable[str], prompt: str) -> str:
        return max(settings, key=lambda setting: self.rate(setting, prompt))

    def best_single(self, settings: Iterable[str]) -> str:
        """Return the setting with the highest geometric mean over the prompts."""
        return max(settings, key=lambda setting: mean([self.rate(setting, prompt) for prompt in self.prompts]))

    def length(self, prompt: str) -> int:
        """Return the length of the reference reply, for which whole requests are compared."""
        return statistics.median_low([run.steps for run in self.of(self.settings[0], prompt)])

    def request_seconds(self, setting: str, prompt: str) -> float:
        steps = self.length(prompt)
        return statistics.median(run.request_seconds(steps) for run in self.of(setting, prompt))

    def request_ratio(self, a: str, b: str, prompt: str) -> float:
        steps = self.length(prompt)
        return self.ratio(a, b, prompt, lambda run: run.request_seconds(steps))

    def agreement(self, setting: str, prompt: str) -> tuple[int, bool]:
        """Return how many leading tokens a setting's reply shares with the first setting's, and whether that is all."""
        ours, reference = self.of(setting, prompt)[0].token_ids, self.of(self.settings[0], prompt)[0].token_ids
        shared = next((i for i, (a, b) in enumerate(zip(ours, reference, strict=False)) if a != b), None)
        if shared is None:  # one may carry the end of generation, the other not
            shared = min(len(ours), len(reference))
            return shared, abs(len(ours) - len(reference)) <= 1
        return shared, False


@dataclass(frozen=True)
class Line:
    """One line of the bar: what is asked, what was measured."""

    what: str
    value: float
    where: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def met(self) -> bool | None:
        if self.at_least is not None:
            return self.value >= self.at_least
        return None if self.at_most is None else self.value <= self.at_most

    @property
    def bar(self) -> str:
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"


def summary(comparison: Comparison) -> list[Line]:
    """Return the lines of the bar that the settings of this run allow."""
    c, lines = comparison, []
    if not c.prompts:
        return []
    has_auto = AUTO in c.settings

    def worst(what: str, ratios: dict[str, float], at_least: float | None) -> None:
        prompt = min(ratios, key=ratios.__getitem__)
        lines.append(Line(f"{what}, worst prompt", ratios[prompt], prompt, at_least=at_least))
        lines.append(Line(f"{what}, geometric mean", mean(list(ratios.values()))))

    if has_auto and OFF in c.settings:
        worst("auto / off", {p: c.ratio(AUTO, OFF, p) for p in c.prompts}, 0.98)
    if has_auto and c.fixed():
        worst("auto / best fixed setting", {p: c.ratio(AUTO, c.best(c.fixed(), p), p) for p in c.prompts}, 0.97)
    if has_auto and c.llama():
        best = {p: c.best(c.llama(), p) for p in c.prompts}
        worst("auto / best llama.cpp mode of each prompt", {p: c.ratio(AUTO, best[p], p) for p in c.prompts}, 1.0)
        single = c.best_single(c.llama())
        ratios = [c.ratio(AUTO, single, p) for p in c.prompts]
        lines.append(Line("auto / llama.cpp's best single mode, geometric mean", mean(ratios), single, at_least=1.25))
        for p in (p for p in c.prompts if c.kinds[p] == "file summary"):
            quickest = min(c.llama(), key=lambda setting: c.request_seconds(setting, p))
            value = c.request_ratio(AUTO, quickest, p)
            what = f"whole request, auto / llama.cpp's quickest ({quickest.removeprefix(LLAMA).strip()})"
            lines.append(Line(what, value, p, at_most=0.80))
    if OFF in c.settings and NONE in c.settings:
        lines.append(Line("off / llama.cpp none, geometric mean", mean([c.ratio(OFF, NONE, p) for p in c.prompts])))
    for setting in (s for s in (OFF, AUTO) if s in c.settings):
        lines += _outside(c, setting)
    same = [c.agreement(s, p)[1] for s in c.settings[1:] for p in c.prompts]
    if same:
        lines.append(Line(f"replies equal to {c.settings[0]}'s, of {len(same)}", sum(same)))
    return lines


def _outside(c: Comparison, setting: str) -> list[Line]:
    runs = [run for p in c.prompts for run in c.of(setting, p) if run.outside_seconds is not None and run.rounds]
    if not runs:
        return []
    outside = sum(run.outside_seconds or 0.0 for run in runs)
    share = outside / sum(run.decode_seconds for run in runs)
    per_round = 1e6 * outside / sum(run.rounds or 0 for run in runs)
    return [
        Line(f"outside llama.cpp, share of decoding, {setting}", share, at_most=0.02),
        Line(f"outside llama.cpp, microseconds a round, {setting}", per_round, at_most=300),
    ]


def digits(value: float) -> str:
    """Return a number with three significant digits; a count as it is."""
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:.0f}"
    return f"{value:#.3g}".rstrip(".")


def prompt_rows(c: Comparison, prompt: str) -> list[list[str]]:
    """Return the table of a prompt: a row for each setting."""
    rows = []
    for setting in (s for s in c.settings if c.of(s, prompt)):
        first = c.of(setting, prompt)[0]
        shared, same = c.agreement(setting, prompt)
        over = [f"{c.ratio(setting, base, prompt):.2f}x" if base in c.settings else "" for base in (OFF, NONE)]
        rows.append(
            [
                setting,
                digits(c.rate(setting, prompt)),
                *over,
                digits(statistics.median(run.prompt_seconds for run in c.of(setting, prompt))),
                digits(c.request_seconds(setting, prompt)),
                str(first.tokens),
                f"{first.accepted}/{first.drafted}" if first.drafted else "",
                "same" if same else f"to token {shared}",
            ]
        )
    return rows


PROMPT_COLUMNS = ["setting", "tokens/s", "/ off", "/ none", "prompt s", "request s", "tokens", "kept", "text"]


def markdown(c: Comparison) -> str:
    """Return the performance section of the README."""
    about, parts = c.about, []
    models = f"`{about['target']}`" + (f" with `{about['draft']}` drafting" if about["draft"] else "")
    parts.append(
        f"Measured on {about['machine']}, threads: {about['threads']}. {models}, greedy, up to {about['max_tokens']} "
        f"tokens, median of {about['repeats']} interleaved repeats, every reply by a freshly loaded engine. Tokens per "
        f"second of decoding, in brackets relative to speclocal's plain decoding. speclocal {about['speclocal']} on "
        f"llama-cpp-python {about['llama_cpp_python']}; llama-server {about['llama_server']}."
    )
    shown = [s for s in c.settings if s.startswith(SPECLOCAL)] + ([NONE] if NONE in c.settings else [])
    header = ["prompt", *shown] + (["llama.cpp's best mode"] if c.llama() else [])
    table = [header, ["---"] * len(header)]
    for p in c.prompts:
        cells = [f"{digits(c.rate(s, p))} ({c.ratio(s, shown[0], p):.2f}x)" for s in shown]
        if c.llama():
            best = c.best(c.llama(), p)
            name = best.removeprefix(LLAMA).strip()
            cells.append(f"{digits(c.rate(best, p))} ({c.ratio(best, shown[0], p):.2f}x, {name})")
        table.append([p, *cells])
    parts.append("\n".join(f"| {' | '.join(row)} |" for row in table))
    bar = [["", "measured", "wanted", "where"], ["---"] * 4]
    bar += [[line.what, digits(line.value), line.bar, line.where] for line in summary(c)]
    parts.append("\n".join(f"| {' | '.join(row)} |" for row in bar))
    return "\n\n".join(parts) + "\n"
