"""Tiny GGUF files: real architectures with random weights, written in milliseconds.

Knows the gguf package and the names of tensors, not llama.cpp and not speclocal.

A vocabulary is a value that can be varied (`bpe(add_bos=True).padded(400)`); a `write_*` function puts it and random
weights into a file and returns its path. Weights depend on the seed and the names of the tensors alone: two files with
one seed give the same logits for the tokens they share, whatever else differs.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import TokenType

WIDTH = 64  # of the hidden state
HEADS, KV_HEADS = 4, 2
HEAD_WIDTH = WIDTH // HEADS
INNER = 96  # width of the feed-forward layer
LAYERS = 2
STATE, STATE_RANK, KERNEL = 16, WIDTH // 16, 4  # of a layer that remembers the text in one state

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ENDS = ("<|endoftext|>", "<|im_end|>")  # llama.cpp knows both texts: each ends a reply

WORDS = (
    " the",
    " and",
    " cat",
    " tree",
    " drafts",
    " tokens",
    "ing",
    "tion",
    " a",
    " of",
    "def",
    "return",
    "  ",
    "    ",
)
LONG = "-" * 64  # one token, longer than llama-cpp-python's buffer of 32 bytes


@dataclass(frozen=True)
class Vocabulary:
    """What stands under `tokenizer.*` in the file. kind: `gpt2` is byte-level BPE, `llama` is SentencePiece."""

    kind: str
    tokens: tuple[str, ...]
    types: tuple[TokenType, ...]
    merges: tuple[str, ...] = ()
    scores: tuple[float, ...] = ()
    bos: int | None = None
    eos: int | None = None
    add_bos: bool | None = None  # None: the file does not say
    add_space_prefix: bool | None = None
    chat_template: str | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def id(self, text: str) -> int:
        return self.tokens.index(text)

    def replaced(self, token: int, text: str) -> Vocabulary:
        """Return the vocabulary with another text at one id."""
        return dataclasses.replace(self, tokens=(*self.tokens[:token], text, *self.tokens[token + 1 :]))

    def padded(self, size: int) -> Vocabulary:
        """Return the vocabulary with unused ids after it, as converters pad to a multiple of 64 or 128."""
        extra = range(len(self), size)
        return dataclasses.replace(
            self,
            tokens=(*self.tokens, *(f"[PAD{i}]" for i in extra)),
            types=(*self.types, *(TokenType.UNUSED for _ in extra)),
            scores=(*self.scores, *(-1000.0 for _ in extra)) if self.scores else (),
        )

    def write(self, writer: gguf.GGUFWriter) -> None:
        writer.add_tokenizer_model(self.kind)
        if self.kind == "gpt2":
            writer.add_tokenizer_pre("gpt-2")
            writer.add_token_merges(self.merges)
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.scores:
            writer.add_token_scores(self.scores)
        optional: tuple[tuple[Any, Any], ...] = (
            (self.bos, writer.add_bos_token_id),
            (self.eos, writer.add_eos_token_id),
            (self.add_bos, writer.add_add_bos_token),
            (self.add_space_prefix, writer.add_add_space_prefix),
            (self.chat_template, writer.add_chat_template),
        )
        for value, add in optional:
            if value is not None:
                add(value)


def bpe(
    *,
    controls: Sequence[str] = ("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    user_defined: Sequence[str] = (),
    words: Sequence[str] = WORDS,
    add_bos: bool | None = None,
    chat_template: str | None = CHATML,
) -> Vocabulary:
    """Return a byte-level BPE vocabulary: control tokens, all bytes, merges that build `words` and LONG.

    controls: the first is BOS, the last EOS. user_defined: tokens that llama.cpp recognizes in any text.
    """
    letters = _byte_letters()
    pieces, merges = list(letters.values()), list[str]()

    def merge(a: str, b: str) -> str:
        if f"{a} {b}" not in merges:
            merges.append(f"{a} {b}")
            if a + b not in pieces:
                pieces.append(a + b)
        return a + b

    for word in words:
        first, *rest = (letters[byte] for byte in word.encode())
        for letter in rest:
            first = merge(first, letter)
    dashes = "-"
    while len(dashes) < len(LONG):
        dashes = merge(dashes, dashes)

    return Vocabulary(
        kind="gpt2",
        tokens=(*controls, *pieces, *user_defined),
        types=(
            *(TokenType.CONTROL for _ in controls),
            *(TokenType.NORMAL for _ in pieces),
            *(TokenType.USER_DEFINED for _ in user_defined),
        ),
        merges=tuple(merges),
        bos=0 if controls else None,
        eos=len(controls) - 1 if controls else None,
        add_bos=add_bos,
        chat_template=chat_template,
    )


def spm(
    *,
    user_defined: Sequence[str] = (),
    words: Sequence[str] = WORDS,
    add_bos: bool | None = True,
    add_space_prefix: bool | None = False,
    chat_template: str | None = None,
) -> Vocabulary:
    """Return a SentencePiece vocabulary: <unk>, <s>, </s>, all bytes as <0x..>, ASCII, `words` and LONG."""
    special = {"<unk>": TokenType.UNKNOWN, "<s>": TokenType.CONTROL, "</s>": TokenType.CONTROL}
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = ["▁", *(chr(code) for code in range(33, 127))]
    for word in (w.replace(" ", "▁") for w in words):
        pieces += [word[:end] for end in range(2, len(word) + 1) if word[:end] not in pieces]
    pieces += ["-" * 2**power for power in range(1, 7)]
    return Vocabulary(
        kind="llama",
        tokens=(*special, *byte_tokens, *pieces, *user_defined),
        types=(
            *special.values(),
            *(TokenType.BYTE for _ in byte_tokens),
            *(TokenType.NORMAL for _ in pieces),
            *(TokenType.USER_DEFINED for _ in user_defined),
        ),
        scores=(
            *(0.0 for _ in (*special, *byte_tokens)),
            *(-float(rank) for rank in range(len(pieces))),
            *(0.0 for _ in user_defined),
        ),
        bos=1,
        eos=2,
        add_bos=add_bos,
        add_space_prefix=add_space_prefix,
        chat_template=chat_template,
    )


def write_llama(
    path: Path,
    vocabulary: Vocabulary | None = None,
    *,
    seed: int = 0,
    noise: float = 0.0,
    context: int = 4096,
    metadata: Mapping[str, Any] | None = None,
) -> Path:
    """Write a small Llama: the plain transformer.

    noise: how far the weights are from those of the same seed with no noise; a model with a little of it drafts well
    for the one without.
    metadata: values that overrule or add to the file's header.
    """
    file = _File("llama", vocabulary or bpe(), seed, noise)
    file.attention_header(context)
    file.add("attention.layer_norm_rms_epsilon", 1e-5).add("rope.dimension_count", HEAD_WIDTH)
    file.embeddings()
    for layer in range(LAYERS):
        file.attention(layer)
        file.feed_forward(layer)
    return file.write(path, metadata)


def write_sliding_window(
    path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0, noise: float = 0.0, window: int = 32
) -> Path:
    """Write a small Gemma 2: every other layer sees `window` tokens back and no further."""
    file = _File("gemma2", vocabulary or bpe(), seed, noise)
    file.attention_header(4096)
    file.add("attention.layer_norm_rms_epsilon", 1e-5).add("attention.sliding_window", window)
    file.add("attention.key_length", HEAD_WIDTH).add("attention.value_length", HEAD_WIDTH)
    file.embeddings(tied=True)
    for layer in range(LAYERS):
        file.attention(layer)
        file.feed_forward(layer)
        file.norms(f"blk.{layer}.post_attention_norm", f"blk.{layer}.post_ffw_norm", scale=3.0)
    return file.write(path)


def write_recurrent(path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0, noise: float = 0.0) -> Path:
    """Write a small Mamba: no attention; all it remembers is one state, which cannot be taken back."""
    file = _File("mamba", vocabulary or bpe(), seed, noise)
    file.add("context_length", 4096).add("embedding_length", WIDTH).add("feed_forward_length", 0)
    file.add("attention.head_count", 0).add("block_count", LAYERS).add("attention.layer_norm_rms_epsilon", 1e-5)
    file.mamba_header()
    file.embeddings()
    for layer in range(LAYERS):
        file.mamba(layer)
    return file.write(path)


def write_hybrid(path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0, noise: float = 0.0) -> Path:
    """Write a small Jamba: a layer of Mamba and one of attention."""
    file = _File("jamba", vocabulary or bpe(), seed, noise)
    file.attention_header(4096, kv_heads=[0, KV_HEADS])
    file.add("attention.layer_norm_rms_epsilon", 1e-5)
    file.mamba_header()
    file.embeddings()
    file.mamba(0)
    file.norms("blk.0.ssm_dt_norm", width=STATE_RANK).norms("blk.0.ssm_b_norm", "blk.0.ssm_c_norm", width=STATE)
    file.attention(1)
    for layer in range(LAYERS):
        file.feed_forward(layer)
    return file.write(path)


def write_convolution(path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0, noise: float = 0.0) -> Path:
    """Write a small LFM2: a layer of short convolution and one of attention. llama.cpp can keep its last states."""
    file = _File("lfm2", vocabulary or bpe(), seed, noise)
    file.attention_header(4096, kv_heads=[0, KV_HEADS])
    file.add("attention.layer_norm_rms_epsilon", 1e-5).add("shortconv.l_cache", 3)
    file.embeddings(output_norm="token_embd_norm")
    file.norms("blk.0.attn_norm")
    file.matrix("blk.0.shortconv.in_proj", 3 * WIDTH, WIDTH)
    file.matrix("blk.0.shortconv.conv", WIDTH, 3)
    file.matrix("blk.0.shortconv.out_proj", WIDTH, WIDTH)
    file.attention(1)
    file.norms("blk.1.attn_q_norm", "blk.1.attn_k_norm", width=HEAD_WIDTH)
    for layer in range(LAYERS):
        file.feed_forward(layer)
    return file.write(path)


def write_delta_net(path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0, noise: float = 0.0) -> Path:
    """Write a small Qwen 3.5: a layer of gated delta net and one of attention. llama.cpp can keep its last states."""
    file = _File("qwen35", vocabulary or bpe(), seed, noise)
    heads, inner = 2, 2 * STATE
    file.attention_header(4096)
    file.add("attention.layer_norm_rms_epsilon", 1e-5).add("full_attention_interval", 2)
    file.add("attention.key_length", HEAD_WIDTH).add("attention.value_length", HEAD_WIDTH)
    file.add("rope.dimension_count", HEAD_WIDTH).add("rope.dimension_sections", [4, 2, 2, 0])
    file.add("ssm.conv_kernel", KERNEL).add("ssm.inner_size", inner).add("ssm.state_size", STATE)
    file.add("ssm.time_step_rank", heads).add("ssm.group_count", heads)
    file.embeddings()
    file.norms("blk.0.attn_norm")
    file.matrix("blk.0.attn_qkv", 3 * inner, WIDTH).matrix("blk.0.attn_gate", inner, WIDTH)
    file.matrix("blk.0.ssm_conv1d", 3 * inner, KERNEL)
    file.vector("blk.0.ssm_dt.bias", heads).tensor("blk.0.ssm_a", -np.ones(heads, dtype=np.float32))
    file.matrix("blk.0.ssm_beta", heads, WIDTH).matrix("blk.0.ssm_alpha", heads, WIDTH)
    file.norms("blk.0.ssm_norm", width=STATE).matrix("blk.0.ssm_out", WIDTH, inner)
    file.attention(1)
    file.matrix("blk.1.attn_q", 2 * WIDTH, WIDTH).norms("blk.1.attn_q_norm", "blk.1.attn_k_norm", width=HEAD_WIDTH)
    for layer in range(LAYERS):
        file.feed_forward(layer, norm="post_attention_norm")
    return file.write(path)


KINDS: dict[str, Callable[..., Path]] = {
    "llama": write_llama,
    "sliding window": write_sliding_window,
    "recurrent": write_recurrent,
    "hybrid": write_hybrid,
    "convolution": write_convolution,
    "delta net": write_delta_net,
}
"""How to write a model, by the kind of its cache."""


def write_embedder(path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0) -> Path:
    """Write a small BERT: it reads a text in both directions and writes none."""
    file = _File("bert", vocabulary or bpe(), seed)
    file.attention_header(512, kv_heads=HEADS)
    file.add("attention.layer_norm_epsilon", 1e-5).add("attention.causal", False)
    file.add("pooling_type", int(gguf.PoolingType.MEAN))
    file.writer.add_token_type_count(2)
    file.matrix("token_embd", len(file.vocabulary), WIDTH).matrix("token_types", 2, WIDTH)
    file.matrix("position_embd", 512, WIDTH).norms("token_embd_norm", bias=True)
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            file.matrix(f"{block}.{name}", WIDTH, WIDTH).vector(f"{block}.{name}.bias", WIDTH)
        file.matrix(f"{block}.ffn_up", INNER, WIDTH).vector(f"{block}.ffn_up.bias", INNER)
        file.matrix(f"{block}.ffn_down", WIDTH, INNER).vector(f"{block}.ffn_down.bias", WIDTH)
        file.norms(f"{block}.attn_output_norm", f"{block}.layer_output_norm", bias=True)
    return file.write(path)


def write_encoder_decoder(path: Path, vocabulary: Vocabulary | None = None, *, seed: int = 0) -> Path:
    """Write a small T5: an encoder reads, a decoder writes."""
    file = _File("t5", vocabulary or spm(), seed)
    file.attention_header(512, kv_heads=HEADS)
    file.add("attention.layer_norm_rms_epsilon", 1e-5).add("attention.layer_norm_epsilon", 1e-5)
    file.add("attention.key_length", HEAD_WIDTH).add("attention.value_length", HEAD_WIDTH)
    file.add("attention.relative_buckets_count", 32).add("decoder_start_token_id", 0)
    file.matrix("token_embd", len(file.vocabulary), WIDTH).norms("enc.output_norm", "dec.output_norm")
    for layer in range(LAYERS):
        for block, attentions in ((f"enc.blk.{layer}", ("attn",)), (f"dec.blk.{layer}", ("attn", "cross_attn"))):
            for attention in attentions:
                file.norms(f"{block}.{attention}_norm")
                for part in "qkvo":
                    file.matrix(f"{block}.{attention}_{part}", WIDTH, WIDTH)
            file.matrix(f"{block}.attn_rel_b", 32, HEADS)
            file.norms(f"{block}.ffn_norm")
            file.matrix(f"{block}.ffn_up", INNER, WIDTH).matrix(f"{block}.ffn_down", WIDTH, INNER)
    return file.write(path)


def write_without_vocabulary(path: Path, *, size: int = 320) -> Path:
    """Write a small Llama whose file says `no_vocab`, as some test models and speech models do."""
    nothing = Vocabulary("no_vocab", tuple(f"{i}" for i in range(size)), (TokenType.NORMAL,) * size)
    file = _File("llama", nothing, 0)
    file.attention_header(512)
    file.add("attention.layer_norm_rms_epsilon", 1e-5).add("vocab_size", size)
    file.embeddings()
    for layer in range(LAYERS):
        file.attention(layer)
        file.feed_forward(layer)
    return file.write(path)


def cut_off(path: Path, source: Path, share: float = 0.5) -> Path:
    """Write the first part of `source`, as an interrupted download leaves it."""
    data = source.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


_NEVER_QUANTIZED = ("token_types.weight", "position_embd.weight")


class _File:
    """A GGUF file in the making: header and tensors by their names in llama.cpp. Shapes are rows, columns.

    Matrices are written as Q8_0: as in real files, passes of every width then give the same bits.
    """

    def __init__(self, architecture: str, vocabulary: Vocabulary, seed: int, noise: float = 0.0) -> None:
        self.architecture, self.vocabulary, self.seed, self.noise = architecture, vocabulary, seed, noise
        self.header: dict[str, Any] = {}
        self.tensors: dict[str, np.ndarray[Any, np.dtype[np.float32]]] = {}
        self.writer = gguf.GGUFWriter(None, architecture)

    def add(self, key: str, value: Any) -> _File:
        self.header[f"{self.architecture}.{key}"] = value
        return self

    def tensor(self, name: str, values: np.ndarray[Any, np.dtype[np.float32]]) -> _File:
        self.tensors[name if name.endswith((".bias", ".ssm_a", ".ssm_d")) else f"{name}.weight"] = values
        return self

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> _File:
        """Add random weights of a size that keeps vectors at their length."""
        return self.tensor(name, self._random(name, rows, columns) * np.float32(scale / np.sqrt(columns)))

    def vector(self, name: str, width: int) -> _File:
        return self.tensor(name, self._random(name, width) * np.float32(0.1))

    def norms(self, *names: str, width: int = WIDTH, scale: float = 1.0, bias: bool = False) -> _File:
        for name in names:
            self.tensor(name, np.full(width, scale, dtype=np.float32))
            if bias:
                self.tensor(f"{name}.bias", np.zeros(width, dtype=np.float32))
        return self

    def attention_header(self, context: int, kv_heads: int | list[int] = KV_HEADS) -> None:
        self.add("context_length", context).add("embedding_length", WIDTH).add("block_count", LAYERS)
        self.add("feed_forward_length", INNER).add("attention.head_count", HEADS)
        self.add("attention.head_count_kv", kv_heads)

    def embeddings(self, output_norm: str = "output_norm", tied: bool = False) -> None:
        self.matrix("token_embd", len(self.vocabulary), WIDTH, scale=1.0 if tied else 8.0)
        self.norms(output_norm)
        if not tied:
            self.matrix("output", len(self.vocabulary), WIDTH, scale=3.0)

    def attention(self, layer: int) -> None:
        block = f"blk.{layer}"
        self.norms(f"{block}.attn_norm")
        for name, heads in (("attn_q", HEADS), ("attn_k", KV_HEADS), ("attn_v", KV_HEADS), ("attn_output", HEADS)):
            self.matrix(f"{block}.{name}", heads * HEAD_WIDTH, WIDTH)

    def feed_forward(self, layer: int, norm: str = "ffn_norm") -> None:
        block = f"blk.{layer}"
        self.norms(f"{block}.{norm}")
        self.matrix(f"{block}.ffn_gate", INNER, WIDTH).matrix(f"{block}.ffn_up", INNER, WIDTH)
        self.matrix(f"{block}.ffn_down", WIDTH, INNER)

    def mamba_header(self) -> None:
        self.add("ssm.conv_kernel", KERNEL).add("ssm.inner_size", 2 * WIDTH)
        self.add("ssm.state_size", STATE).add("ssm.time_step_rank", STATE_RANK)

    def mamba(self, layer: int) -> None:
        block, inner = f"blk.{layer}", 2 * WIDTH
        self.norms(f"{block}.attn_norm")
        self.matrix(f"{block}.ssm_in", 2 * inner, WIDTH)
        self.matrix(f"{block}.ssm_conv1d", inner, KERNEL).vector(f"{block}.ssm_conv1d.bias", inner)
        self.matrix(f"{block}.ssm_x", STATE_RANK + 2 * STATE, inner)
        self.matrix(f"{block}.ssm_dt", inner, STATE_RANK).vector(f"{block}.ssm_dt.bias", inner)
        self.tensor(f"{block}.ssm_a", -np.tile(np.arange(1, STATE + 1, dtype=np.float32), (inner, 1)))
        self.vector(f"{block}.ssm_d", inner)
        self.matrix(f"{block}.ssm_out", WIDTH, inner)

    def write(self, path: Path, metadata: Mapping[str, Any] | None = None) -> Path:
        header: dict[str, Any] = {**self.header, **(metadata or {})}
        for key, value in header.items():
            match value:
                case bool():
                    self.writer.add_bool(key, value)
                case int():
                    self.writer.add_uint32(key, value)
                case float():
                    self.writer.add_float32(key, value)
                case str():
                    self.writer.add_string(key, value)
                case _:
                    self.writer.add_array(key, value)
        self.vocabulary.write(self.writer)
        for name, values in self.tensors.items():
            if values.ndim == 2 and values.shape[1] % 32 == 0 and name not in _NEVER_QUANTIZED:
                q8_0 = gguf.GGMLQuantizationType.Q8_0
                self.writer.add_tensor(name, gguf.quantize(values, q8_0), raw_dtype=q8_0)
            else:
                self.writer.add_tensor(name, values)
        self.writer.write_header_to_file(path)
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return path

    def _random(self, name: str, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        key = zlib.crc32(name.encode())
        values = np.random.default_rng([self.seed, key]).standard_normal(shape)
        if self.noise:
            values = values + self.noise * np.random.default_rng([self.seed, key, 1]).standard_normal(shape)
        return values.astype(np.float32)


def _byte_letters() -> dict[int, str]:
    """Return the letter that stands for each byte in byte-level BPE, GPT-2's table: printable ones are themselves."""
    printable: Iterable[int] = (*range(33, 127), *range(161, 173), *range(174, 256))
    letters = {byte: chr(byte) for byte in printable}
    hidden = (byte for byte in range(256) if byte not in letters)
    return letters | {byte: chr(256 + i) for i, byte in enumerate(hidden)}
