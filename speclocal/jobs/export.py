"""The command with which a server serves the same models, at the draft length that was tuned here.

Knows the options of llama-server and of vLLM, and what is measured of the models; loads none.

A server keeps one draft length for all rounds, where speclocal decides anew every round: the length given here is the
best on average, by measured costs and the acceptance that is usual to begin with.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from speclocal.decoding.costs import Calibration, PassCosts
from speclocal.decoding.drafters.suffixes import Match
from speclocal.decoding.estimates import DraftAcceptance, LookupAcceptance
from speclocal.decoding.theory import best_length, break_even, speedup
from speclocal.errors import ModelError, UsageError
from speclocal.jobs.calibration import known_calibration
from speclocal.jobs.drafting import FIXED_LENGTH
from speclocal.jobs.generate import Choice
from speclocal.jobs.layouts import writing_layout
from speclocal.jobs.modes import Mode, Server
from speclocal.llama.formats import KvType, Layout
from speclocal.llama.placement import Placement
from speclocal.models.catalog import HubFile, ModelSpec
from speclocal.models.sources import find

_MATCH = 12
"""Tokens that must match before a server copies, llama-server's own: a server weighs no other evidence for a match."""
_LONGEST_DRAFT = 16
_LONGEST_COPY = 48  # llama-server's own


@dataclass(frozen=True)
class Tuning:
    """The draft lengths of a server; 0 where drafting does not pay.

    least_confidence: what a draft model must give a token for it to be worth a place in the pass.
    measured: whether this rests on measurements. draft_speedup: predicted for the draft model alone, None if it does
    not rest on them.
    """

    num_copied: int
    num_drafted: int
    least_confidence: float = 0.0
    measured: bool = False
    draft_speedup: float | None = None


@dataclass(frozen=True)
class Export:
    """A command, word by word; what it drafts; and what a person should know about it."""

    words: tuple[str, ...]
    method: str
    tuning: Tuning
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Places:
    """Where the models of a pair go, and the context they get."""

    target: Placement
    draft: Placement
    context_size: int


def export(choice: Choice, server: Server, places: Places, num_draft_tokens: int | None = None) -> Export:
    """Return the command that serves a choice of models.

    num_draft_tokens: fixes every draft length.
    Raises ModelError when a model is neither on this disk nor known to the server by another name.
    """
    target_path, draft_path = find(choice.target), find(choice.draft) if choice.draft else None
    if num_draft_tokens is None:
        tuning = _tuned(
            _known(target_path, places.target), _known(draft_path, places.draft), has_draft=bool(choice.draft)
        )
    else:
        tuning = Tuning(num_draft_tokens, num_draft_tokens if choice.draft else 0)
    write = {Server.LLAMA: _llama_server, Server.VLLM: _vllm}[server]
    draft = choice.draft if tuning.num_drafted else None
    words, method, notes = write(choice.target, draft, tuning, places)
    return Export(tuple(words), method, tuning, (*_tuning_notes(choice, tuning, num_draft_tokens), *notes))


def _known(path: Path | None, placement: Placement) -> Calibration | None:
    """Return what was measured of a model in the layout that writes fastest, else in another."""
    if path is None:
        return None
    try:
        layouts = dict.fromkeys((writing_layout(path, placement), *Layout))
        found = [known_calibration(path, placement.in_layout(layout)) for layout in layouts]
    except UsageError:  # devices that are not here: the server may be elsewhere
        return None
    return next((calibration for calibration in found if calibration), None)


def _tuned(target: Calibration | None, draft: Calibration | None, *, has_draft: bool) -> Tuning:
    """Return the best draft lengths for measured costs, the usual ones where something is not measured."""
    if target is None or (has_draft and draft is None):
        return Tuning(FIXED_LENGTH[Mode.LOOKUP], FIXED_LENGTH[Mode.DRAFT] if has_draft else 0)
    verify_ratio = _verify_ratio(target)
    copied = LookupAcceptance().rate(Match(_MATCH, end=0, num_followed=1, num_seen=1), 0)
    num_copied = best_length(copied, 0.0, verify_ratio, _LONGEST_COPY)
    if draft is None:
        return Tuning(num_copied, 0, measured=True)
    typical, cost_ratio = DraftAcceptance().typical, draft.seconds[1] / target.seconds[1]
    num_drafted = best_length(typical, cost_ratio, verify_ratio, _LONGEST_DRAFT)
    gain = speedup(typical, max(1, num_drafted), cost_ratio, verify_ratio)
    least = break_even(1, cost_ratio, verify_ratio)
    return Tuning(num_copied, num_drafted, least or 0.0, measured=True, draft_speedup=gain)


def _verify_ratio(calibration: Calibration) -> Callable[[int], float]:
    costs = PassCosts(calibration)
    return lambda width: costs.seconds(width) / costs.seconds(1)


def _tuning_notes(choice: Choice, tuning: Tuning, asked: int | None) -> list[str]:
    """Return where the draft lengths come from, and which drafter is left out."""
    if asked is not None:
        return []
    if not tuning.measured:
        names = [f"--model {choice.target.name}", *([f"--draft {choice.draft.name}"] if choice.draft else [])]
        return [
            "the draft length is a usual one, not tuned: `speclocal calibrate "
            f"{' '.join(names)}` measures what it rests on"
        ]
    notes = ["the draft length is tuned to the pass costs measured on this machine; another machine has others"]
    if choice.draft and not tuning.num_drafted:
        notes.append(
            f"`{choice.draft.name}` is left out: it would run at {tuning.draft_speedup:.2f}x of plain decoding on this "
            "machine; `--num-draft-tokens 4` serves it all the same"
        )
    if not tuning.num_copied:
        notes.append("copying is left out: passes over several tokens cost too much on this machine")
    return notes


