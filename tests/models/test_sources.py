"""The default model is what the catalogue says, and a file on this disk is where it is."""

from pathlib import Path

import pytest

from speclocal.errors import DownloadError
from speclocal.models import files
from speclocal.models.catalog import LocalFile, ModelSpec, load_catalog
from speclocal.models.sources import fetch, find


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
