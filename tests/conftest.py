"""Fixtures every room may use."""

import os
import signal
from pathlib import Path

import pytest

from speclocal.models.catalog import load_catalog
from speclocal.models.references import resolve
from speclocal.models.sources import fetch

CACHE = os.environ.get("SPECLOCAL_CACHE")

# Started in the background, pytest and all it starts would ignore Ctrl-C and a hangup, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def default_model_path() -> Path:
    """The default model's file, fetched once (93 MB) and kept in the user's cache between runs."""
    packaged_only = load_catalog(user_file=Path("no user file"))
    with pytest.MonkeyPatch.context() as patch:  # the first test to ask may have a cache of its own
        if CACHE is None:
            patch.delenv("SPECLOCAL_CACHE", raising=False)
        else:
            patch.setenv("SPECLOCAL_CACHE", CACHE)
        return fetch(resolve(packaged_only.default, packaged_only).target)
