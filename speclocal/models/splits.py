"""Models in several files, name-00001-of-00003.gguf and so on, as llama.cpp splits and loads them.

Knows names and neighbours, not what is inside.
"""

import re
from pathlib import Path

_PART = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE | re.DOTALL)


def part_names(name: str) -> tuple[str, ...]:
    """Return the names of all parts of the model that the file `name` is a part of; of a whole model its own."""
    match = _PART.fullmatch(name)
    if match is None or not 1 <= int(match[2]) <= int(match[3]):
        return (name,)
    return tuple(f"{match[1]}-{number:05}-of-{match[3]}{match[4]}" for number in range(1, int(match[3]) + 1))


def parts(path: Path) -> tuple[Path, ...]:
    """Return the files of the model that the file at `path` is, or is a part of; they need not be there."""
    return tuple(path.with_name(name) for name in part_names(path.name))


def missing(path: Path) -> tuple[str, ...]:
    """Return the names of the parts that are not beside the file at `path`."""
    return tuple(part.name for part in parts(path) if not part.is_file())


def total_bytes(path: Path) -> int:
    """Return the size of a model in all its parts; those that are missing count nothing."""
    return sum(part.stat().st_size for part in parts(path) if part.is_file())
