"""What speclocal's loop costs around llama.cpp: `--mode off` against a bare llama_decode loop.

Same model, prompt, context, threads and flash attention, greedy, interleaved in one process. Prints the ratio of
tokens/s (off / bare) of every pair of runs and their median, and the microseconds a round spends outside llama.cpp.

    python benchmarks/plain_overhead.py [MODEL] [--tokens N] [--pairs N]
"""

from __future__ import annotations

import argparse
import statistics
import time

import llama_cpp
import numpy as np

from speclocal.decoding.types import SamplingParams
from speclocal.jobs.generate import choose_models, open_session, prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement

PROMPT = "Explain how a bicycle stays upright."


def bare(model: LlamaModel, prompt: list[int], num_tokens: int) -> float:
    """Return the seconds of `num_tokens` greedy tokens with nothing around llama_decode but an argmax."""
    context, vocab_size = model._context, model.vocab_size
    memory = llama_cpp.llama_get_memory(context)
    llama_cpp.llama_memory_clear(memory, True)
    tokens = (llama_cpp.llama_token * len(prompt))(*prompt)
    llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(tokens, len(prompt) - 1))
    llama_cpp.llama_synchronize(context)
    one = (llama_cpp.llama_token * 1)(prompt[-1])
    started = time.perf_counter()
    for _ in range(num_tokens):
        llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(one, 1))
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(context, -1), (vocab_size,))
        one[0] = int(logits.argmax())
    seconds = time.perf_counter() - started
    llama_cpp.llama_memory_clear(memory, True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=0.0)
    args = parser.parse_args()

    choice = choose_models(args.model, "", Mode.OFF)
    with open_session(choice, Placement.choose()) as session:
        prompt = prompt_tokens(session, PROMPT, raw=False)
        session.open_context(len(prompt), ReplySettings(mode=Mode.OFF, max_tokens=args.tokens))
        assert session.target is not None
        session.vocab.is_end = lambda token: False  # type: ignore[method-assign]  # both sides write every token
        settings = ReplySettings(
            mode=Mode.OFF, max_tokens=args.tokens, params=SamplingParams(temperature=args.temperature)
        )
        ratios, outside = [], []
        for pair in range(args.pairs + 1):  # the first pair warms up
            off_seconds, bare_seconds = 0.0, 0.0
            for side in ("off", "bare") if pair % 2 else ("bare", "off"):
                if side == "bare":
                    bare_seconds = bare(session.target, prompt, args.tokens)
                    continue
                session.target.rollback(0)
                reply = session.reply(prompt, settings)
                for _ in reply:
                    pass
                off_seconds = reply.stats.decode_seconds
                outside.append(1e6 * (off_seconds - reply.stats.verify_seconds) / reply.stats.rounds)
            ratios.append(bare_seconds / off_seconds)
            if pair:
                print(f"pair {pair}: off {args.tokens / off_seconds:.1f} tokens/s, off / bare {ratios[-1]:.3f}")
        print(f"median off / bare: {statistics.median(ratios[1:]):.3f}")
        print(f"outside llama.cpp: {statistics.median(outside[1:]):.0f} microseconds a round")


if __name__ == "__main__":
    main()
