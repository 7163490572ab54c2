"""What this machine offers, asked without a model."""

from __future__ import annotations

from pathlib import Path

import pytest

from speclocal.jobs.machine import look_around


def test_kept_files_are_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in folders below count too; a link to a file is not a second one; a folder that is not there is empty."""
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path))
    (tmp_path / "models/below").mkdir(parents=True)
    (tmp_path / "models/a.gguf").write_bytes(b"x" * 10)
    (tmp_path / "models/below/b.gguf").write_bytes(b"x" * 5)
    (tmp_path / "models/link.gguf").symlink_to(tmp_path / "models/a.gguf")
    places = {place.what: place for place in look_around().places}
    models, notes = places["fetched models"], places["notes on texts"]
    assert (models.folder, models.num_files, models.num_bytes) == (tmp_path / "models", 2, 15)
    assert (notes.num_files, notes.num_bytes) == (0, 0)


def test_the_cpu_is_a_device() -> None:
    """Every build computes on the CPU; memory and threads are those this process is granted."""
    report = look_around()
    assert "CPU" in report.backends
    assert any(device.backend == "CPU" for device in report.devices)
    assert 0 < report.free_bytes <= report.total_bytes
    assert 1 <= report.cores.usable <= report.cores.cores <= report.cores.hardware_threads
