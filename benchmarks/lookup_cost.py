"""What prompt lookup costs: microseconds a token to grow the index and to find a match, and its memory.

Texts of N tokens, half of it copied with changes from elsewhere in it, as an edited file would be.

    python benchmarks/lookup_cost.py [--tokens N ...]
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from speclocal.decoding.drafters.lookup import LookupDrafter

NUM_MEASURED = 2000  # rounds at the end of the text


def text_of(num_tokens: int) -> list[int]:
    """Return tokens distributed as words are (Zipf), with passages of 5 to 200 tokens that come back."""
    rng = np.random.default_rng(0)
    text: list[int] = []
    while len(text) < num_tokens:
        size = int(rng.integers(5, 200))
        if text and rng.random() < 0.5:
            start = int(rng.integers(len(text)))
            text += text[start : start + size]
        else:
            text += np.minimum(rng.zipf(1.3, size), 150_000).tolist()
    return text[:num_tokens]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    for num_tokens in parser.parse_args().tokens:
        text = text_of(num_tokens + NUM_MEASURED)
        tracemalloc.start()
        drafter = LookupDrafter(min_match=1)
        drafter.begin(text[:num_tokens])
        drafter.match(text[:num_tokens])
        num_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()

        fresh = LookupDrafter(min_match=1)
        began = time.perf_counter()
        fresh.match(text[:num_tokens])
        build = (time.perf_counter() - began) / num_tokens

        seconds = []
        for end in range(num_tokens + 1, num_tokens + NUM_MEASURED):
            tokens = text[:end]
            began = time.perf_counter()
            if match := fresh.match(tokens):
                fresh.copy(match, 32)
            seconds.append(time.perf_counter() - began)
        print(
            f"{num_tokens:>7} tokens: {1e6 * build:.1f} microseconds a token to build, "
            f"{1e6 * float(np.median(seconds)):.0f} (99 %: {1e6 * float(np.quantile(seconds, 0.99)):.0f}) a round, "
            f"{num_bytes / num_tokens:.0f} bytes a token"
        )


if __name__ == "__main__":
    main()
