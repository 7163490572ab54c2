"""A session puts its models where they fit, and finds another place when a context or a GPU leaves no room.

The GPUs of these tests are not here: llama.cpp is told of them by name, knows none such, and computes on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp
import pytest
import tiny
from machines import CPU, GB, gpu

from speclocal.errors import ModelError, OutOfMemoryError, UsageError
from speclocal.jobs import placing
from speclocal.jobs.chat import Chat
from speclocal.jobs.generate import prompt_tokens
from speclocal.jobs.keys import origin
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.llama import devices as here
from speclocal.llama import log
from speclocal.llama.devices import Device
from speclocal.llama.formats import KvType, Layout
from speclocal.llama.placement import Placement

LAYERS = tiny.LAYERS + 1
MB = 10**6
Pretend = Callable[..., None]


pytestmark = pytest.mark.usefixtures("module_cache")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return ModelFile("target", tiny.write_llama(tmp_path_factory.mktemp("target") / "target"))


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> ModelFile:
    return ModelFile("draft", tiny.write_llama(tmp_path_factory.mktemp("draft") / "draft", noise=0.05))


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Let this machine have other devices, and other memory where it is given."""

    def machine(devices: Sequence[Device] = (), free: float = 16 * GB, total: float = 32 * GB) -> None:
        monkeypatch.setattr(here, "devices", lambda: (*devices, CPU))
        monkeypatch.setattr(here, "backends", lambda: ("CUDA", "CPU"))
        monkeypatch.setattr(placing, "free_memory", lambda: int(free))
        monkeypatch.setattr(placing, "total_memory", lambda: int(total))

    return machine


def megabytes(free: float, name: str = "CUDA0") -> Device:
    """Return a GPU with so many megabytes free, all of which can be taken."""
    return replace(gpu(name, 0), free_bytes=int(free * MB), total_bytes=1)


def finished(session: Session, **settings: Any) -> Reply:
    reply = session.reply(prompt_tokens(session, "the cat", raw=True), ReplySettings(**settings))
    for _ in reply:
        pass
    return reply


def layers(session: Session) -> tuple[int | None, int | None]:
    weights = session._draft_weights
    return session._target_weights.placement.gpu_layers, weights.placement.gpu_layers if weights else None


def test_everything_goes_on_a_gpu_with_room(target: ModelFile, draft: ModelFile, pretend: Pretend) -> None:
    """Both models, without a word."""
    pretend([megabytes(100)])
    with Session(target, draft, Placement(1)) as session:
        session.open_context(10, ReplySettings())
        assert layers(session) == (LAYERS, LAYERS)
        assert session.notes == []


def test_a_long_context_moves_layers_to_the_cpu(target: ModelFile, pretend: Pretend) -> None:
    """Weights are placed before it is known how long the prompt is; the context comes first when it is."""
    pretend([megabytes(13)])
    with Session(target, None, Placement(1)) as session:
        prompt = prompt_tokens(session, "the cat", raw=True)
        assert layers(session)[0] == LAYERS
        session.open_context(4000, ReplySettings(max_tokens=6000), asked=10000)
        moved = layers(session)[0]
        assert moved is not None
        assert 0 < moved < LAYERS
        assert session.notes[-1].startswith(f"{moved} of {LAYERS} layers of `target` fit CUDA0 with 13 MB free")
        assert prompt == prompt_tokens(session, "the cat", raw=True)
        assert finished(session, mode=Mode.OFF, max_tokens=5).token_ids


def test_the_context_that_is_asked_for_is_known_before(target: ModelFile, pretend: Pretend) -> None:
    """With `--ctx` nothing has to be moved."""
    pretend([megabytes(13)])
    with Session(target, None, Placement(1), context=10000) as session:
        placed = layers(session)
        session.open_context(10, ReplySettings(), asked=10000)
        assert layers(session) == placed
        assert len(session.notes) == 2  # how many layers fit, and that the model was trained on less


def test_layers_that_are_asked_for_and_do_not_fit_are_an_error(target: ModelFile, pretend: Pretend) -> None:
    """At once where that is known, else when the context is."""
    pretend([megabytes(13)])
    with pytest.raises(OutOfMemoryError, match="layers of `target` with a context of 10000 tokens need"):
        Session(target, None, Placement(1, LAYERS), context=10000)
    with Session(target, None, Placement(1, LAYERS)) as session, pytest.raises(OutOfMemoryError, match="10000 tokens"):
        session.open_context(10, ReplySettings(), asked=10000)


