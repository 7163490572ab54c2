"""The Qwen2.5-Coder pair: 0.5B drafting for 1.5B. Run with `pytest -m pair`; fetches 1.6 GB on first use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from speclocal.jobs.doctor import read_files
from speclocal.jobs.generate import choose_candidates, choose_models, on_disk, open_session, prompt_tokens
from speclocal.jobs.modes import Mode
from speclocal.jobs.reply import ReplySettings
from speclocal.jobs.session import Session
from speclocal.llama.formats import KvType
from speclocal.llama.placement import Placement

pytestmark = pytest.mark.pair

PROMPTS = [
    "Write a Python function that reverses a string.",
    "Name the planets in order, as a list.",
    "What is a fork?",
]
NEAR_TIE = 1.5  # logits: what passes of different width differ by on this quantization (see README, arithmetic)
NUM_TOKENS = 48


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    placement = Placement.choose(kv_type=KvType.F16)
    with open_session(choose_models("qwen2.5-coder", ""), placement) as opened:
        opened.open_context(100, ReplySettings(max_tokens=NUM_TOKENS))
        yield opened


@pytest.mark.parametrize("mode", [Mode.LOOKUP, Mode.DRAFT, Mode.AUTO])
@pytest.mark.parametrize("prompt", PROMPTS)
def test_every_mode_writes_the_same_text_up_to_a_near_tie(session: Session, prompt: str, mode: Mode) -> None:
    """The ids of plain decoding, or a first difference where the top two logits are as close as the arithmetic."""
    ids = prompt_tokens(session, prompt, raw=False)
    replies = []
    for each in (Mode.OFF, mode):
        reply = session.reply(ids, ReplySettings(mode=each, max_tokens=NUM_TOKENS))
        for _ in reply:
            pass
        replies.append(reply.token_ids)
    plain, drafted = replies
    fork = next((i for i, (a, b) in enumerate(zip(plain, drafted, strict=False)) if a != b), None)
    if fork is None:
        assert plain == drafted
        return
    target = session.target
    assert target is not None
    target.rollback(0)
    target.forward([*ids, *plain[:fork]][:-1], 0)
    logits = target.forward([[*ids, *plain[:fork]][-1]], 1)[0]
    assert abs(float(logits[plain[fork]] - logits[drafted[fork]])) < NEAR_TIE
    assert {plain[fork], drafted[fork]} == set(logits.argsort()[-2:].tolist())


def test_doctor_sees_that_the_pair_fits() -> None:
    """From the files alone: one vocabulary, the memory of the context, and templates that work."""
    target, drafts = choose_candidates("qwen2.5-coder", ())
    found = read_files(on_disk(target), [on_disk(draft) for draft in drafts], KvType.F16, NUM_TOKENS)
    (candidate,) = found.candidates
    assert candidate.vocabulary
    assert candidate.vocabulary.fits
    assert candidate.vocabulary.sizes == (151_936, 151_936)
    assert candidate.facts
    for facts, layers, kv_heads, head_width in ((found.facts, 28, 2, 128), (candidate.facts, 24, 2, 64)):
        assert (facts.architecture, facts.quantization, facts.trained_context) == ("qwen2", "Q4_K_M", 32768)
        assert facts.context_token_bytes == 2 * layers * kv_heads * head_width * 2
        assert (facts.has_chat_template, facts.chat_template_problem) == (True, "")