def _llama_server(
    target: ModelSpec, draft: ModelSpec | None, tuning: Tuning, places: Places
) -> tuple[list[str], str, list[str]]:
    """Return the command of llama-server, what it drafts with, and what changes there."""
    placement = places.target
    if path := find(target):
        words = ["llama-server", "-m", str(path.resolve())]
    else:
        hub_file = _hub_file(target)
        words = ["llama-server", "--hf-repo", hub_file.repo, "--hf-file", hub_file.file]
    words += ["-c", str(places.context_size), "-ngl", _layers(placement)]
    words += ["--rpc", ",".join(map(str, placement.rpc))] if placement.rpc else []
    kv_types = [] if placement.kv_type is KvType.F16 else [placement.kv_type.value]
    words += [word for kv_type in kv_types for word in ("-ctk", kv_type, "-ctv", kv_type)]
    methods = ["ngram-simple"] if tuning.num_copied else []
    methods += ["draft-simple"] if draft else []
    words += ["--spec-type", ",".join(methods)] if methods else []
    if tuning.num_copied:
        words += ["--spec-ngram-simple-size-n", str(_MATCH), "--spec-ngram-simple-size-m", str(tuning.num_copied)]
    if draft:
        if path := find(draft):
            words += ["-md", str(path.resolve())]
        else:
            hub_file = _hub_file(draft)
            words += ["--spec-draft-hf", hub_file.repo, "-md", hub_file.file]
        words += ["-ngld", _layers(places.draft), "--spec-draft-n-max", str(tuning.num_drafted)]
        words += ["--spec-draft-p-min", f"{tuning.least_confidence:.2f}"] if tuning.least_confidence else []
        words += [word for kv_type in kv_types for word in ("-ctkd", kv_type, "-ctvd", kv_type)]
    notes = []
    if methods:
        notes.append(
            "llama-server drafts by a length that is fixed, a copy wherever one is found; speclocal decides anew every "
            "round who drafts, and how much"
        )
    notes += [
        "llama-server samples at temperature 0.8 and min-p 0.05 unless a request says otherwise, speclocal at 0",
        "llama-server has no exact widths: a near-tie can fall otherwise than in plain decoding, and a seed gives "
        "another text than here",
    ]
    return words, "+".join(methods) or "none", notes


def _layers(placement: Placement) -> str:
    return "auto" if placement.gpu_layers is None else str(placement.gpu_layers)


def _vllm(
    target: ModelSpec, draft: ModelSpec | None, tuning: Tuning, places: Places
) -> tuple[list[str], str, list[str]]:
    """Return the command of vLLM, what it drafts with, and what changes there. It has one drafter at a time."""
    words = ["vllm", "serve", _vllm_name(target), "--max-model-len", str(places.context_size)]
    config: dict[str, str | int] = {}
    length = tuning.num_drafted if draft else tuning.num_copied
    if draft:
        config = {"method": "draft_model", "model": _vllm_name(draft), "num_speculative_tokens": length}
    elif length:
        lookup = {"prompt_lookup_min": _MATCH, "prompt_lookup_max": _MATCH}
        config = {"method": "ngram", "num_speculative_tokens": length, **lookup}
    words += ["--speculative-config", json.dumps(config)] if config else []
    notes = []
    if config:
        notes.append(
            f"vLLM drafts {length} tokens whatever the text, by one method; speclocal decides anew every round who "
            "drafts, and how much"
        )
    notes += _vllm_format_notes([target, *([draft] if draft else [])])
    notes += [
        "vLLM takes sampling defaults from the model's repository; speclocal's is temperature 0",
        "vLLM keeps the distribution but not the bits: its logits depend on what else is in the batch, so greedy text "
        "can differ from plain decoding, and a seed gives another text than here",
    ]
    return words, str(config.get("method", "none")), notes


def _vllm_format_notes(specs: list[ModelSpec]) -> list[str]:
    """Return what the format of the weights means in vLLM."""
    notes = []
    if any(spec.original for spec in specs):
        notes.append(
            "vLLM loads the original weights from the Hub, not the quantized GGUF file: more memory, and another text"
        )
    if files := [f"`{spec.name}`" for spec in specs if not spec.original]:
        notes.append(
            f"the original weights of {' and '.join(files)} are not known here, so the GGUF file is named: vLLM's "
            "support for GGUF is experimental, needs the package vllm-gguf-plugin, and wants `--tokenizer user/repo` "
            "of the original"
        )
    return notes


def _vllm_name(spec: ModelSpec) -> str:
    """Return what vLLM calls a model: the repository of the original weights, else a GGUF file."""
    if spec.original:
        return spec.original
    if path := find(spec):
        return str(path.resolve())
    hub_file = _hub_file(spec)
    quantization = re.search(r"(?:^|[.-])((?:I?Q|BF|F)\d\w*)\.gguf$", hub_file.file, re.IGNORECASE)
    return f"{hub_file.repo}:{quantization[1]}" if quantization else f"{hub_file.repo}/{hub_file.file}"


def _hub_file(spec: ModelSpec) -> HubFile:
    """Return where a server can fetch a model that is not on this disk."""
    found = next((source for source in spec.sources if isinstance(source, HubFile)), None)
    if found is None:
        raise ModelError(
            f"`{spec.name}` is not on this disk, and no server can fetch it from where it comes from",
            f'fetch it first: `speclocal generate "hello" --model {spec.name}`',
        )
    return found
