"""Fixtures that several jobs share."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def module_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give a module a cache of its own: measurements of its models, kept by themselves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECLOCAL_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