def test_a_gpu_bounds_the_largest_context(target: ModelFile, pretend: Pretend) -> None:
    """What is read in one piece is as long as fits the GPU beside the layers that are there."""
    pretend([megabytes(3)])
    with Session(target, None, Placement(1), context=256) as session:
        assert layers(session)[0] == LAYERS
        assert 256 <= session.largest_context < session.trained_context
        session.open_context(10, ReplySettings(), asked=session.largest_context)
        assert layers(session)[0] == LAYERS


def test_a_draft_model_goes_to_the_cpu_then_lookup_takes_over(
    target: ModelFile, draft: ModelFile, pretend: Pretend
) -> None:
    """One line each: without room beside the target on the GPU, and then without room in memory either."""
    pretend([megabytes(8)])
    with Session(target, draft, Placement(1)) as session:
        session.open_context(10, ReplySettings(), asked=4096)
        assert layers(session) == (LAYERS, 0)
        assert len(session.notes) == 1
        assert session.notes[0].startswith("`draft` drafts on the CPU: it needs ")
        assert session.notes[0].endswith(" MB are free beside `target`")
        assert session.mode_used(ReplySettings(mode=Mode.DRAFT)) is Mode.DRAFT
    pretend([megabytes(8)], free=MB)
    with Session(target, draft, Placement(1)) as session:
        session.open_context(10, ReplySettings(), asked=4096)
        assert len(session.notes) == 1
        assert session.notes[0].startswith("`draft` needs ")
        assert session.notes[0].endswith(" free beside `target`: drafting by prompt lookup")
        assert session.mode_used(ReplySettings(mode=Mode.DRAFT)) is Mode.LOOKUP
        assert finished(session, mode=Mode.DRAFT, max_tokens=5).token_ids


def test_a_draft_model_makes_way_for_a_long_context(target: ModelFile, draft: ModelFile, pretend: Pretend) -> None:
    """It is on the GPU until the context of the target needs its room."""
    pretend([megabytes(13.5)])
    with Session(target, draft, Placement(1)) as session:
        assert layers(session) == (LAYERS, LAYERS)
        session.open_context(10, ReplySettings(), asked=6000)
        assert layers(session) == (LAYERS, 0)
        assert any(note.startswith("`draft` drafts on the CPU") for note in session.notes)
        assert finished(session, mode=Mode.DRAFT, max_tokens=5).stats.drafted


def test_layers_of_the_draft_model_are_its_own(target: ModelFile, draft: ModelFile, pretend: Pretend) -> None:
    """`--draft-gpu-layers` counts for the draft model alone."""
    pretend([megabytes(100)])
    asked = Placement(1, 2)
    with Session(target, draft, asked, draft_placement=asked.for_draft(0)) as session:
        assert layers(session) == (2, 0)
    with Session(target, draft, asked, draft_placement=asked.for_draft(1)) as session:
        assert layers(session) == (2, 1)
    with Session(target, draft, asked) as session:
        assert layers(session) == (2, LAYERS)


