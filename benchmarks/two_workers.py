"""One model over two workers on loopback: the same token ids as on this machine alone, and what the network costs.

Needs a llama-cpp-python that is built with RPC (see the README). Starts two workers with one thread each, answers a
prompt in every mode, greedy and with a seed, alone and spread over both; then ends a worker in the middle of a reply.
Exits with 1 when ids differ, or when the loss is anything but an error that the session survives.

    python benchmarks/two_workers.py [MODEL] [--tokens N] [--threads N] [--layout file|repacked]

--layout: of the weights on this machine alone. A worker has them as in the file; repacked weights are summed in another
order for some quantizations, so that ids can differ at near-ties.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from speclocal.decoding.types import SamplingParams
from speclocal.errors import ModelError, WorkerError
from speclocal.jobs.generate import choose_models, open_session, prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.session import Session
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.llama.workers import parse

PROMPT = "List the days of the week. Then list them again, each with a sentence about it."
WAYS = {"greedy": (0.0, None), "seed 7": (0.8, 7)}
"""Temperature and seed."""


@dataclass
class Worker:
    """A process that lends this machine, and where."""

    process: subprocess.Popen[str]
    port: int

    @classmethod
    def start(cls, port: int = 0, threads: int = 1) -> Worker:
        command = [sys.executable, "-m", "speclocal", "worker", "--port", str(port), "--threads", str(threads)]
        process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            sys.exit("a worker did not start")
        return cls(process, json.loads(line)["address"]["port"])

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def two_workers() -> Iterator[list[Worker]]:
    """Give a list of two workers, ended afterwards; those put in their places are ended too."""
    workers = [Worker.start(), Worker.start()]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.end()


def finished(reply: Reply) -> Reply:
    for _ in reply:
        pass
    return reply


def opened(
    model: str, placement: Placement, settings: ReplySettings, layout: Layout = Layout.FILE
) -> tuple[Session, list[int]]:
    """Return a session that drafts with the target itself, and the prompt's tokens."""
    choice = choose_models(model, "", Mode.AUTO)
    choice = replace(choice, draft=choice.target)
    session = open_session(choice, placement, layout=layout)
    tokens = prompt_tokens(session, PROMPT, raw=False)
    session.open_context(len(tokens), settings, 1024)
    return session, tokens


def compare(model: str, alone: Placement, spread: Placement, num_tokens: int, layout: Layout) -> bool:
    """Print, for every mode and way of sampling, whether the ids are the same and how the speeds relate."""
    all_same = True
    settings = ReplySettings(max_tokens=num_tokens)
    here, tokens = opened(model, alone, settings, layout)
    there, _ = opened(model, spread, settings)
    print("| sampling | mode | ids | tokens | alone, tokens/s | two workers, tokens/s | ratio |")
    print("|---|---|---|---|---|---|---|")
    with here, there:
        for way, (temperature, seed) in WAYS.items():
            for mode in Mode:
                asked = replace(settings, mode=mode, seed=seed, params=SamplingParams(temperature=temperature))
                ours, theirs = finished(here.reply(tokens, asked)), finished(there.reply(tokens, asked))
                same = ours.token_ids == theirs.token_ids
                all_same &= same
                speeds = [reply.stats.tokens_per_second or 0.0 for reply in (ours, theirs)]
                print(
                    f"| {way} | {mode} | {'same' if same else 'DIFFERENT'} | {ours.stats.tokens} | {speeds[0]:.1f} | "
                    f"{speeds[1]:.1f} | {speeds[1] / speeds[0]:.2f} |"
                )
    return all_same


def lose_a_worker(model: str, spread: Placement, workers: list[Worker]) -> bool:
    """End a worker in the middle of a reply; return whether the session says so, waits for it and goes on."""
    settings = ReplySettings(mode=Mode.OFF, max_tokens=64)
    session, tokens = opened(model, spread, settings)
    with session:
        whole = finished(session.reply(tokens, settings)).token_ids
        reply = session.reply(tokens, settings)
        try:
            for count, _ in enumerate(reply):
                if count == 4:
                    workers[1].end()
            print("a worker ended, and the reply went on")
            return False
        except WorkerError as error:
            print(f"a worker ended after {reply.stats.tokens} tokens: {error.message}")
        cut_off_rightly = whole[: reply.stats.tokens] == reply.token_ids
        try:
            finished(session.reply(tokens, settings))
            print("a worker is gone, and the session did not notice")
            return False
        except ModelError as error:
            print(f"asked again without it: {error.message}")
        workers[1] = Worker.start(workers[1].port)
        again = finished(session.reply(tokens, settings)).token_ids
        print(f"asked again with a new one: {'the same ids as before' if again == whole else 'OTHER IDS'}")
        return cut_off_rightly and again == whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layout", type=Layout, default=Layout.FILE, choices=list(Layout))
    args = parser.parse_args()
    with two_workers() as workers:
        alone = Placement(args.threads)
        spread = replace(alone, rpc=parse(",".join(f"127.0.0.1:{worker.port}" for worker in workers)))
        right = compare(args.model, alone, spread, args.tokens, args.layout)
        right &= lose_a_worker(args.model, spread, workers)
    sys.exit(not right)


if __name__ == "__main__":
    main()
