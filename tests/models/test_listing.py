"""What there is, found without a request and without loading; and only what speclocal fetched can be removed."""

from __future__ import annotations

import hashlib
from pathlib import Path

import ggufs
import pytest
from elsewhere_folders import put_hub, put_lm_studio, put_ollama, states
from hub_server import FakeHub

from speclocal.errors import UsageError
from speclocal.models.catalog import Catalog, HubFile, LocalFile, ModelSpec, PairSpec, Wheels
from speclocal.models.listing import ListedModel, listing
from speclocal.models.references import resolve
from speclocal.models.removal import removable, remove
from speclocal.models.sources import fetch, find

CONTENT = ggufs.model(25_000)


def local(path: Path) -> ModelSpec:
    return ModelSpec(path.stem, path.name, (LocalFile(path),))


def only(models: tuple[ListedModel, ...]) -> ListedModel:
    (model,) = models
    return model


def test_listing_tells_what_is_here_and_which_pairs_are_complete(own_disk: Path) -> None:
    ggufs.write(own_disk, {"a.gguf": CONTENT, "b.gguf": CONTENT, "d.gguf": CONTENT[:99]})
    a, b, c, d = (local(own_disk / f"{name}.gguf") for name in "abcd")
    whole, half, broken = PairSpec("whole", "a", "b"), PairSpec("half", "a", "c"), PairSpec("broken", "a", "d")
    catalog = Catalog({"a": a, "b": b, "c": c, "d": d}, {pair.name: pair for pair in (whole, half, broken)})
    listed = listing(catalog)
    assert [model.path and model.path.name for model in listed.models] == ["a.gguf", "b.gguf", None, "d.gguf"]
    assert [pair.complete for pair in listed.pairs] == [True, False, False]


def test_header_tells_what_the_catalogue_does_not(own_disk: Path) -> None:
    ggufs.write(own_disk, {"a.gguf": CONTENT})
    model = listing(Catalog({"a": local(own_disk / "a.gguf")})).models[0]
    assert (model.size_bytes, model.quantization, model.context_length) == (len(CONTENT), "Q4_K_M", 4096)
    assert (model.licence, model.flaw, model.usable) == ("mit", "", True)


def test_model_that_is_not_here_is_told_by_its_name(own_disk: Path) -> None:
    spec = ModelSpec("m", "m-Q8_0.gguf", (HubFile("me/r", "m-Q8_0.gguf"),), size_bytes=5, licence="mit")
    model = listing(Catalog({"m": spec})).models[0]
    assert (model.size_bytes, model.quantization, model.context_length) == (5, "Q8_0", None)
    assert (model.path, model.usable) == (None, False)


def test_broken_files_are_flagged_without_loading(own_disk: Path) -> None:
    put_lm_studio(own_disk / "home", "pub/repo/a-cut.gguf", CONTENT[:5000])
    put_lm_studio(own_disk / "home", "pub/repo/b-page.gguf", b"<html>")
    put_lm_studio(own_disk / "home", "pub/repo/c-bert.gguf", ggufs.model(architecture="bert"))
    name, content = next(iter(ggufs.split_model("d", 2).items()))
    put_lm_studio(own_disk / "home", f"pub/repo/{name}", content)
    assert [model.flaw for model in listing(Catalog()).elsewhere] == [
        f"damaged: it is cut off: 5000 of {len(CONTENT)} bytes are there",
        "damaged: it is not a GGUF: it starts with the bytes 3c 68 74 6d",
        "`c-bert.gguf` is not a model that writes text: it is an embedding model, which reads text and writes none",
        "`d-00001-of-00002.gguf` is part of a model in 2 files, and 1 are missing: d-00002-of-00002.gguf",
    ]


def test_a_model_of_the_catalogue_is_not_listed_twice(server: FakeHub) -> None:
    spec = ModelSpec("m", "m.gguf", (HubFile("me/open", "m.gguf"),))
    path = fetch(spec)
    listed = listing(Catalog({"m": spec}))
    assert listed.models[0].path == path
    assert listed.elsewhere == ()
    assert only(listing(Catalog()).elsewhere).name == "hf:me/open:m.gguf"


