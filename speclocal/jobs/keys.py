"""What a result depends on that is kept on disk: a key that changes with it.

Knows files and machines, not the results.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights, machine


def origin(path: Path, placement: Placement) -> dict[str, Any]:
    """Return what the numbers of a model depend on: its file, its place in memory, and what computes them."""
    file = path.stat()
    return {
        "file": str(path.resolve()),
        "size": file.st_size,
        "changed": file.st_mtime_ns,
        "placement": json.loads(json.dumps(asdict(placement))),  # as it comes back from disk: lists for tuples
        "machine": machine(),
    }


def origin_in_any_layout(weights: Weights) -> dict[str, Any]:
    """Return the origin of what may be handed from one layout of the weights to the other, as caches are."""
    return origin(weights.path, weights.placement.in_layout(Layout.FILE))


def digest(key: Any) -> str:
    """Return a short name for a key of plain values."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
