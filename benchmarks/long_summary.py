"""Summarize a text of 300 pages on the default model, interrupt it, and take it up again.

The text is generated: the yearbook of a harbour, the same on every machine. The first run is sent Ctrl-C when some
parts are done; the second must read none of them again. Prints the plan, what each run did, and the summary.

    python benchmarks/long_summary.py [--pages N] [--stop-after PARTS] [--model PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from speclocal.jobs.generate import choose_models
from speclocal.jobs.modes import Mode
from speclocal.models.sources import fetch

WORDS_PER_PAGE = 300
GOODS = ["salt", "timber", "wool", "tin", "barley", "glass", "herring", "tar", "slate", "copper", "hemp", "wine"]
PLACES = ["the north quay", "the old lock", "the customs house", "the dry dock", "the rope walk", "the lighthouse"]
EVENTS = (
    "{ships} ships came in that month, most of them with {goods}, and {place} was full to the last berth.",
    "A storm on the {day}th broke {place}, and repairing it took {weeks} weeks and {money} crowns.",
    "The council raised the duty on {goods} from {low} to {high} crowns a ton, against the advice of the pilots.",
    "Since {place} had silted up, {ships} barges a week had to wait for the spring tide.",
    "{tons} tons of {goods} lay in the sheds behind {place}, twice as much as in the year before.",
    "It was decided to dredge the channel to {depth} feet; the work was given to the lowest of {low} offers.",
    "The price of {goods} fell to {low} crowns, and {ships} crews were paid off before the winter.",
    "A new crane was set up at {place}; it lifts {tons} tons a day and needs {low} hands.",
)


def yearbook(num_pages: int) -> str:
    """Return a text of about so many pages, in chapters and paragraphs."""
    chance = random.Random(1)
    chapters, num_words, year = [], 0, 1700
    while num_words < num_pages * WORDS_PER_PAGE:
        paragraphs = []
        for _ in range(12):
            sentences = [
                chance.choice(EVENTS).format(
                    ships=chance.randint(3, 90),
                    goods=chance.choice(GOODS),
                    place=chance.choice(PLACES),
                    day=chance.randint(4, 20),
                    weeks=chance.randint(2, 9),
                    money=chance.randint(100, 9000),
                    low=chance.randint(2, 9),
                    high=chance.randint(10, 19),
                    tons=chance.randint(20, 4000),
                    depth=chance.randint(9, 24),
                )
                for _ in range(5)
            ]
            paragraphs.append(" ".join(sentence[0].upper() + sentence[1:] for sentence in sentences))
        chapter = f"# The year {year}\n\n" + "\n\n".join(paragraphs)
        chapters.append(chapter)
        num_words += len(chapter.split())
        year += 1
    return "\n\n".join(chapters) + "\n"


def parts_done(cache: Path) -> dict[str, int]:
    """Return the notes on disk by name, with the number of the file: another one after it is written again."""
    return {path.name: path.stat().st_ino for path in (cache / "notes").glob("*.json")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--stop-after", type=int, default=3)
    parser.add_argument("--model", default="")
    parser.add_argument("--words", type=int, default=150)
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs would pass on to ignore it
    model = fetch(choose_models(args.model, "", Mode.OFF).target)
    with tempfile.TemporaryDirectory() as folder:
        text, cache = Path(folder, "yearbook.md"), Path(folder, "cache")
        text.write_text(yearbook(args.pages))
        command = [sys.executable, "-m", "speclocal", "summarize", str(text), "-m", str(model)]
        command += ["--words", str(args.words)]
        environment = {**os.environ, "SPECLOCAL_CACHE": str(cache)}

        planned = subprocess.run([*command, "--plan", "--json"], env=environment, capture_output=True, check=True)
        plan = json.loads(planned.stdout)
        print(f"{args.pages} pages, {sum(part['tokens'] for part in plan['parts'])} tokens, ", end="")
        print(f"{len(plan['parts'])} parts")

        began = time.perf_counter()
        first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while len(parts_done(cache)) < args.stop_after and first.poll() is None:
            time.sleep(0.2)
        first.send_signal(signal.SIGINT)
        interrupted = time.perf_counter()
        said = first.communicate()[1].decode()
        ended = time.perf_counter()
        kept = parts_done(cache)
        print(f"interrupted after {interrupted - began:.0f} s: gone in {ended - interrupted:.2f} s, ", end="")
        print(f"exit code {first.returncode}, notes on {len(kept)} parts kept")
        print(said, file=sys.stderr)

        began = time.perf_counter()
        second = subprocess.run([*command, "--json"], env=environment, capture_output=True, check=True)
        now, result = parts_done(cache), json.loads(second.stdout)
        again = sum(now.get(name) != file for name, file in kept.items())
        print(f"taken up again: {time.perf_counter() - began:.0f} s, notes on {len(now)} parts, {again} of them again")
        print(f"\n{result['text']}\n")
        print(f"finish reason: {result['finish_reason']}, {len(result['text'].split())} words")


if __name__ == "__main__":
    main()
