"""A model's vocabulary: text to tokens, tokens to bytes, which tokens control, and whether two models share one.

Knows tokens and their texts, not messages or templates.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any

import llama_cpp

_USER_DEFINED = 16  # enum llama_token_attr: LLAMA_TOKEN_ATTR_USER_DEFINED


class Vocab:
    """The vocabulary of loaded weights. Implements the Tokenizer protocol of speclocal.text.template."""

    def __init__(self, pointer: Any, chat_template: str | None) -> None:
        self._pointer = pointer
        self.chat_template = chat_template
        self.size: int = llama_cpp.llama_vocab_n_tokens(pointer)
        self.kind: int = llama_cpp.llama_vocab_type(pointer)
        self.adds_bos: bool = llama_cpp.llama_vocab_get_add_bos(pointer)
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

    def is_end(self, token: int) -> bool:
        """Return whether the token ends a reply; a vocabulary can have several such tokens."""
        return bool(llama_cpp.llama_vocab_is_eog(self._pointer, token))

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


def first_difference(a: Vocab, b: Vocab) -> int | None:
    """Return the first token id that both vocabularies have and write differently, None where there is none.

    One model of a family may pad its vocabulary to a larger size than another: only shared ids are compared.
    """
    text = llama_cpp.llama_vocab_get_text
    shared = range(min(a.size, b.size))
    return next((t for t in shared if text(a._pointer, t) != text(b._pointer, t)), None)


def _valid(token: int) -> int | None:
    return token if token >= 0 else None
