"""What there is: the models and pairs of the catalogue, and the models of other programs, with what is on this disk.

Knows specs, files and headers, not how they are shown. Makes no network request and loads no model.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from speclocal.errors import DamagedModelError, ModelError
from speclocal.models import elsewhere, splits
from speclocal.models.catalog import Catalog, HubFile, ModelSpec, PairSpec
from speclocal.models.checks import check_model
from speclocal.models.header import Header
from speclocal.models.kinds import quantization_in
from speclocal.models.sources import find


@dataclass(frozen=True)
class Inspected:
    """A file on this disk, and what its header says or what is wrong with it: one of the two."""

    path: Path
    header: Header | None
    flaw: str = ""


@dataclass(frozen=True)
class ListedModel:
    """A model by name, and its file if that is on this disk. Sizes are in bytes; None is unknown."""

    name: str
    spec: ModelSpec | None  # of the catalogue
    found: Inspected | None

    @property
    def path(self) -> Path | None:
        return self.found.path if self.found else None

    @property
    def usable(self) -> bool:
        return self.found is not None and not self.found.flaw

    @property
    def flaw(self) -> str:
        return self.found.flaw if self.found else ""

    @property
    def size_bytes(self) -> int | None:
        if self.found:
            return splits.total_bytes(self.found.path)
        return self.spec.size_bytes if self.spec else None

    @property
    def quantization(self) -> str | None:
        """What the header says; of a file that is not here, what its name says."""
        return (self._header and self._header.quantization) or quantization_in(self._file)

    @property
    def context_length(self) -> int | None:
        return self._header.context_length if self._header else None

    @property
    def licence(self) -> str | None:
        return (self.spec and self.spec.licence) or (self._header and self._header.licence) or None

    @property
    def _header(self) -> Header | None:
        return self.found.header if self.found else None

    @cached_property
    def _file(self) -> str:
        return self.spec.file if self.spec else self.name


@dataclass(frozen=True)
class ListedPair:
    """A pair of the catalogue, and whether both its files are on this disk and whole."""

    spec: PairSpec
    complete: bool


@dataclass(frozen=True)
class Listing:
    models: tuple[ListedModel, ...]
    pairs: tuple[ListedPair, ...]
    elsewhere: tuple[ListedModel, ...]  # of other programs, by the name under which they can be used


def listing(catalog: Catalog) -> Listing:
    """Return every model and pair of the catalogue, and every model of another program that is not one of those."""
    models = tuple(ListedModel(spec.name, spec, _inspected(find(spec))) for spec in catalog.models.values())
    usable = {model.name for model in models if model.usable}
    pairs = tuple(ListedPair(pair, {pair.target, pair.draft} <= usable) for pair in catalog.pairs.values())
    known = {str(source) for spec in catalog.models.values() for source in spec.sources if isinstance(source, HubFile)}
    others = tuple(
        ListedModel(model.name, None, _inspected(model.path)) for model in elsewhere.models() if model.name not in known
    )
    return Listing(models, pairs, others)


def _inspected(path: Path | None) -> Inspected | None:
    if path is None:
        return None
    try:
        return Inspected(path, check_model(path))
    except DamagedModelError as exc:
        return Inspected(path, None, f"damaged: {exc.reason}")
    except ModelError as exc:
        return Inspected(path, None, exc.message)
