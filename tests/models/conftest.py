"""A Hub of one's own, and a disk on which nothing lies yet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import ggufs
import pytest
from hub_server import FakeHub, serving


@pytest.fixture
def own_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, the caches of speclocal and of the Hub, and no settings of whoever runs the tests."""
    from huggingface_hub import constants

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    for name in ("HF_TOKEN", "HF_HOME", "HF_HUB_OFFLINE", "OLLAMA_MODELS", "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path


@pytest.fixture
def server(own_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    """A Hub on loopback with one model. The client's pauses between tries take no time."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    with serving(FakeHub({"me/open": {"m.gguf": ggufs.model(25_000)}})) as fake:
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        yield fake