def test_nothing_half_finished_is_listed(server: FakeHub, own_disk: Path) -> None:
    server.cuts = [30_000, *[0] * 50]
    with pytest.raises(Exception, match="cannot be reached"):
        fetch(resolve("hf:me/open:m.gguf", Catalog()).target)
    (own_disk / "hub/models--me--open/blobs/abc.123.incomplete").write_bytes(CONTENT[:999])  # of a process that died
    assert listing(Catalog()).elsewhere == ()


def test_listing_asks_nobody(server: FakeHub) -> None:
    listing(Catalog({"m": ModelSpec("m", "m.gguf", (HubFile("me/open", "m.gguf"),))}))
    assert server.requests == []


def test_what_speclocal_fetched_can_be_removed(server: FakeHub, own_disk: Path) -> None:
    server.repos["me/open"] |= ggufs.split_model("big", 2)
    for reference in ("hf:me/open:m.gguf", "hf:me/open:big-00001-of-00002.gguf"):
        spec = resolve(reference, Catalog()).target
        fetch(spec)
        model = removable(spec)
        assert model.num_bytes == sum(path.stat().st_size for path in model.paths)
        remove(model)
        assert find(spec) is None
    assert list((own_disk / "hub/models--me--open/blobs").iterdir()) == []
    assert list((own_disk / "cache/fetched").iterdir()) == []


def test_model_from_packages_can_be_removed(own_disk: Path) -> None:
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    spec = ModelSpec("m", "m.gguf", (Wheels(("p==1",)),), sha256=sha256)
    (path,) = ggufs.write(own_disk / "cache/models", {f"{sha256[:12]}-m.gguf": CONTENT})
    assert find(spec) == path
    remove(removable(spec))
    assert not path.exists()


def test_blob_that_another_snapshot_uses_stays(server: FakeHub, own_disk: Path) -> None:
    """Another program may hold an older state of the repository with the same file."""
    spec = resolve("hf:me/open:m.gguf", Catalog()).target
    blob = fetch(spec).resolve()
    other = own_disk / "hub/models--me--open/snapshots" / ("e" * 40) / "m.gguf"
    other.parent.mkdir()
    other.symlink_to(blob)
    remove(removable(spec))
    assert other.read_bytes() == CONTENT


def test_files_of_others_are_never_removed(own_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_MODELS", str(own_disk / "ollama"))
    put_ollama(own_disk / "ollama", "llama3.2:1b", CONTENT)
    put_lm_studio(own_disk / "home", "pub/repo/m.gguf", CONTENT)
    put_hub(own_disk / "hub", "me/r", "m.gguf", CONTENT)
    (mine,) = ggufs.write(own_disk, {"mine.gguf": CONTENT})
    before = states(own_disk)
    hints = {}
    for reference in ("ollama:llama3.2:1b", "lmstudio:pub/repo/m.gguf", "hf:me/r:m.gguf", "hf:me/r", str(mine)):
        with pytest.raises(UsageError) as caught:
            removable(resolve(reference, Catalog()).target)
        assert caught.value.message == f"`{reference}` was not fetched by speclocal"
        hints[reference] = caught.value.hint
    assert hints == {
        "ollama:llama3.2:1b": "it belongs to Ollama: `ollama rm llama3.2:1b` removes it",
        "lmstudio:pub/repo/m.gguf": "it belongs to LM Studio: remove it there",
        "hf:me/r:m.gguf": "another program fetched it into the Hub's cache: `hf cache rm` removes it",
        "hf:me/r": "another program fetched it into the Hub's cache: `hf cache rm` removes it",
        str(mine): f"it is a file of your own: remove {mine} yourself",
    }
    assert states(own_disk) == before


def test_what_is_not_here_cannot_be_removed(own_disk: Path) -> None:
    with pytest.raises(UsageError) as caught:
        removable(resolve("hf:me/r:m.gguf", Catalog()).target)
    assert caught.value.message == "`hf:me/r:m.gguf` is not on this disk"
