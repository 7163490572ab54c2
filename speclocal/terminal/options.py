"""The options of the commands, declared once.

Knows the command line and what its values mean to the jobs; does nothing with them.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from typer import Option

from speclocal.errors import UsageError
from speclocal.jobs.modes import MAX_DRAFT_TOKENS, MAX_SEED, TASK_TOKENS, LayoutChoice, Mode
from speclocal.llama.formats import KvType, Layout

if TYPE_CHECKING:
    from speclocal.decoding.types import SamplingParams
    from speclocal.jobs.reply import ReplySettings
    from speclocal.llama.placement import Placement

_LAYERS = "auto|N"
OPTION_PANELS = _MODELS, _DRAFTING, _SAMPLING, _MACHINE, _OUTPUT = "Models", "Drafting", "Sampling", "Machine", "Output"
"""The panels of options on a command's help page, in order."""


@dataclass(frozen=True)
class Options:
    """What every command takes. In this class and below it every field is an option of its own."""

    json: Annotated[bool, Option("--json", help="Print one JSON object.", rich_help_panel=_OUTPUT)] = False
    debug: Annotated[bool, Option("--debug", help="Show a traceback on errors.", rich_help_panel=_OUTPUT)] = False


Draft = Annotated[
    str, Option("--draft", "-d", help="Draft model: a smaller one of the same family.", rich_help_panel=_MODELS)
]
Raw = Annotated[
    bool, Option("--raw", help="Continue the text as it stands: no chat template.", rich_help_panel=_MODELS)
]


@dataclass(frozen=True)
class MachineOptions(Options):
    """Where models run."""

    threads: Annotated[
        int | None, Option("--threads", help="Default: this process's cores.", rich_help_panel=_MACHINE)
    ] = None
    gpu_layers: Annotated[
        str,
        Option(
            "--gpu-layers", help="Layers on GPUs: `auto` for all that fit.", metavar=_LAYERS, rich_help_panel=_MACHINE
        ),
    ] = "auto"
    draft_gpu_layers: Annotated[
        str,
        Option("--draft-gpu-layers", help="The same for the draft model.", metavar=_LAYERS, rich_help_panel=_MACHINE),
    ] = "auto"
    device: Annotated[
        str,
        Option("--device", help="Devices to use; default: all GPUs.", metavar="NAME,...", rich_help_panel=_MACHINE),
    ] = ""
    main_gpu: Annotated[
        int | None, Option("--main-gpu", help="The one device to use, by its number.", rich_help_panel=_MACHINE)
    ] = None
    tensor_split: Annotated[
        str,
        Option("--tensor-split", help="Layers for each device, as in 3,1.", metavar="SHARES", rich_help_panel=_MACHINE),
    ] = ""
    kv_type: Annotated[KvType, Option("--kv-type", help="Number format of the KV cache.", rich_help_panel=_MACHINE)] = (
        KvType.F16
    )
    mlock: Annotated[bool, Option("--mlock", help="Keep the weights in memory.", rich_help_panel=_MACHINE)] = False
    no_mmap: Annotated[
        bool, Option("--no-mmap", help="Copy the weights instead of mapping the file.", rich_help_panel=_MACHINE)
    ] = False
    rpc: Annotated[
        str,
        Option(
            "--rpc",
            help="Spread the model over workers (`speclocal worker`).",
            metavar="HOST:PORT,...",
            rich_help_panel=_MACHINE,
        ),
    ] = ""
    layout: Annotated[
        LayoutChoice,
        Option("--layout", help="Weights on a CPU: as in the file, or repacked.", rich_help_panel=_MACHINE),
    ] = LayoutChoice.AUTO

    verbose: Annotated[bool, Option("--verbose", help="Show llama.cpp's own log.", rich_help_panel=_OUTPUT)] = False

    def placement(self) -> Placement:
        """Return what runs where."""
        from speclocal.llama import workers
        from speclocal.llama.placement import Placement

        return Placement.choose(
            self.threads,
            _layers("--gpu-layers", self.gpu_layers),
            self.kv_type,
            devices=tuple(name.strip() for name in self.device.split(",") if name.strip()),
            main_gpu=self.main_gpu,
            tensor_split=_shares(self.tensor_split),
            mlock=self.mlock,
            mmap=not self.no_mmap,
            rpc=workers.parse(self.rpc),
        )

    def draft_placement(self) -> Placement:
        """Return where the draft model runs."""
        return self.placement().for_draft(_layers("--draft-gpu-layers", self.draft_gpu_layers))

    def fixed_layout(self) -> Layout | None:
        """Return the layout that was asked for, None for the fastest."""
        return None if self.layout is LayoutChoice.AUTO else Layout(self.layout.value)


@dataclass(frozen=True)
class ModelOptions(MachineOptions):
    """What every command takes that runs a model."""

    model: Annotated[
        str,
        Option("--model", "-m", help="Name, pair, path, or hf:user/repo[:file.gguf].", rich_help_panel=_MODELS),
    ] = ""
    draft: Draft = ""


