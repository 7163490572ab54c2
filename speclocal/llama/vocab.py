"""A model's vocabulary: text to tokens, tokens to bytes, which tokens control, and whether two models share one.

Knows tokens and their texts, not messages or templates.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import llama_cpp

from speclocal.decoding.types import Finish

_UNKNOWN, _UNUSED, _USER_DEFINED = 1, 2, 16  # enum llama_token_attr
_KINDS = {  # enum llama_vocab_type
    llama_cpp.LLAMA_VOCAB_TYPE_NONE: "none",
    llama_cpp.LLAMA_VOCAB_TYPE_SPM: "SentencePiece",
    llama_cpp.LLAMA_VOCAB_TYPE_BPE: "byte-level BPE",
    llama_cpp.LLAMA_VOCAB_TYPE_WPM: "WordPiece",
    llama_cpp.LLAMA_VOCAB_TYPE_UGM: "Unigram",
    llama_cpp.LLAMA_VOCAB_TYPE_RWKV: "RWKV",
}
_FEW = 3


class Vocab:
    """The vocabulary of loaded weights. Implements the Tokenizer protocol of speclocal.text.template."""

    def __init__(self, pointer: Any, chat_template: str | None) -> None:
        self._pointer = pointer
        self.chat_template = chat_template
        self.size: int = llama_cpp.llama_vocab_n_tokens(pointer)
        self.kind: int = llama_cpp.llama_vocab_type(pointer)
        self.adds_bos: bool = llama_cpp.llama_vocab_get_add_bos(pointer)
        self.kind_name = _KINDS.get(self.kind, f"type {self.kind}")
        self.bos = _valid(llama_cpp.llama_vocab_bos(pointer))
        self.eos = _valid(llama_cpp.llama_vocab_eos(pointer))
        self.piece = cache(self._piece)  # the table of pieces, filled as tokens are met

    def follow(self, pointer: Any) -> None:
        """Go on as the vocabulary of the same file, loaded anew."""
        self._pointer = pointer

    @property
    def bos_text(self) -> str:
        return "" if self.bos is None else self.text(self.bos)

    @property
    def eos_text(self) -> str:
        return "" if self.eos is None else self.text(self.eos)

    def text(self, token: int) -> str:
        """Return the token as it is written in the vocabulary."""
        self._check(token)
        return bytes(llama_cpp.llama_vocab_get_text(self._pointer, token) or b"").decode("utf-8", "replace")

    def shown(self, token: int) -> str:
        """Return the text of a token for people; of a control token, which has none, its name."""
        return self.piece(token).decode("utf-8", "replace") or self.text(token)

    def is_end(self, token: int) -> bool:
        """Return whether the token ends a reply; a vocabulary can have several such tokens."""
        return bool(llama_cpp.llama_vocab_is_eog(self._pointer, token))

    def ends(self, token: int) -> Finish | None:
        """Return why a reply ends with the token, None where it goes on."""
        return Finish.EOS if self.is_end(token) else None

    def is_unused(self, token: int) -> bool:
        """Return whether the id stands for nothing, as those do that pad a vocabulary to a round size."""
        self._check(token)
        attributes = llama_cpp.llama_vocab_get_attr(self._pointer, token)
        return attributes == 0 or bool(attributes & (_UNKNOWN | _UNUSED))

    @cached_property
    def control_tokens(self) -> Mapping[str, int]:
        """Every token that steers the model rather than standing for text, by its text.

        Some files mark the tokens of their chat format as user-defined instead of control: those that the chat
        template names are taken for control tokens too.
        """
        controls = {self.text(t): t for t in range(self.size) if llama_cpp.llama_vocab_is_control(self._pointer, t)}
        return controls | self._mismarked

    @cached_property
    def _mismarked(self) -> dict[str, int]:
        template = self.chat_template or ""
        candidates = set(re.findall(r"<[^<>\s{}]+>|\[[^\[\]\s{}]+\]", template))
        return {
            self.text(token): token
            for text in candidates
            for token in self._tokenize(text, special=True)[:1]
            if self.text(token) == text and llama_cpp.llama_vocab_get_attr(self._pointer, token) & _USER_DEFINED
        }

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Return the tokens of `text`, without BOS or EOS.

        special: whether the texts of control tokens become those tokens; without it nothing in `text` does.
        """
        if special or not self._mismarked:
            return self._tokenize(text, special)
        # llama.cpp turns user-defined tokens into themselves in any text: cut through the middle of those that control.
        border = "|".join(f"(?<={re.escape(t[:1])})(?={re.escape(t[1:])})" for t in self._mismarked)
        first, *rest = re.split(border, text)
        tokens = self._tokenize(first, special=False)
        for part in rest:
            tokens += self._continue(part)
        return tokens

    def _continue(self, text: str) -> list[int]:
        """Return the tokens of a text that follows another, without the space some models put before a text."""
        lead = self._tokenize("\n", special=False)
        tokens = self._tokenize("\n" + text, special=False)
        return tokens[len(lead) :] if tokens[: len(lead)] == lead else self._tokenize(text, special=False)

    def _tokenize(self, text: str, special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        size = len(data) + 8
        while True:
            tokens = (llama_cpp.llama_token * size)()
            count = llama_cpp.llama_tokenize(self._pointer, data, len(data), tokens, size, False, special)
            if count >= 0:
                return tokens[:count]
            size = -count

    def _check(self, token: int) -> None:
        if not 0 <= token < self.size:
            raise IndexError(f"no token {token} in a vocabulary of {self.size}")

    def _piece(self, token: int) -> bytes:
        """Return the bytes a token stands for; none for a control token."""
        self._check(token)
        size = 32
        while True:
            buffer = ctypes.create_string_buffer(size)
            length = llama_cpp.llama_token_to_piece(self._pointer, token, buffer, size, 0, False)
            if length >= 0:
                return buffer.raw[:length]
            size = -length


@dataclass(frozen=True)
class Difference:
    """A token id that two models read as different texts, each as it is written in its vocabulary."""

    token: int
    target: str
    draft: str


@dataclass(frozen=True)
class VocabularyComparison:
    """Two vocabularies side by side; every pair of values is the target's and the draft's.

    num_added: the ids that only this vocabulary has and that stand for something; ids that only pad are not counted.
    added: the texts of the first few of them.
    """

    kinds: tuple[str, str]
    sizes: tuple[int, int]
    num_differing: int  # of the ids both have
    first_difference: Difference | None
    num_added: tuple[int, int]
    added: tuple[tuple[str, ...], tuple[str, ...]]
    bos: tuple[str, str]
    eos: tuple[str, str]

    @property
    def num_shared(self) -> int:
        """How many ids both have."""
        return min(self.sizes)

    @property
    def fits(self) -> bool:
        """Whether one model may draft for the other: every id that both have means the same text.

        Ids that only one has are no obstacle: a draft model is never fed an id it lacks, and never proposes one the
        target lacks. Nor are BOS and EOS, since the drafter reads the target's ids and the target ends the reply.
        """
        return self.kinds[0] == self.kinds[1] and self.first_difference is None

    @property
    def obstacle(self) -> str:
        """Why they are no pair, empty where they are one."""
        if self.kinds[0] != self.kinds[1]:
            return f"the vocabulary is {self.kinds[0]} in the target and {self.kinds[1]} in the draft"
        if found := self.first_difference:
            return f"token {found.token} is `{found.target}` in the target and `{found.draft}` in the draft"
        return ""


def compare_vocabularies(target: Vocab, draft: Vocab) -> VocabularyComparison:
    """Return what two vocabularies share and where they part."""
    text = llama_cpp.llama_vocab_get_text
    shared = min(target.size, draft.size)
    differing = [t for t in range(shared) if text(target._pointer, t) != text(draft._pointer, t)]
    first = Difference(differing[0], target.text(differing[0]), draft.text(differing[0])) if differing else None
    added_to_target, added_to_draft = (
        [vocab.text(t) for t in range(shared, vocab.size) if not vocab.is_unused(t)] for vocab in (target, draft)
    )
    return VocabularyComparison(
        kinds=(target.kind_name, draft.kind_name),
        sizes=(target.size, draft.size),
        num_differing=len(differing),
        first_difference=first,
        num_added=(len(added_to_target), len(added_to_draft)),
        added=(tuple(added_to_target[:_FEW]), tuple(added_to_draft[:_FEW])),
        bos=(target.bos_text, draft.bos_text),
        eos=(target.eos_text, draft.eos_text),
    )


def _valid(token: int) -> int | None:
    return token if token >= 0 else None
