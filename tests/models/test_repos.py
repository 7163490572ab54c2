"""Which file of a repository is taken when nobody says: a model, small and good; a list when there is no telling."""

from __future__ import annotations

import pytest

from speclocal.errors import DownloadError
from speclocal.models.catalog import HubRepo
from speclocal.models.kinds import Kind, kind_by_name, quantization_in
from speclocal.models.repos import choose


def taken(*names: str, quantization: str = "") -> str:
    return choose(HubRepo("me/r", quantization), names).file.file


def refused(*names: str, quantization: str = "") -> tuple[str, str]:
    with pytest.raises(DownloadError) as caught:
        choose(HubRepo("me/r", quantization), names)
    return caught.value.message, caught.value.hint


def test_q4_k_m_comes_first_then_what_is_near() -> None:
    assert taken("x-Q8_0.gguf", "x-Q4_K_M.gguf", "x-Q4_K_S.gguf") == "x-Q4_K_M.gguf"
    assert taken("x-Q8_0.gguf", "x-Q5_K_M.gguf", "x-Q2_K.gguf") == "x-Q5_K_M.gguf"
    assert taken("x-f16.gguf", "x.q8_0.gguf") == "x.q8_0.gguf"


def test_the_only_model_needs_no_quantization_in_its_name() -> None:
    assert taken("x.gguf", "mmproj.gguf", "x.imatrix.gguf") == "x.gguf"


def test_a_quantization_can_be_asked_for() -> None:
    assert taken("x-Q8_0.gguf", "x-Q4_K_M.gguf", quantization="Q8_0") == "x-Q8_0.gguf"
    assert refused("x-Q8_0.gguf", quantization="Q3_K_S") == (
        "me/r holds no model in Q3_K_S",
        "name one, as hf:me/r:FILE; there are x-Q8_0.gguf",
    )


def test_a_split_model_counts_once_by_its_first_part() -> None:
    parts = [f"Q4_K_M/x-Q4_K_M-{number:05}-of-00002.gguf" for number in (1, 2)]
    assert taken(*parts, "x-Q2_K.gguf") == parts[0]


def test_two_models_of_one_quantization_are_not_chosen_between() -> None:
    assert refused("a-Q4_K_M.gguf", "b-Q4_K_M.gguf") == (
        "me/r holds 2 models in Q4_K_M",
        "name one, as hf:me/r:FILE; there are a-Q4_K_M.gguf, b-Q4_K_M.gguf",
    )
    assert refused("a.gguf", "b.gguf") == (
        "me/r holds 2 models, none in a usual quantization",
        "name one, as hf:me/r:FILE; there are a.gguf, b.gguf",
    )


def test_a_repository_without_models_says_what_it_holds() -> None:
    assert refused() == ("me/r holds no model in a .gguf file", "look for a repository with GGUF in its name")
    assert refused("mmproj-x.gguf") == ("me/r holds no model in a .gguf file", "it holds mmproj-x.gguf")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("mmproj-model-f16.gguf", Kind.PROJECTOR),
        ("Qwen2.5-VL-7B.mmproj-Q8_0.gguf", Kind.PROJECTOR),
        ("nomic-embed-text-v1.5.Q8_0.gguf", Kind.EMBEDDER),
        ("dir/Qwen3-Embedding-0.6B-Q8_0.gguf", Kind.EMBEDDER),
        ("bge-reranker-v2-m3-Q4_K_M.gguf", Kind.EMBEDDER),
        ("imatrix.gguf", Kind.IMATRIX),
        ("Llama-3.imatrix.gguf", Kind.IMATRIX),
        ("Llama-3-imatrix-Q4_K_M.gguf", Kind.MODEL),
        ("pangu-embedded-7b-Q4_K_M.gguf", Kind.MODEL),
        ("embeddings/llama-3-8b-Q4_K_M.gguf", Kind.MODEL),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", Kind.MODEL),
    ],
)
def test_names_give_away_what_is_no_model(name: str, kind: Kind) -> None:
    assert kind_by_name(name) is kind


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", "Q4_K_M"),
        ("gemma-3-UD-IQ2_XXS.gguf", "IQ2_XXS"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("x-BF16-00001-of-00002.gguf", "BF16"),
        ("x-f16.gguf", "F16"),
        ("model.gguf", None),
        ("Q4_K_M/model.gguf", None),
    ],
)
def test_names_tell_the_quantization(name: str, quantization: str | None) -> None:
    assert quantization_in(name) == quantization
