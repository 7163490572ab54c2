"""The rooms of the house import downwards only."""

import ast
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[1] / "speclocal"
FLOORS = {"errors": 0, "decoding": 1, "text": 2, "models": 2, "llama": 2, "jobs": 3, "terminal": 4}


def imports(path: Path) -> set[str]:
    """Return the dotted names that the module at `path` imports, wherever in it; no relative ones."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" if node.level == 0 else "." for alias in node.names}
    return names


def may_import(room: str, name: str) -> bool:
    package, _, rest = name.partition(".")
    if package == "speclocal":
        other = rest.split(".")[0]
        return other in ("", "__version__", room) or FLOORS[other] < FLOORS[room]
    if package == "llama_cpp":
        return room == "llama"
    return package in sys.stdlib_module_names or (package == "numpy" if room == "decoding" else FLOORS[room] > 1)


def test_rooms_import_only_rooms_below_and_only_llama_imports_llama_cpp() -> None:
    """terminal > jobs > {text, models, llama} > decoding > errors; the core is numpy and the standard library."""
    modules = {path: path.relative_to(HOUSE).with_suffix("").parts[0] for path in HOUSE.rglob("*.py")}
    assert FLOORS.keys() <= set(modules.values())
    violations = [
        f"{path.relative_to(HOUSE)} imports {name}"
        for path, room in modules.items()
        if room in FLOORS
        for name in sorted(imports(path))
        if not may_import(room, name)
    ]
    assert not violations
