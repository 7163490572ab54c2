"""Processed prompts on disk: found again where they are worth it, and never wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tiny

from speclocal.jobs.modes import Mode
from speclocal.jobs.prompts import find_kept
from speclocal.jobs.reply import Reply, ReplySettings
from speclocal.jobs.session import ModelFile, Session
from speclocal.jobs.store import PROMPTS
from speclocal.llama.formats import KvType, Layout
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

PLAIN = ReplySettings(mode=Mode.OFF, max_tokens=12)
DOCUMENT = [(7919 * (i + 1)) % 300 + 3 for i in range(600)]
FIRST, SECOND = [*DOCUMENT, 5, 6, 7], [*DOCUMENT, 8, 9, 10, 11]

STATEFUL = [kind for kind in tiny.KINDS if kind != "llama"]

Ask = Callable[..., Reply]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECLOCAL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    tiny.write_llama(folder / "llama", seed=7)
    tiny.write_llama(folder / "other", seed=8)
    for kind in STATEFUL:
        tiny.KINDS[kind](folder / kind, seed=7)
    return folder


@pytest.fixture
def ask(folder: Path) -> Ask:
    """Answer a prompt in a session of its own; bf16 gives the same bits in whatever passes a prompt is read."""

    def answer(
        prompt: list[int],
        model: str = "llama",
        *,
        keep: bool = True,
        threads: int = 1,
        layout: Layout | None = None,
        mode: Mode = Mode.OFF,
    ) -> Reply:
        settings = replace(PLAIN, mode=mode)
        with Session(
            ModelFile(model, folder / model), None, Placement(threads, kv_type=KvType.BF16), layout=layout
        ) as session:
            session.open_context(len(prompt), settings, keep=prompt if keep else None)
            reply = session.reply(prompt, settings)
            for _ in reply:
                pass
        return reply

    return answer


def test_a_second_question_finds_the_document_read(ask: Ask) -> None:
    """What two prompts share is read once, and the reply is that of a run that read everything."""
    assert ask(FIRST).stats.prompt_reused == 0
    second = ask(SECOND)
    assert second.stats.prompt_reused == len(DOCUMENT)
    assert second.token_ids == ask(SECOND, keep=False).token_ids
    assert len(PROMPTS.entries()) == 1  # the few tokens of a question are not worth another file


def test_the_longest_beginning_is_used(ask: Ask) -> None:
    """Of several kept prompts the one that shares most is taken."""
    half = DOCUMENT[:300]
    ask([*half, *range(3, 20)])
    ask([*DOCUMENT, *[9, 8, 7] * 100])
    assert len(PROMPTS.entries()) == 2
    assert ask(FIRST).stats.prompt_reused == len(DOCUMENT)


def test_either_layout_finds_what_the_other_read(ask: Ask) -> None:
    """Both layouts of the weights lead to the same cache."""
    ask(FIRST, layout=Layout.FILE)
    assert ask(SECOND, layout=Layout.REPACKED).stats.prompt_reused == len(DOCUMENT)


def test_short_prompts_are_not_kept(ask: Ask) -> None:
    """Reading them again is as fast as the disk."""
    ask(DOCUMENT[:250])
    assert PROMPTS.entries() == []


@pytest.mark.parametrize("model", STATEFUL)
def test_a_state_serves_what_begins_with_all_of_its_text(ask: Ask, model: str) -> None:
    """What cannot be taken back to where two prompts part can be gone on from."""
    ask(DOCUMENT, model)
    found = ask(FIRST, model)
    assert found.stats.prompt_reused == len(DOCUMENT) - 1
    assert found.token_ids == ask(FIRST, model, keep=False).token_ids


@pytest.mark.parametrize("model", STATEFUL)
def test_a_second_question_goes_back_to_a_checkpoint(ask: Ask, model: str) -> None:
    """A recurrent state is kept from where the last pass over the document began; of a window there is none."""
    ask(FIRST, model)
    second = ask(SECOND, model)
    assert second.stats.prompt_reused == (0 if model == "sliding window" else 512)
    assert second.token_ids == ask(SECOND, model, keep=False).token_ids


@pytest.mark.parametrize("model", STATEFUL)
def test_drafts_go_on_from_a_state_of_the_disk(ask: Ask, model: str) -> None:
    """What is brought back can be gone back to like what was read."""
    ask(FIRST, model)
    drafted = ask(FIRST, model, mode=Mode.LOOKUP)
    assert drafted.stats.prompt_reused == len(FIRST) - 1
    assert drafted.token_ids == ask(FIRST, model, keep=False).token_ids


def test_another_model_or_placement_reads_for_itself(ask: Ask, folder: Path) -> None:
    """Kept prompts belong to a file as it is, and to the way it is computed."""
    ask(FIRST)
    assert ask(SECOND, "other").stats.prompt_reused == 0
    assert ask(SECOND, threads=2).stats.prompt_reused == 0
    (folder / "llama").touch()
    assert ask(SECOND).stats.prompt_reused == 0


@pytest.mark.parametrize("damage", ["empty", "cut off", "garbage", "one byte", "not a state"])
def test_a_damaged_file_is_ignored(ask: Ask, damage: str) -> None:
    """Whatever became of the file, the prompt is read as if there were none."""
    expected = ask(SECOND, keep=False).token_ids
    ask(FIRST)
    path = PROMPTS.entries()[0].path
    data = bytearray(path.read_bytes())
    match damage:
        case "empty":
            data.clear()
        case "cut off":
            del data[len(data) // 2 :]
        case "garbage":
            data[:] = b"PK\x03\x04" + b"?" * 5000
        case "one byte":
            data[len(data) // 2] ^= 1
        case "not a state":
            data[:] = data.replace(b"tokens.npy", b"token5.npy")
    path.write_bytes(bytes(data))
    second = ask(SECOND)
    assert (second.token_ids, second.stats.prompt_reused) == (expected, 0)


def test_what_is_kept_can_be_found_without_a_context(ask: Ask, folder: Path) -> None:
    """`find_kept` says how much of a prompt a kept one covers, and nothing of one that is not worth loading."""
    ask(FIRST)
    weights = Weights(folder / "llama", Placement(1, kv_type=KvType.BF16))
    kept = find_kept(weights, SECOND)
    assert kept is not None
    assert (kept.num_shared, kept.num_tokens) == (len(DOCUMENT), len(FIRST) - 1)
    assert find_kept(weights, [4, *SECOND]) is None
    weights.close()


def test_a_kept_prompt_with_a_longer_question_fits_the_context(ask: Ask) -> None:
    """The context has room for all that is brought back, though the new prompt and its reply need less."""
    ask([*DOCUMENT, *[9, 8, 7] * 150])
    assert ask(FIRST).stats.prompt_reused == len(DOCUMENT)
