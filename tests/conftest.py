"""Fixtures every room may use."""

import signal
from pathlib import Path

import pytest

from speclocal.models.catalog import load_catalog
from speclocal.models.references import resolve
from speclocal.models.sources import fetch

# Started in the background, pytest and all it starts would ignore Ctrl-C and a hangup, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model's file, fetched once (93 MB) and kept in the user's cache between runs."""
    packaged_only = load_catalog(user_file=Path("no user file"))
    return fetch(resolve(packaged_only.default, packaged_only).target)
