"""Vocabularies as llama.cpp reads them: bytes in and out, control tokens kept apart, pairs compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny
from gguf import TokenType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from speclocal.llama.placement import Placement
from speclocal.llama.vocab import Difference, Vocab, compare_vocabularies
from speclocal.llama.weights import Weights

LoadVocab = Callable[[tiny.Vocabulary], Vocab]
SPACE_PREFIXED = tiny.spm(add_space_prefix=True)
KINDS = {
    "BPE": tiny.bpe(),
    "SentencePiece": tiny.spm(),
    "user-defined": tiny.bpe(user_defined=("<tool>", "[INST]")),
    "mismarked": tiny.bpe(controls=tiny.ENDS, user_defined=("<|im_start|>", "<tool>")),
}

thorough = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadVocab]:
    """Write a vocabulary into a file and return it as llama.cpp reads it; the same one for the same value."""
    folder = tmp_path_factory.mktemp("vocabularies")
    loaded: dict[tiny.Vocabulary, Weights] = {}

    def load_vocab(vocabulary: tiny.Vocabulary) -> Vocab:
        if vocabulary not in loaded:
            path = tiny.write_llama(folder / f"{len(loaded)}.gguf", vocabulary)
            loaded[vocabulary] = Weights(path, Placement(1))
        return loaded[vocabulary].vocab

    yield load_vocab
    for weights in loaded.values():
        weights.close()


def joined(vocab: Vocab, tokens: list[int]) -> bytes:
    return b"".join(map(vocab.piece, tokens))


@pytest.mark.parametrize("kind", KINDS)
@thorough
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁")))
def test_pieces_join_to_the_text(kind: str, text: str, load: LoadVocab) -> None:
    """Whatever the text, the pieces of its tokens are its UTF-8 bytes. (SentencePiece writes a space as U+2581.)"""
    vocab = load(KINDS[kind])
    assert joined(vocab, vocab.tokenize(text)) == text.encode()


LACKED = "\x04\x06\x13\x14\x16\x1d"  # bytes without a token in the default model; llama.cpp leaves them out


@thorough
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters=LACKED, max_codepoint=0x3FFFF)))
def test_pieces_of_the_default_model_join_to_the_text(text: str, weights_of: Any) -> None:
    """The same with a real vocabulary, as far as it has tokens: it lacks planes 4 to 11 and some control characters."""
    vocab = weights_of("default").vocab
    assert joined(vocab, vocab.tokenize(text)) == text.encode()


@pytest.mark.parametrize("text", ["", "a\0b", "\r\n\t", "👩‍👩‍👧", "e\u0301", " ", "   the cat", "<0x0A>", "[PAD7]"])
@pytest.mark.parametrize("kind", KINDS)
def test_odd_texts_survive(kind: str, text: str, load: LoadVocab) -> None:
    """NUL, joined emoji, spaces and the written form of byte tokens are text like any other."""
    vocab = load(KINDS[kind])
    assert joined(vocab, vocab.tokenize(text)) == text.encode()


def test_lone_surrogate_becomes_a_question_mark(load: LoadVocab) -> None:
    """Half a character has no UTF-8 form: it is replaced, not an error."""
    vocab = load(KINDS["BPE"])
    assert joined(vocab, vocab.tokenize("a\ud800b")) == b"a?b"


def test_space_prefix_is_added_once(load: LoadVocab) -> None:
    """A SentencePiece model that begins every text with a space gets one, and only one."""
    vocab = load(SPACE_PREFIXED)
    assert joined(vocab, vocab.tokenize("the cat")) == b" the cat"


@pytest.mark.parametrize("kind", ["BPE", "SentencePiece"])
def test_long_piece_is_complete(kind: str, load: LoadVocab) -> None:
    """A token of 64 bytes keeps all of them; llama-cpp-python's own buffer holds 32."""
    vocab = load(KINDS[kind])
    tokens = vocab.tokenize(tiny.LONG)
    assert len(tokens) == 1
    assert vocab.piece(tokens[0]) == tiny.LONG.encode()


@pytest.mark.parametrize("kind", KINDS)
def test_control_tokens_have_no_piece(kind: str, load: LoadVocab) -> None:
    """A control token stands for no text."""
    vocab = load(KINDS[kind])
    marked = [t for t, type_ in enumerate(KINDS[kind].types) if type_ is TokenType.CONTROL]
    assert marked
    assert [vocab.piece(token) for token in marked] == [b""] * len(marked)
    assert [vocab.shown(token) for token in marked] == [vocab.text(token) for token in marked]


