"""A reference is a name, a pair, a path or a file on the Hub; anything else says what it is."""

from pathlib import Path

import ggufs
import pytest

from speclocal.errors import UsageError
from speclocal.models.catalog import Catalog, HubFile, HubRepo, LocalFile, ModelSpec, PairSpec
from speclocal.models.references import resolve

BIG = ModelSpec("big", "big.gguf", (HubFile("me/r", "big.gguf"),))
TINY = ModelSpec("tiny", "tiny.gguf", (HubFile("me/r", "tiny.gguf"),))
CATALOG = Catalog({"big": BIG, "tiny": TINY}, {"both": PairSpec("both", "big", "tiny")}, "tiny")
FORMS = "give a name from `speclocal models`, a path to a .gguf file, or hf:user/repo:file.gguf"


def refused(reference: str) -> tuple[str, str]:
    with pytest.raises(UsageError) as caught:
        resolve(reference, CATALOG)
    return caught.value.message, caught.value.hint


def test_name_gives_its_model_alone() -> None:
    found = resolve("tiny", CATALOG)
    assert (found.target, found.draft) == (TINY, None)


def test_pair_gives_target_and_draft() -> None:
    found = resolve("both", CATALOG)
    assert (found.target, found.draft) == (BIG, TINY)


def test_unknown_name_suggests_the_nearest() -> None:
    assert refused("tinny") == ("no model or pair is called `tinny`", f"did you mean `tiny`? Or {FORMS}")
    assert refused("zebra") == ("no model or pair is called `zebra`", FORMS)


def test_hub_reference_needs_no_catalogue() -> None:
    spec = resolve("hf:some-one/r.v2:dir/model-Q4.gguf", CATALOG).target
    assert spec.sources == (HubFile("some-one/r.v2", "dir/model-Q4.gguf"),)
    assert spec.file == "model-Q4.gguf"


def test_repository_alone_stands_for_its_best_file_or_one_quantization() -> None:
    assert resolve("hf:some-one/r.v2", CATALOG).target.sources == (HubRepo("some-one/r.v2"),)
    assert resolve("hf:some-one/r.v2:q8_0", CATALOG).target.sources == (HubRepo("some-one/r.v2", "Q8_0"),)


def test_file_on_the_hub_that_is_no_model_is_refused_by_its_name() -> None:
    message, hint = refused("hf:me/r:mmproj-F16.gguf")
    assert message == (
        "`hf:me/r:mmproj-F16.gguf` is not a model that writes text: "
        "by its name it is a projector, which shows images to another model"
    )
    assert hint == FORMS


@pytest.mark.parametrize("reference", ["hf:", "hf:r:a.gguf", "hf:u", "hf:u/r:a.bin", "hf:u/r:../a.gguf"])
def test_malformed_hub_reference_shows_the_form(reference: str) -> None:
    message, hint = refused(reference)
    assert message == f"`{reference}` does not name a file on the Hub"
    assert hint.startswith("write it as hf:user/repo:file.gguf")


def test_gguf_file_is_its_own_model(tmp_path: Path) -> None:
    path = tmp_path / "own.gguf"
    path.write_bytes(ggufs.model())
    spec = resolve(str(path), CATALOG).target
    assert spec.sources == (LocalFile(path),)
    assert spec.size_bytes == len(ggufs.model())


def test_absent_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "model-Q4_0.gguf").write_bytes(b"GGUF")
    path = tmp_path / "model-Q4_1.gguf"
    assert refused(str(path)) == (f"there is no file `{path}`", f"did you mean `model-Q4_0.gguf`? {FORMS}")


def test_directory_lists_the_models_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    assert refused(str(tmp_path)) == (f"`{tmp_path}` is a directory", "it holds a.gguf")


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "empty"),
        (b"\n<!DOCTYPE html><html>", "an HTML page: a download saved the page around the file"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00",
            "a git-lfs pointer: the file itself was not fetched (`git lfs pull` does)",
        ),
        (b"PK\x03\x04rest", "a zip archive"),
        (b"\x01\x02\x03\x04\x05", "something else: it starts with the bytes 01 02 03 04"),
    ],
)
def test_file_that_is_no_gguf_says_what_it_is(tmp_path: Path, content: bytes, kind: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert refused(str(path)) == (f"`{path}` is not a GGUF file but {kind}", "download the .gguf file itself")


@pytest.mark.parametrize("repo", ["../..", "-a/b", "a/b-", "a--b/c", "a/b..c", "a/.b", "a/" + "b" * 95])
def test_names_the_hub_does_not_allow_are_refused(repo: str) -> None:
    """A repository that cannot exist is a mistake in the command, found before anything is asked of the Hub."""
    message, _ = refused(f"hf:{repo}:x.gguf")
    assert "does not name a file on the Hub" in message
