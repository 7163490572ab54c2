"""The default model is what the catalogue says, and the listing tells what is on this disk."""

from pathlib import Path

import pytest

from speclocal.errors import DownloadError
from speclocal.models import files
from speclocal.models.catalog import Catalog, LocalFile, ModelSpec, PairSpec, load_catalog
from speclocal.models.sources import ListedModel, ListedPair, fetch, find, listing


def local(path: Path) -> ModelSpec:
    return ModelSpec(path.stem, path.name, (LocalFile(path),))


def test_default_model_is_the_file_the_catalogue_promises(default_model_path: Path) -> None:
    catalog = load_catalog(user_file=Path("no user file"))
    spec = catalog.models[catalog.default]
    assert files.looks_like(default_model_path) is None
    assert files.sha256_of(default_model_path) == spec.sha256
    assert default_model_path.stat().st_size == spec.size_bytes
    assert find(spec) == default_model_path


def test_local_file_is_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF")
    assert fetch(local(path)) == path


def test_local_file_that_went_away_is_named(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"a\.gguf is gone"):
        fetch(local(tmp_path / "a.gguf"))


def test_listing_tells_what_is_here_and_which_pairs_are_complete(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    (tmp_path / "b.gguf").write_bytes(b"GGUF")
    a, b, c = (local(tmp_path / f"{name}.gguf") for name in "abc")
    whole, half = PairSpec("whole", "a", "b"), PairSpec("half", "a", "c")
    listed = listing(Catalog({"a": a, "b": b, "c": c}, {"whole": whole, "half": half}))
    assert listed.models == (
        ListedModel(a, tmp_path / "a.gguf"),
        ListedModel(b, tmp_path / "b.gguf"),
        ListedModel(c, None),
    )
    assert listed.pairs == (ListedPair(whole, complete=True), ListedPair(half, complete=False))