@dataclass(frozen=True)
class SamplingOptions(Options):
    """How long replies may be, and how logits become a token."""

    max_tokens: Annotated[
        int, Option("--max-tokens", "-n", min=0, help="Longest reply.", rich_help_panel=_SAMPLING)
    ] = 512
    temperature: Annotated[
        float,
        Option("--temperature", "-t", min=0, max=100, help="0 is greedy.", rich_help_panel=_SAMPLING),
    ] = 0.0
    top_k: Annotated[
        int, Option("--top-k", min=0, help="Keep the k likeliest tokens; 0: all.", rich_help_panel=_SAMPLING)
    ] = 40
    top_p: Annotated[
        float,
        Option("--top-p", min=0, max=1, help="Keep the likeliest up to this mass; 1: all.", rich_help_panel=_SAMPLING),
    ] = 0.95
    min_p: Annotated[
        float,
        Option(
            "--min-p", min=0, max=1, help="Drop tokens below this share of the likeliest.", rich_help_panel=_SAMPLING
        ),
    ] = 0.0
    repeat_penalty: Annotated[
        float | None,
        Option(
            "--repeat-penalty",
            min=0.01,
            max=100,
            help="Above 1 makes recent tokens less likely; default: 1, for summaries 1.1.",
            rich_help_panel=_SAMPLING,
        ),
    ] = None
    seed: Annotated[
        int | None,
        Option(
            "--seed",
            min=0,
            max=MAX_SEED,
            help="Same seed, same text, in every mode.",
            rich_help_panel=_SAMPLING,
        ),
    ] = None

    def params(self, usual_repeat_penalty: float = 1.0) -> SamplingParams:
        """Return how logits become a distribution. usual_repeat_penalty: where none is asked for."""
        from speclocal.decoding.types import SamplingParams

        penalty = usual_repeat_penalty if self.repeat_penalty is None else self.repeat_penalty
        return SamplingParams(self.temperature, self.top_k, self.top_p, self.min_p, penalty)


@dataclass(frozen=True)
class ReplyOptions(SamplingOptions, ModelOptions):
    """What every command takes that answers."""

    raw: Raw = False

    mode: Annotated[Mode, Option("--mode", help="Who drafts.", rich_help_panel=_DRAFTING)] = Mode.AUTO
    num_draft_tokens: Annotated[
        int | None,
        Option(
            "--num-draft-tokens",
            "-g",
            min=1,
            max=MAX_DRAFT_TOKENS,
            help="Fix the draft length.",
            rich_help_panel=_DRAFTING,
        ),
    ] = None
    strict: Annotated[
        bool,
        Option("--strict", help="Bit for bit the text of `--mode off`: only exact widths.", rich_help_panel=_DRAFTING),
    ] = False

    stop: Annotated[
        list[str], Option("--stop", help="End the reply before this text; repeatable.", rich_help_panel=_SAMPLING)
    ] = dataclasses.field(default_factory=list)

    ctx: Annotated[
        int | None,
        Option("--ctx", min=1, max=2**24, help="Context in tokens; default: what is needed.", rich_help_panel=_MACHINE),
    ] = None
    show_drafts: Annotated[
        bool, Option("--show-drafts", help="Colour accepted draft tokens.", rich_help_panel=_OUTPUT)
    ] = False

    def settings(self, usual_repeat_penalty: float = 1.0) -> ReplySettings:
        """Return what a reply may look like. usual_repeat_penalty: where none is asked for."""
        from speclocal.jobs.reply import ReplySettings

        return ReplySettings(
            mode=self.mode,
            num_draft_tokens=self.num_draft_tokens,
            max_tokens=self.max_tokens,
            params=self.params(usual_repeat_penalty),
            seed=self.seed,
            stops=tuple(self.stop),
            strict=self.strict,
        )


@dataclass(frozen=True)
class CompareOptions(SamplingOptions, MachineOptions):
    """What is the same for all runs of a comparison."""

    model: Annotated[
        list[str],
        Option("--model", "-m", help="Name, pair, path, hf:user/repo:file; repeatable.", rich_help_panel=_MODELS),
    ] = dataclasses.field(default_factory=list)
    draft: Draft = ""
    raw: Raw = False

    modes: Annotated[
        str,
        Option("--modes", help="Such as off,lookup,lookup:10,draft:4,auto.", rich_help_panel=_DRAFTING),
    ] = ""
    max_tokens: Annotated[
        int, Option("--max-tokens", "-n", min=1, help="Longest reply.", rich_help_panel=_SAMPLING)
    ] = TASK_TOKENS


def _layers(option: str, text: str) -> int | None:
    """Return a number of layers, None for `auto`."""
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{option} {text} is not a number of layers", "give a number, or `auto`") from None


def _shares(text: str) -> tuple[float, ...]:
    """Return the numbers of a list such as 3,1; none where there is no text."""
    try:
        return tuple(float(share) for share in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"--tensor-split {text} are not shares", "give one for each device, as in 3,1") from None
