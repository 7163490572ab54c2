"""A pair becomes the command of a server: its flags, its lengths, and what is said about them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from speclocal.decoding.costs import Calibration, Exactness
from speclocal.errors import ModelError
from speclocal.jobs import export as module
from speclocal.jobs.export import Export, Places, export
from speclocal.jobs.generate import Choice, choose_models
from speclocal.jobs.modes import Server
from speclocal.llama.formats import KvType
from speclocal.llama.placement import Placement
from speclocal.llama.workers import parse
from speclocal.models.catalog import LocalFile, ModelSpec, Wheels

PLACES = Places(Placement(1), Placement(1), 4096)
EXACT = (Exactness(64, (1,)),)
FLAT = Calibration({1: 1.0, 64: 1.0}, 0.1, EXACT)
"""A device for which a pass costs the same however wide it is."""
CHEAP = Calibration({1: 0.05, 64: 0.05}, 0.01, EXACT)
STEEP = Calibration({1: 1.0, 2: 2.0, 64: 64.0}, 1.0, EXACT)
"""A device on which no pass over several tokens pays."""
CPU = Calibration({1: 1.0, 2: 1.57, 3: 2.09, 4: 2.56, 5: 3.12, 8: 4.4, 16: 5.23, 64: 20.0}, 0.3, EXACT)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache: no model of the catalogue is on this disk, none is measured."""
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))


def made(server: Server, target: str, draft: str = "", length: int | None = None, **placed: KvType | int) -> Export:
    placement = Placement(1, **placed)  # type: ignore[arg-type]
    return export(choose_models(target, draft), server, Places(placement, placement.for_draft(None), 4096), length)


def tuned(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, target: Calibration, draft: Calibration, server: Server
) -> Export:
    """Return the command for two files whose measurements are these."""
    measured = {"target.gguf": target, "draft.gguf": draft}
    monkeypatch.setattr(module, "known_calibration", lambda path, placement: measured[path.name])
    specs = []
    for name in measured:
        (tmp_path / name).write_bytes(b"GGUF")
        specs.append(ModelSpec(name, name, (LocalFile(tmp_path / name),)))
    return export(Choice(*specs), server, PLACES)


def test_llama_server_gets_the_flags_it_has_today() -> None:
    """Removed flags (`--draft-max`) would end llama-server; files that are not here are named by their repositories."""
    assert " ".join(made(Server.LLAMA, "qwen2.5-coder").words) == (
        "llama-server --hf-repo Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF "
        "--hf-file qwen2.5-coder-1.5b-instruct-q4_k_m.gguf -c 4096 -ngl auto "
        "--spec-type ngram-simple,draft-simple --spec-ngram-simple-size-n 12 --spec-ngram-simple-size-m 8 "
        "--spec-draft-hf Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF -md qwen2.5-coder-0.5b-instruct-q4_k_m.gguf "
        "-ngld auto --spec-draft-n-max 4"
    )


def test_llama_server_without_a_draft_model_copies() -> None:
    assert " ".join(made(Server.LLAMA, "qwen3-8b").words) == (
        "llama-server --hf-repo Qwen/Qwen3-8B-GGUF --hf-file Qwen3-8B-Q4_K_M.gguf -c 4096 -ngl auto "
        "--spec-type ngram-simple --spec-ngram-simple-size-n 12 --spec-ngram-simple-size-m 8"
    )


def test_placement_goes_along() -> None:
    """Cache types hold for both models, layers for each its own."""
    text = " ".join(made(Server.LLAMA, "qwen3", gpu_layers=20, kv_type=KvType.Q8_0).words)
    assert "-ngl 20 -ctk q8_0 -ctv q8_0 " in text
    assert "-ngld auto " in text
    assert text.endswith(" -ctkd q8_0 -ctvd q8_0")


def test_workers_go_along_to_llama_server() -> None:
    placement = Placement(1, rpc=parse("one:1,two"))
    words = export(choose_models("qwen3-8b", ""), Server.LLAMA, replace(PLACES, target=placement)).words
    assert words[words.index("--rpc") + 1] == "one:1,two:50052"