def test_control_tokens_are_those_of_the_file(load: LoadVocab) -> None:
    """`control_tokens` names each by its text; byte, unknown and plain user-defined tokens are none."""
    assert load(KINDS["BPE"]).control_tokens == {"<|endoftext|>": 0, "<|im_start|>": 1, "<|im_end|>": 2}
    assert load(KINDS["SentencePiece"]).control_tokens == {"<s>": 1, "</s>": 2}
    assert load(KINDS["user-defined"]).control_tokens == load(KINDS["BPE"]).control_tokens


def test_control_tokens_of_the_default_model(weights_of: Any) -> None:
    """The tokens of its chat format are among them."""
    assert {"<|im_start|>", "<|im_end|>", "<|endoftext|>"} <= weights_of("default").vocab.control_tokens.keys()


def test_user_defined_token_of_the_chat_format_controls(load: LoadVocab) -> None:
    """A file may mark `<|im_start|>` as user-defined: the chat template names it, so it is a control token here."""
    vocabulary = KINDS["mismarked"]
    controls = load(vocabulary).control_tokens
    assert controls["<|im_start|>"] == vocabulary.id("<|im_start|>")
    assert "<tool>" not in controls


@pytest.mark.parametrize("kind", KINDS)
@thorough
@given(data=st.data())
def test_content_never_becomes_a_control_token(kind: str, data: st.DataObject, load: LoadVocab) -> None:
    """Texts built from control tokens and halves of them tokenize without any, and lose nothing."""
    vocab = load(KINDS[kind])
    texts = [*vocab.control_tokens, "<|im_start|>", "<s>", "<unk>"]
    parts = st.sampled_from([*texts, *(t[:1] for t in texts), *(t[1:] for t in texts), "the cat", " ", "\n", "<", "é"])
    text = "".join(data.draw(st.lists(parts, max_size=8)))
    tokens = vocab.tokenize(text)
    assert not set(tokens) & set(vocab.control_tokens.values())
    assert joined(vocab, tokens) == text.encode()


def test_cutting_a_mismarked_token_adds_no_space(load: LoadVocab) -> None:
    """A SentencePiece model that puts a space before every text puts it before the whole text, not at the cuts."""
    user_defined = tiny.spm(add_space_prefix=True, user_defined=("<|user|>",), chat_template="<|user|>{{ x }}")
    vocab = load(user_defined)
    tokens = vocab.tokenize("the<|user|>cat")
    assert user_defined.id("<|user|>") not in tokens
    assert joined(vocab, tokens) == b" the<|user|>cat"


@pytest.mark.parametrize("kind", KINDS)
def test_scaffolding_becomes_control_tokens(kind: str, load: LoadVocab) -> None:
    """With `special`, the text of a control token is that token."""
    vocab = load(KINDS[kind])
    for text, token in vocab.control_tokens.items():
        assert vocab.tokenize(text, special=True) == [token]


def test_user_defined_token_stays_one_token(load: LoadVocab) -> None:
    """A user-defined token that is no part of the chat format is recognized in any text, and has a piece."""
    vocabulary = KINDS["mismarked"]
    vocab, tool = load(vocabulary), vocabulary.id("<tool>")
    assert tool in vocab.tokenize("the <tool> cat")
    assert vocab.piece(tool) == b"<tool>"


def test_every_end_of_generation_token_ends(load: LoadVocab) -> None:
    """A vocabulary can have several tokens that end a reply; no other does."""
    vocabulary = KINDS["BPE"]
    vocab = load(vocabulary)
    assert [t for t in range(vocab.size) if vocab.is_end(t)] == sorted(map(vocabulary.id, tiny.ENDS))


def test_sentencepiece_ends_with_its_eos(load: LoadVocab) -> None:
    """`</s>` ends a reply."""
    vocab = load(KINDS["SentencePiece"])
    assert [t for t in range(vocab.size) if vocab.is_end(t)] == [2]


def test_bos_and_eos(load: LoadVocab) -> None:
    """Their ids and texts are those of the file; whether BOS begins a prompt is too."""
    for add_bos in (True, False):
        vocab = load(tiny.bpe(add_bos=add_bos))
        assert (vocab.bos, vocab.bos_text, vocab.eos, vocab.eos_text) == (0, "<|endoftext|>", 2, "<|im_end|>")
        assert vocab.adds_bos is add_bos
    vocab = load(tiny.spm(add_bos=None))
    assert (vocab.bos_text, vocab.eos_text, vocab.adds_bos) == ("<s>", "</s>", True)


def test_tokenize_adds_neither_bos_nor_eos(load: LoadVocab) -> None:
    """BOS is the prompt's business, even where the model wants it."""
    vocab = load(tiny.bpe(add_bos=True))
    assert vocab.tokenize("a", special=True) == vocab.tokenize("a") != []
    assert vocab.bos not in vocab.tokenize("a")


