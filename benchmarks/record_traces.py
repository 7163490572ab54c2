"""Record what replay.py replays: greedy replies, and what a draft model would have guessed at every position.

For each prompt: its token ids, the emitted ids, and per emitted token the draft model's likeliest token and the
probability it gave it, after the same true text. Given those, every greedy policy can be replayed without a model.

    python benchmarks/record_traces.py [MODEL_OR_PAIR] [--tokens N] [--out benchmarks/traces.json]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from prompts import load_prompts

from speclocal.decoding.loop import read
from speclocal.decoding.recording import guesses_along
from speclocal.jobs.generate import choose_models, open_session, prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.llama.model import LlamaModel
from speclocal.llama.placement import Placement


def guesses(model: LlamaModel, prompt: list[int], emitted: list[int]) -> tuple[list[int], list[float]]:
    """Return the draft model's guess for every emitted token, given all tokens before it, and its confidence."""
    read(model, prompt[:-1])
    tokens, confidences = guesses_along(model, [prompt[-1], *emitted[:-1]], model.vocab_size)
    return tokens, [round(sure, 4) for sure in confidences]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="qwen2.5-coder")
    parser.add_argument("--tokens", type=int, default=320)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "traces.json")
    args = parser.parse_args()

    choice = choose_models(args.model, "", Mode.DRAFT)
    settings = ReplySettings(mode=Mode.OFF, max_tokens=args.tokens)
    traces = []
    with open_session(choice, Placement.choose()) as session:
        prompts = [(prompt, prompt_tokens(session, prompt.text, raw=False)) for prompt in load_prompts()]
        session.open_context(max(len(ids) for _, ids in prompts), settings)
        assert session.draft is not None
        for prompt, ids in prompts:
            reply = session.reply(ids, settings)
            for _ in reply:
                pass
            draft, confidences = guesses(session.draft, ids, reply.token_ids)
            traces.append(
                {
                    "name": prompt.name,
                    "kind": prompt.kind,
                    "prompt": ids,
                    "emitted": reply.token_ids,
                    "draft": draft,
                    "confidence": confidences,
                }
            )
            agreed = sum(a == b for a, b in zip(draft, reply.token_ids, strict=True))
            print(
                f"{prompt.name}: {len(ids)} + {len(draft)} tokens, draft agrees on {agreed / len(draft):.0%}",
                flush=True,
            )
    target, drafter = choice.target.name, choice.draft.name if choice.draft else None
    lines = ",\n".join(json.dumps(trace, separators=(",", ":")) for trace in traces)
    args.out.write_text(f'{{"target":"{target}","draft":"{drafter}","traces":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
