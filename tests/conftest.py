"""Fixtures every room may use."""

from pathlib import Path

import pytest

from speclocal.models.catalog import load_catalog
from speclocal.models.references import resolve
from speclocal.models.sources import fetch


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model's file, fetched once (93 MB) and kept in the user's cache between runs."""
    packaged_only = load_catalog(user_file=Path("no user file"))
    return fetch(resolve(packaged_only.default, packaged_only).target)
