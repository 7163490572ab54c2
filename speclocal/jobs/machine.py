"""What this machine offers to models: what computes, how many cores and how much memory, what lies on its disk.

Knows where such facts are asked for; shows nothing.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

from speclocal.jobs.store import NOTES, PROMPTS
from speclocal.llama.devices import Device, backends, devices
from speclocal.llama.grants import Cores, count_cores, free_memory, total_memory
from speclocal.llama.hardware import advice, gpus_in_this_machine, system_name
from speclocal.llama.weights import features, version
from speclocal.models.catalog import load_catalog
from speclocal.models.files import cache_dir
from speclocal.models.listing import ListedModel, listing


@dataclass(frozen=True)
class CachePlace:
    """A folder in which something is kept, and how much."""

    what: str
    folder: Path
    num_files: int
    num_bytes: int


@dataclass(frozen=True)
class MachineReport:
    """Everything `doctor` tells without a model.

    features: what of the processor llama.cpp was built to use. advice: what to do so that idle GPUs are used.
    """

    python: str
    system: str
    llama_cpp_python: str
    features: tuple[str, ...]
    backends: tuple[str, ...]
    devices: tuple[Device, ...]
    advice: tuple[str, ...]
    cores: Cores
    free_bytes: int
    total_bytes: int
    places: tuple[CachePlace, ...]
    models: tuple[ListedModel, ...]


def look_around() -> MachineReport:
    """Return what this machine offers. Makes no network request and loads no model."""
    names, found, listed = backends(), devices(), listing(load_catalog())
    return MachineReport(
        python=f"{platform.python_version()} ({sys.executable})",
        system=system_name(),
        llama_cpp_python=version(),
        features=features(),
        backends=names,
        devices=found,
        advice=tuple(advice(gpus_in_this_machine(), names, found)),
        cores=count_cores(),
        free_bytes=free_memory(),
        total_bytes=total_memory(),
        places=_places(),
        models=tuple(model for model in (*listed.models, *listed.elsewhere) if model.path),
    )


def _places() -> tuple[CachePlace, ...]:
    from huggingface_hub import constants

    folders = {
        "fetched models": cache_dir() / "models",
        "the Hub's cache": Path(constants.HF_HUB_CACHE),
        "measurements": cache_dir() / "measured",
        "processed prompts": PROMPTS.folder,
        "notes on texts": NOTES.folder,
    }
    return tuple(CachePlace(what, folder, *_filled(folder)) for what, folder in folders.items())


def _filled(folder: Path) -> tuple[int, int]:
    """Return how many files a folder holds, in other folders too, and their bytes; links count as nothing."""
    num_files = num_bytes = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                if not path.is_symlink():
                    num_bytes += path.stat().st_size
                    num_files += 1
            except OSError:  # another process may have removed it
                continue
    return num_files, num_bytes