def test_vllm_gets_one_method_and_the_original_weights() -> None:
    *words, config = made(Server.VLLM, "qwen3").words
    assert " ".join(words) == "vllm serve Qwen/Qwen3-8B --max-model-len 4096 --speculative-config"
    assert json.loads(config) == {"method": "draft_model", "model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 4}


def test_vllm_without_a_draft_model_copies() -> None:
    *_, config = made(Server.VLLM, "qwen3-8b").words
    assert json.loads(config) == {
        "method": "ngram",
        "num_speculative_tokens": 8,
        "prompt_lookup_min": 12,
        "prompt_lookup_max": 12,
    }


def test_vllm_names_a_gguf_whose_original_is_unknown(tmp_path: Path) -> None:
    """From the Hub by repository and quantization, from this disk by its path; a note says what that needs."""
    hub = made(Server.VLLM, "hf:user/repo:sub/Model-1B-Q4_K_M.gguf")
    assert hub.words[2] == "user/repo:Q4_K_M"
    assert any("vllm-gguf-plugin" in note and "--tokenizer" in note for note in hub.notes)
    path = tmp_path / "a model.gguf"
    tiny.write_llama(path)
    assert made(Server.VLLM, str(path)).words[2] == str(path)


def test_a_length_that_is_asked_for_is_taken() -> None:
    found = made(Server.LLAMA, "qwen3", length=5)
    assert found.words[found.words.index("--spec-draft-n-max") + 1] == "5"
    assert not any("tuned" in note for note in found.notes)


def test_lengths_without_measurements_are_called_so() -> None:
    """The note names the command that measures."""
    first, *_ = made(Server.LLAMA, "qwen3").notes
    assert first == (
        "the draft length is a usual one, not tuned: `speclocal calibrate --model qwen3-8b --draft qwen3-0.6b` "
        "measures what it rests on"
    )


def test_lengths_follow_the_measured_costs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Worked out by hand for acceptance 0.8, the belief to begin with.

    Free passes and a draft step of 0.05 make (1 - 0.8^(g + 1)) / 0.2 / (1 + 0.05 g) largest at g = 8 (3.082, 3.092,
    3.078), and a token that costs 0.05 pays from acceptance 0.05 on.
    """
    found = tuned(monkeypatch, tmp_path, FLAT, CHEAP, Server.LLAMA)
    assert (found.tuning.num_drafted, found.tuning.num_copied) == (8, 48)
    assert found.tuning.least_confidence == pytest.approx(0.05)
    assert found.words[-4:] == ("--spec-draft-n-max", "8", "--spec-draft-p-min", "0.05")
    assert found.notes[0].startswith("the draft length is tuned to the pass costs measured on this machine")


def test_devices_that_are_not_here_are_the_servers(tmp_path: Path) -> None:
    """Layers for a GPU can be exported from a machine without one; then nothing is measured."""
    path = tmp_path / "model.gguf"
    tiny.write_llama(path)
    found = made(Server.LLAMA, str(path), gpu_layers=99)
    assert found.words[found.words.index("-ngl") + 1] == "99"
    assert not found.tuning.measured


def test_a_draft_model_that_does_not_pay_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With a reason; what can be copied is still copied."""
    found = tuned(monkeypatch, tmp_path, CPU, Calibration({1: 0.4}, 0.1, EXACT), Server.LLAMA)
    assert found.method == "ngram-simple"
    assert "-md" not in found.words
    assert any(note.startswith("`draft.gguf` is left out: it would run at 0.91x") for note in found.notes)


@pytest.mark.parametrize("server", Server)
def test_nothing_is_drafted_where_nothing_pays(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = tuned(monkeypatch, tmp_path, STEEP, STEEP, server)
    assert found.method == "none"
    assert not any(word.startswith("--spec") for word in found.words)
    assert sum("left out" in note for note in found.notes) == 2


def test_a_model_no_server_can_get_is_refused() -> None:
    """One that is not on this disk and comes from packages alone."""
    spec = ModelSpec("odd", "odd.gguf", (Wheels(("odd==1",)),))
    for server in Server:
        with pytest.raises(ModelError) as caught:
            export(Choice(spec, None), server, PLACES)
        assert caught.value.message.startswith("`odd` is not on this disk")
        assert caught.value.hint == 'fetch it first: `speclocal generate "hello" --model odd`'