def test_a_draft_model_that_llama_cpp_has_no_room_for(
    target: ModelFile, draft: ModelFile, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the estimate was too low the draft model's context goes to the CPU, and then lookup takes over."""
    really_open, full = placing.open_context, [True, False]

    def open_unless_full(*arguments: Any) -> Any:
        if full.pop(0):
            raise OutOfMemoryError("cannot create a context of 512 tokens for `draft`: failed to allocate")
        return really_open(*arguments)

    monkeypatch.setattr(placing, "open_context", open_unless_full)
    pretend([megabytes(100)])
    with Session(target, draft, Placement(1)) as session:
        session.open_context(10, ReplySettings())
        assert layers(session) == (LAYERS, 0)
        said = "cannot create a context of 512 tokens for `draft`: failed to allocate"
        assert session.notes == [f"`draft` drafts on the CPU: {said}"]
    full[:] = [True, True]
    with Session(target, draft, Placement(1)) as session:
        session.open_context(10, ReplySettings())
        assert layers(session) == (LAYERS, None)
        assert session.notes == [f"{said}: drafting by prompt lookup"]
        assert finished(session, mode=Mode.DRAFT, max_tokens=5).token_ids


def test_a_draft_model_that_does_not_load_for_want_of_memory(
    target: ModelFile, draft: ModelFile, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp's own refusal at loading has the same way out."""
    really_load = placing.Weights

    def load(path: Path, placement: Placement, name: str) -> Any:
        if name == "draft" and placement.gpu_layers:
            raise OutOfMemoryError("`draft` does not fit in memory: unable to allocate CUDA0 buffer")
        return really_load(path, placement, name)

    monkeypatch.setattr(placing, "Weights", load)
    pretend([megabytes(100)])
    with Session(target, draft, Placement(1)) as session:
        session.open_context(10, ReplySettings())
        assert layers(session) == (LAYERS, 0)
        assert session.notes == [
            "`draft` drafts on the CPU: `draft` does not fit in memory: unable to allocate CUDA0 buffer"
        ]


def test_weights_that_are_larger_than_memory(target: ModelFile, pretend: Pretend) -> None:
    """Refused where they exceed the machine, told where they exceed what is free."""
    pretend(free=1000, total=2000)
    with pytest.raises(OutOfMemoryError, match="the weights of `target` take"):
        Session(target, None, Placement(1))
    pretend(free=1000)
    with Session(target, None, Placement(1)) as session:
        session.open_context(10, ReplySettings())
        assert session._target_weights.placement.layout is Layout.FILE
        assert "what does not fit is read from the file for every token" in session.notes[0]
    with pytest.raises(OutOfMemoryError):
        Session(target, None, Placement(1), layout=Layout.REPACKED)


def test_more_threads_than_cpus_are_told(target: ModelFile, pretend: Pretend, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are used as asked, and slow; as many as there are CPUs are nothing to speak of."""
    monkeypatch.setattr(placing, "usable_cpus", lambda: 2)
    pretend()
    with Session(target, None, Placement(3)) as session:
        session.open_context(10, ReplySettings())
        assert session.notes == ["3 threads share 2 CPUs: each waits for its turn, which slows every pass"]
    with Session(target, None, Placement(2)) as session:
        session.open_context(10, ReplySettings())
        assert session.notes == []


@pytest.mark.parametrize("refused", [False, True])
def test_weights_that_cannot_be_locked_are_told(
    refused: bool, target: ModelFile, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """llama.cpp only warns where the system refuses `--mlock`; without a refusal there is nothing to say."""
    pretend()
    really_load, line = llama_cpp.llama_model_load_from_file, b"warning: failed to mlock 100-byte buffer\n"

    def load(path: bytes, params: Any) -> Any:
        assert params.load_mode == 3  # LLAMA_LOAD_MODE_MMAP_MLOCK
        params.load_mode = -1  # whether this process may lock memory is not what is tested
        if refused:
            log._keep(3, line, None)  # type: ignore[arg-type]
        return really_load(path, params)

    monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", load)
    with Session(target, None, Placement(1, mlock=True)) as session:
        session.open_context(10, ReplySettings())
        told = "the system does not let `target` be locked in memory: raise the limit with `ulimit -l`"
        assert session.notes == ([told] if refused else [])


@pytest.mark.parametrize(("mlock", "mmap", "mode"), [(False, True, -1), (False, False, 0), (True, False, 2)])
def test_weights_come_into_memory_as_asked(
    mlock: bool, mmap: bool, mode: int, target: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mapped or copied, locked or not: llama.cpp's load mode, and the same tokens."""
    really_load, modes = llama_cpp.llama_model_load_from_file, []

    def load(path: bytes, params: Any) -> Any:
        modes.append(params.load_mode)
        return really_load(path, params)

    monkeypatch.setattr(llama_cpp, "llama_model_load_from_file", load)
    with Session(target, None, Placement(1, mlock=mlock, mmap=mmap)) as session:
        session.open_context(10, ReplySettings(max_tokens=5))
        assert len(finished(session, mode=Mode.OFF, max_tokens=5).token_ids) == 5
    assert modes == [mode]


def test_a_cache_the_heads_cannot_have_is_refused(target: ModelFile, pretend: Pretend) -> None:
    """Before anything is loaded, for the target and for the draft model."""
    pretend()
    with pytest.raises(UsageError, match="`--kv-type q4_0` packs 32 numbers together"):
        Session(target, None, Placement(1, kv_type=KvType.Q4_0))


def test_devices_that_are_not_here_are_refused(target: ModelFile, pretend: Pretend) -> None:
    """Of the target and of the draft model."""
    pretend()
    with pytest.raises(UsageError, match="`--gpu-layers 5` asks for a GPU, and CUDA finds none here"):
        Session(target, None, Placement(1, 5))
    with pytest.raises(UsageError, match="`--draft-gpu-layers 5` asks for a GPU"):
        Session(target, None, Placement(1), draft_placement=Placement(1, 5))


def test_measurements_belong_to_a_place(target: ModelFile, pretend: Pretend) -> None:
    """What changes the time of a pass makes another key; how weights came into memory does not."""
    pretend([gpu("CUDA0", 20), gpu("CUDA1", 20)])
    placements = [
        Placement(1, 3),
        Placement(2, 3),
        Placement(1, 2),
        Placement(1, 0),
        Placement(1, 3, KvType.Q8_0),
        Placement(1, 3, layout=Layout.FILE),
        Placement(1, 3, devices=("CUDA0",)),
        Placement(1, 3, devices=("CUDA1",)),
        Placement(1, 3, tensor_split=(3.0, 1.0)),
    ]
    keys = [origin(target.path, placement) for placement in placements]
    assert all(a != b for i, a in enumerate(keys) for b in keys[i + 1 :])
    for same in (
        Placement(1, 3, mlock=True),
        Placement(1, 3, mmap=False),
        Placement(1, 3, devices=("CUDA0", "CUDA1")),
    ):
        assert origin(target.path, same) == keys[0]
    assert origin(target.path, Placement(1, 3, main_gpu=1)) == keys[7]
    pretend([replace(gpu("CUDA0", 20), description="another GPU"), gpu("CUDA1", 20)])
    assert origin(target.path, placements[0]) != keys[0]
    pretend()
    assert origin(target.path, Placement(1)) == origin(target.path, Placement(1, 0))


def test_memory_that_ends_in_the_middle_ends_the_reply_and_the_chat_lives(
    target: ModelFile, pretend: Pretend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply stops with an error; the next one is what it would have been, without a token of the failed pass."""
    pretend()
    settings = ReplySettings(mode=Mode.OFF, max_tokens=12)
    with Session(target, None, Placement(1)) as session, Session(target, None, Placement(1)) as spared:
        chat, other = Chat(session, settings), Chat(spared, settings)
        really_decode, num_left = llama_cpp.llama_decode, 6

        def decode(*arguments: Any) -> int:
            nonlocal num_left
            num_left -= 1
            return -2 if num_left < 0 else int(really_decode(*arguments))

        with monkeypatch.context() as patch, chat.asking("hello") as turn:
            patch.setattr(llama_cpp, "llama_decode", decode)
            with pytest.raises(OutOfMemoryError, match="a pass over 1 tokens failed") as caught:
                list(turn.reply)
        assert "--ctx" in caught.value.hint
        assert 0 < len(turn.reply.token_ids) < 12
        chat.undo()
        replies = []
        for each in (chat, other):
            with each.asking("hello") as turn:
                list(turn.reply)
            replies.append(turn.reply.token_ids)
        assert replies[0] == replies[1]
        assert len(replies[0]) == 12


def test_weights_that_fail_to_move_are_closed(target: ModelFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is gone when it is loaded anew is an error, and nothing dangles."""
    with Session(target, None, Placement(1)) as session:
        weights = session._target_weights
        text = weights.vocab.text(5)
        weights.move(Placement(1, layout=Layout.FILE))
        assert weights.vocab.text(5) == text
        monkeypatch.setattr(weights, "path", Path("/nowhere/model.gguf"))
        with pytest.raises(ModelError, match="cannot load `target`"):
            weights.move(Placement(1))
        with pytest.raises(ValueError, match="closed"):
            _ = weights.pointer