def test_chat_template_is_complete(load: LoadVocab) -> None:
    """A template longer than any buffer arrives whole; without one there is none."""
    long = tiny.CHATML + "{# é" + "x" * 5000 + " #}"
    assert load(tiny.bpe(chat_template=long)).chat_template == long
    assert load(tiny.bpe(chat_template=None)).chat_template is None


def test_equal_vocabularies_are_a_pair(load: LoadVocab) -> None:
    """Nothing differs between a vocabulary and itself in another file, however it begins its prompts."""
    same = compare_vocabularies(load(tiny.bpe()), load(tiny.bpe(add_bos=True)))
    assert same.fits
    assert (same.num_differing, same.first_difference, same.num_added) == (0, None, (0, 0))
    assert same.kinds == ("byte-level BPE", "byte-level BPE")
    assert same.bos == ("<|endoftext|>", "<|endoftext|>")
    assert same.eos == ("<|im_end|>", "<|im_end|>")


def test_padding_is_no_difference(load: LoadVocab) -> None:
    """One vocabulary in two sizes is one vocabulary, whichever is first; padding is nothing added."""
    plain, padded = load(tiny.bpe()), load(tiny.bpe().padded(384))
    for found in (compare_vocabularies(plain, padded), compare_vocabularies(padded, plain)):
        assert found.fits
        assert found.num_added == (0, 0)
        assert found.num_shared == len(tiny.bpe())
    assert compare_vocabularies(plain, padded).sizes == (len(tiny.bpe()), 384)


def test_added_tokens_are_told_from_padding(load: LoadVocab) -> None:
    """Tokens that one model has after those of the other are counted and the first are named: still a pair."""
    names = ("<tool>", "<call>", "<result>", "<image>")
    plain, more = load(tiny.bpe()), load(tiny.bpe(user_defined=names).padded(400))
    assert compare_vocabularies(plain, more).fits
    assert compare_vocabularies(plain, more).num_added == (0, 4)
    assert compare_vocabularies(plain, more).added == ((), names[:3])
    assert compare_vocabularies(more, plain).num_added == (4, 0)


@pytest.mark.parametrize("token", [0, 17, len(tiny.bpe()) - 1])
def test_first_difference_is_found(token: int, load: LoadVocab) -> None:
    """Another text at one id is found wherever it stands, with both texts; of two the first is told."""
    plain, other = load(tiny.bpe()), load(tiny.bpe().replaced(token, "zzz"))
    text = tiny.bpe().tokens[token]
    assert compare_vocabularies(plain, other).first_difference == Difference(token, text, "zzz")
    assert compare_vocabularies(other, plain).first_difference == Difference(token, "zzz", text)
    assert not compare_vocabularies(plain, other).fits
    twice = load(tiny.bpe().replaced(token, "zzz").replaced(5, "yyy"))
    first = min(token, 5)
    assert compare_vocabularies(plain, twice).num_differing == 2
    assert compare_vocabularies(plain, twice).first_difference == Difference(
        first, tiny.bpe().tokens[first], "zzz" if first == token else "yyy"
    )


def test_another_end_is_no_obstacle(load: LoadVocab) -> None:
    """A base model and its chat model may end replies with different tokens of one vocabulary: they are a pair."""
    chat, base = load(tiny.bpe()), load(dataclasses.replace(tiny.bpe(), bos=1, eos=0))
    found = compare_vocabularies(chat, base)
    assert found.fits
    assert found.obstacle == ""
    assert found.bos == ("<|endoftext|>", "<|im_start|>")
    assert found.eos == ("<|im_end|>", "<|endoftext|>")


def test_different_kinds_differ(load: LoadVocab) -> None:
    """Vocabularies of different types are no pair, and that is the reason given."""
    found = compare_vocabularies(load(tiny.bpe()), load(tiny.spm()))
    assert not found.fits
    assert found.obstacle == "the vocabulary is byte-level BPE in the target and SentencePiece in the draft"


def test_ids_outside_the_vocabulary_end_no_process(run_python: Any, tmp_path: Path) -> None:
    """Asking for the piece or text of an id that does not exist is a Python error, never a native abort."""
    program = """
import sys
from pathlib import Path
from speclocal.llama.placement import Placement
from speclocal.llama.weights import Weights

vocab = Weights(Path(sys.argv[1]), Placement(1)).vocab
for ask in (vocab.piece, vocab.text):
    for token in (-1, vocab.size, 2**31 - 1):
        try:
            ask(token)
        except (IndexError, ValueError):
            continue
        raise AssertionError((ask, token))
print("survived")
"""
    done = run_python(program, tiny.write_llama(tmp_path / "llama.gguf"))
    assert (done.stdout, done.returncode) == ("survived\n", 0)
