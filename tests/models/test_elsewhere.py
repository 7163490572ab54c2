"""Models of other programs are found, used where they lie, and never changed."""

from __future__ import annotations

from pathlib import Path

import ggufs
import pytest
from elsewhere_folders import put_hub, put_lm_studio, put_ollama, states

from speclocal.errors import ModelError, UsageError
from speclocal.models import elsewhere
from speclocal.models.catalog import Catalog, LocalFile
from speclocal.models.references import resolve
from speclocal.models.sources import fetch, find

CONTENT = ggufs.model()


@pytest.fixture
def ollama(own_disk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OLLAMA_MODELS", str(own_disk / "ollama"))
    return own_disk / "ollama"


def names() -> list[str]:
    return [model.name for model in elsewhere.models()]


def test_ollama_models_have_the_names_ollama_shows(ollama: Path) -> None:
    blob = put_ollama(ollama, "llama3.2:1b", CONTENT)
    put_ollama(ollama, "someone/model:latest", CONTENT)
    put_ollama(ollama, "hf.co/someone/Model-GGUF:Q4_K_M", CONTENT)
    assert names() == ["ollama:hf.co/someone/Model-GGUF:Q4_K_M", "ollama:llama3.2:1b", "ollama:someone/model:latest"]
    assert resolve("ollama:llama3.2:1b", Catalog()).target.sources == (LocalFile(blob),)
    assert resolve("ollama:someone/model", Catalog()).target.sources == (LocalFile(blob),)


def test_ollama_at_home_is_found_too(own_disk: Path) -> None:
    put_ollama(own_disk / "home/.ollama/models", "tiny:latest", CONTENT)
    assert names() == ["ollama:tiny:latest"]


def test_ollama_models_that_are_more_than_weights_are_passed_over(ollama: Path) -> None:
    """With an adapter the weights alone are another model; without its blob there is none."""
    put_ollama(ollama, "changed:latest", CONTENT, adapter=True)
    put_ollama(ollama, "gone:latest", CONTENT + b"x").unlink()
    (ollama / "manifests/registry.ollama.ai/library/changed/broken").write_text("{")
    (ollama / "manifests/registry.ollama.ai/library/changed/other").write_text('{"layers": [{"digest": "../../x"}]}')
    assert names() == []


def test_digest_that_leaves_the_folder_is_not_followed(ollama: Path) -> None:
    blob = put_ollama(ollama, "evil:latest", CONTENT)
    manifest = ollama / "manifests/registry.ollama.ai/library/evil/latest"
    manifest.write_text(manifest.read_text().replace(f"sha256:{blob.name.removeprefix('sha256-')}", "../secret"))
    (ollama / "secret").write_bytes(CONTENT)
    assert names() == []


def test_lm_studio_models_are_named_by_their_place(own_disk: Path) -> None:
    """In both folders it has used, and in one that a person moved it to; projectors are left out."""
    home = own_disk / "home"
    path = put_lm_studio(home, "pub/repo/m-Q4_0.gguf", CONTENT)
    put_lm_studio(home, "pub/repo/mmproj-m-F16.gguf", CONTENT)
    put_lm_studio(home, "old/repo/o.gguf", CONTENT, folder=".cache/lm-studio/models")
    put_lm_studio(own_disk, "far/repo/f.gguf", CONTENT, folder="moved/models")
    (home / ".lmstudio-home-pointer").write_text(str(own_disk / "moved"))
    assert names() == [
        "lmstudio:far/repo/f.gguf",
        "lmstudio:old/repo/o.gguf",
        "lmstudio:pub/repo/m-Q4_0.gguf",
    ]
    for reference in ("lmstudio:pub/repo/m-Q4_0.gguf", "lmstudio:pub/repo/m-Q4_0", str(path)):
        assert resolve(reference, Catalog()).target.sources == (LocalFile(path),)


def test_split_models_are_listed_once(own_disk: Path) -> None:
    for name, content in ggufs.split_model("big", 2).items():
        put_lm_studio(own_disk / "home", f"pub/repo/{name}", content)
    assert names() == ["lmstudio:pub/repo/big-00001-of-00002.gguf"]


def test_files_in_the_hubs_cache_are_found_by_the_name_that_finds_them(own_disk: Path) -> None:
    path = put_hub(own_disk / "hub", "me/Some-GGUF", "sub/m.gguf", CONTENT)
    put_hub(own_disk / "hub", "me/Some-GGUF", "config.json", b"{}")
    (own_disk / "hub/models--me--Some-GGUF/blobs/half.incomplete").write_bytes(CONTENT[:9])
    assert names() == ["hf:me/Some-GGUF:sub/m.gguf"]
    assert find(resolve("hf:me/Some-GGUF:sub/m.gguf", Catalog()).target) == path


@pytest.mark.parametrize(
    ("variable", "below"), [("HF_HUB_CACHE", ""), ("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_the_hubs_cache_is_where_the_environment_says(
    own_disk: Path, monkeypatch: pytest.MonkeyPatch, variable: str, below: str
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv(variable, str(own_disk / "elsewhere"))
    put_hub(own_disk / "elsewhere" / below, "me/r", "m.gguf", CONTENT)
    assert names() == ["hf:me/r:m.gguf"]


def test_a_wrong_name_suggests_what_there_is(ollama: Path) -> None:
    put_ollama(ollama, "llama3.2:1b", CONTENT)
    with pytest.raises(UsageError) as caught:
        resolve("ollama:llama3.2:3b", Catalog())
    assert caught.value.message == "no model on this disk is called `ollama:llama3.2:3b`"
    assert caught.value.hint == "did you mean `ollama:llama3.2:1b`? There are ollama:llama3.2:1b"
    with pytest.raises(UsageError) as caught:
        resolve("lmstudio:a/b/c", Catalog())
    assert caught.value.hint.startswith("none was found of that program; give a name from `speclocal models`")


def test_damaged_models_of_others_are_refused_before_loading(ollama: Path) -> None:
    put_ollama(ollama, "half:latest", CONTENT[:200])
    with pytest.raises(ModelError, match="`ollama:half` is damaged: it is cut off"):
        resolve("ollama:half", Catalog())


def test_using_models_of_others_changes_nothing(ollama: Path, own_disk: Path) -> None:
    put_ollama(ollama, "llama3.2:1b", CONTENT)
    put_lm_studio(own_disk / "home", "pub/repo/m.gguf", CONTENT)
    put_hub(own_disk / "hub", "me/r", "m.gguf", CONTENT)
    before = states(own_disk)
    for model in elsewhere.models():
        assert fetch(resolve(model.name, Catalog()).target).read_bytes() == CONTENT
    assert states(own_disk) == before
