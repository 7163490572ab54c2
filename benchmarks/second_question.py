"""How much sooner the second question about a file is answered than the first.

A text of 1,500 tokens, two questions, each in a session of its own, as two commands would ask them. Prints the seconds
from each question to the first token of its answer, with and without loading the model, and the ratios.

    python benchmarks/second_question.py [MODEL] [--tokens N] [--threads N]
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from speclocal.jobs.generate import choose_models, open_session
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings, Writing
from speclocal.jobs.requests import Request
from speclocal.jobs.summarize import Summarizer
from speclocal.llama.placement import Placement
from speclocal.models.sources import fetch
from speclocal.text.parts import split

TEXT = " ".join((Path(__file__).parents[1] / "README.md").read_text().split())
SETTINGS = ReplySettings(mode=Mode.OFF, max_tokens=1)


def first_token(model: str, placement: Placement, num_tokens: int, question: str) -> tuple[float, float, int]:
    """Return the seconds to the first token, those with loading, and how many tokens were found processed."""
    begun = time.perf_counter()
    with open_session(choose_models(model, "", Mode.OFF), placement) as session:
        summarizer = Summarizer(session, Request(question=question), SETTINGS)
        text = split(TEXT, num_tokens, lambda part: len(session.vocab.tokenize(part)))[0]
        plan = summarizer.plan(text)
        reply = summarizer.reply(plan)
        asked = time.perf_counter()
        next(event for event in reply if isinstance(event, Writing))
        ended = time.perf_counter()
    return ended - asked, ended - begun, reply.stats.prompt_reused


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", default="")
    parser.add_argument("--tokens", type=int, default=1500)
    parser.add_argument("--threads", type=int)
    args = parser.parse_args()
    choice = choose_models(args.model, "", Mode.OFF)
    model = str(fetch(choice.target))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SPECLOCAL_CACHE"] = folder
        questions = ("What does it do?", "How is it installed?")
        (first, first_all, _), (second, second_all, reused) = (
            first_token(model, Placement.choose(args.threads), args.tokens, question) for question in questions
        )
    print(f"first question: {first:.3f} s, with loading {first_all:.3f} s")
    print(f"second question: {second:.3f} s, with loading {second_all:.3f} s; {reused} tokens were found processed")
    print(f"sooner by: {first / second:.1f}x, with loading {first_all / second_all:.1f}x")


if __name__ == "__main__":
    main()
