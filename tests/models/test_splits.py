"""A model in several files is one model: any part leads to the first, and what does not belong together is refused."""

from __future__ import annotations

from pathlib import Path

import ggufs
import pytest

from speclocal.errors import DamagedModelError, ModelError
from speclocal.models.catalog import Catalog, HubFile, LocalFile
from speclocal.models.checks import check_model
from speclocal.models.references import resolve
from speclocal.models.splits import part_names

PARTS = ggufs.split_model("big", 3)
FIRST, SECOND, THIRD = PARTS


def damage(path: Path) -> str:
    with pytest.raises(DamagedModelError) as caught:
        check_model(path)
    return caught.value.reason


def test_names_of_parts_follow_from_any_of_them() -> None:
    assert part_names("dir/big-00002-of-00003.gguf") == tuple(f"dir/{name}" for name in PARTS)
    for whole in ("big.gguf", "big-00000-of-00003.gguf", "big-00004-of-00003.gguf", "big-2-of-3.gguf"):
        assert part_names(whole) == (whole,)


@pytest.mark.parametrize("given", PARTS)
def test_any_part_leads_to_the_first(tmp_path: Path, given: str) -> None:
    first, *_ = ggufs.write(tmp_path, PARTS)
    spec = resolve(str(tmp_path / given), Catalog()).target
    assert spec.sources == (LocalFile(first),)
    assert spec.size_bytes == sum(map(len, PARTS.values()))
    assert resolve(f"hf:me/r:q8/{given}", Catalog()).target.sources == (HubFile("me/r", f"q8/{FIRST}"),)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    ggufs.write(tmp_path, {SECOND: PARTS[SECOND]})
    with pytest.raises(ModelError) as caught:
        resolve(str(tmp_path / SECOND), Catalog())
    assert caught.value.message == (f"`{SECOND}` is part of a model in 3 files, and 2 are missing: {FIRST}, {THIRD}")
    assert caught.value.hint == "put all 3 into one folder; `speclocal pull` with any of them fetches all"


def test_parts_glued_together_are_recognized(tmp_path: Path) -> None:
    """Written one after the other, as split archives are joined, parts make a file of which only the first counts."""
    (tmp_path / "big.gguf").write_bytes(b"".join(PARTS.values()))
    with pytest.raises(DamagedModelError) as caught:
        check_model(tmp_path / "big.gguf")
    assert caught.value.reason == "it is 3 parts glued together, and only the first can be read"
    assert "llama-gguf-split --merge" in caught.value.hint


def test_whole_models_glued_together_are_recognized(tmp_path: Path) -> None:
    (tmp_path / "two.gguf").write_bytes(ggufs.model() * 2)
    assert damage(tmp_path / "two.gguf") == "it is files glued together, and only the first can be read"


def test_bytes_after_the_data_that_are_no_header_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "padded.gguf").write_bytes(ggufs.model() + bytes(5000))
    check_model(tmp_path / "padded.gguf")


def test_part_under_another_name_is_told(tmp_path: Path) -> None:
    """llama.cpp finds the other parts by name alone."""
    (tmp_path / "big.gguf").write_bytes(PARTS[FIRST])
    with pytest.raises(ModelError) as caught:
        check_model(tmp_path / "big.gguf")
    assert caught.value.message == "`big.gguf` is part 1 of a model in 3 files, under another name"
    assert caught.value.hint == "name the parts as they were, NAME-00001-of-00003.gguf and so on, in one folder"


def test_parts_that_were_exchanged_are_told(tmp_path: Path) -> None:
    ggufs.write(tmp_path, {**PARTS, SECOND: PARTS[THIRD]})
    assert damage(tmp_path / FIRST) == "by its name it is part 2 of 3, by its header part 3 of 3"
    ggufs.write(tmp_path, {**PARTS, SECOND: ggufs.model()})
    assert damage(tmp_path / FIRST) == "by its name it is part 2 of 3, by its header a whole model"


def test_parts_of_different_models_are_told(tmp_path: Path) -> None:
    extra = ggufs.file_of(
        [ggufs.entry("split.no", 1), ggufs.entry("split.count", 3), ggufs.entry("split.tensors.count", 4)],
        [ggufs.tensor("a", 8), ggufs.tensor("b", 8, offset=32)],
        data=64,
    )
    ggufs.write(tmp_path, {**PARTS, SECOND: extra})
    assert damage(tmp_path / FIRST) == "its parts hold 4 tensors of 3: they belong to different models"


def test_part_that_is_cut_off_is_named(tmp_path: Path) -> None:
    ggufs.write(tmp_path, {**PARTS, THIRD: PARTS[THIRD][:-1]})
    with pytest.raises(DamagedModelError, match=rf"`{THIRD}` is damaged: it is cut off"):
        check_model(tmp_path / FIRST)


@pytest.mark.parametrize(
    ("architecture", "metadata", "kind"),
    [
        ("clip", {}, "a projector, which shows images to another model"),
        ("llama", {"general.type": "mmproj"}, "a projector, which shows images to another model"),
        ("llama", {"general.type": "imatrix"}, "an importance matrix, made while quantizing a model"),
        ("llama", {"general.type": "adapter"}, "an adapter (LoRA), which changes another model"),
        ("bert", {}, "an embedding model, which reads text and writes none"),
        ("qwen3", {"qwen3.pooling_type": 3}, "an embedding model, which reads text and writes none"),
    ],
)
def test_headers_give_away_what_is_no_model(
    tmp_path: Path, architecture: str, metadata: ggufs.Metadata, kind: str
) -> None:
    (tmp_path / "m.gguf").write_bytes(ggufs.model(metadata=metadata, architecture=architecture))
    with pytest.raises(ModelError) as caught:
        check_model(tmp_path / "m.gguf")
    assert caught.value.message == f"`m.gguf` is not a model that writes text: it is {kind}"


def test_vocabulary_alone_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "vocab.gguf").write_bytes(ggufs.file_of([ggufs.entry("general.architecture", "llama")], []))
    with pytest.raises(ModelError, match="it is a vocabulary without weights"):
        check_model(tmp_path / "vocab.gguf")


def test_pooling_of_no_kind_is_no_sign_of_an_embedder(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(ggufs.model(metadata={"llama.pooling_type": 0}))
    check_model(tmp_path / "m.gguf")
