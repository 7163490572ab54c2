"""What the files of a model say it takes."""

from __future__ import annotations

from pathlib import Path

import ggufs
import pytest

from speclocal.errors import ModelError
from speclocal.models.footprint import footprint_of


def test_a_split_model_takes_what_all_its_parts_take(tmp_path: Path) -> None:
    """Three parts with 256 numbers of four bytes each, whichever of them is named."""
    files = ggufs.write(tmp_path, ggufs.split_model("big", 3))
    assert [footprint_of(path).file_bytes for path in files] == [3 * 1024] * 3
    assert footprint_of(files[1]).trained_context == 4096
    files[2].unlink()
    with pytest.raises(ModelError):
        footprint_of(files[0])
