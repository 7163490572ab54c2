"""What a result depends on that is kept on disk: a key that changes with it.

Knows files and machines, not the results.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from speclocal.llama.devices import devices_for
from speclocal.llama.formats import Layout
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights, machine


def origin(path: Path, placement: Placement) -> dict[str, Any]:
    """Return what the numbers of a model depend on: its file, its place in memory, and what computes them.

    How the weights come into memory, and whether they are locked there, changes no pass.
    """
    file = path.stat()
    return {
        "file": str(path.resolve()),
        "size": file.st_size,
        "changed": file.st_mtime_ns,
        "threads": placement.threads,
        "kv_type": placement.kv_type,
        "layout": placement.layout,
        **_devices(placement),
        "machine": machine(),
    }


def _devices(placement: Placement) -> dict[str, Any]:
    """Return where the layers are. Workers are known by their addresses, without asking them."""
    here = () if placement.rpc else devices_for(placement)
    named = [*map(str, placement.rpc), *placement.devices] if placement.rpc else []
    return {
        "gpu_layers": placement.gpu_layers if here or placement.rpc else 0,
        "devices": [f"{device.name}: {device.description}" for device in here] or named,
        "main_gpu": placement.main_gpu if placement.rpc else None,
        "tensor_split": list(placement.tensor_split) if placement.rpc or len(here) > 1 else [],
    }


def origin_in_any_layout(weights: Weights) -> dict[str, Any]:
    """Return the origin of what may be handed from one layout of the weights to the other, as caches are."""
    return origin(weights.path, weights.placement.in_layout(Layout.FILE))


def digest(key: Any) -> str:
    """Return a short name for a key of plain values."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]
