"""What a model takes of memory, part by part, as its header tells.

Knows tensors and the shape of caches; where the parts are put, and how much is free there, is jobs/fitting.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from speclocal.models import splits
from speclocal.models.header import Header, read_header

STATE_NUMBER_BYTES = 4
_INPUT = ("token_embd", "per_layer", "position_embd", "token_types")


@dataclass(frozen=True)
class Footprint:
    """Bytes of the weights, and numbers that a context holds, by the layers they belong to."""

    file_bytes: int  # all weights
    input_bytes: int  # of these the embeddings, which llama.cpp leaves to the CPU
    layer_bytes: tuple[int, ...]
    output_bytes: int  # what turns the last hidden state into logits; where it is tied, the embeddings once more
    largest_bytes: int  # of one tensor in a layer
    key_numbers: tuple[int, ...]  # of each layer for every token of the context
    value_numbers: tuple[int, ...]
    state_numbers: tuple[int, ...]  # of each layer that remembers in a state of fixed size instead
    head_widths: tuple[int, ...]  # of keys and of values
    num_masks: int  # which of the tokens before it every token sees; layers with a sliding window see others
    num_words: int  # in the vocabulary
    hidden_numbers: int  # of a pass, for every token in it
    read_numbers: int  # of the widest moment of a pass over a prompt, for every token in it
    trained_context: int

    @property
    def num_layers(self) -> int:
        """The layers that can be placed; the output counts as the last."""
        return len(self.layer_bytes) + 1


def footprint_of(path: Path) -> Footprint:
    """Return the footprint of the model in a file, with the parts that belong to it if it is split.

    Raises ModelError where a header cannot be read.
    """
    return footprint([read_header(part) for part in splits.parts(path)])


def footprint(parts: Sequence[Header]) -> Footprint:
    """Return the footprint of a model in one file or in several parts, of which the first describes it."""
    header, tensors = parts[0], [tensor for part in parts for tensor in part.tensors]
    num_layers = header.num_layers or 0
    layer_bytes = [0] * num_layers
    input_bytes = output_bytes = embedding_bytes = 0
    tied = True
    for tensor in tensors:
        if tensor.layer is not None and tensor.layer < num_layers:
            layer_bytes[tensor.layer] += tensor.num_bytes
        elif tensor.name.startswith(_INPUT):
            input_bytes += tensor.num_bytes
            embedding_bytes = max(embedding_bytes, tensor.num_bytes if tensor.name == "token_embd.weight" else 0)
        else:
            output_bytes += tensor.num_bytes
            tied = tied and tensor.name != "output.weight"
    attending = [_attends(header, layer) for layer in range(num_layers)]
    kv_heads = header.num_kv_heads or (0,) * num_layers
    keys, values = header.key_length or 0, header.value_length or 0
    only_keys = header.own_int("attention.key_length_mla") is not None  # the values are made of the keys
    key_numbers = tuple(heads * keys * attends for heads, attends in zip(kv_heads, attending, strict=True))
    state = _state_numbers(header)
    width = header.embedding_length or 0
    inner = max(header.per_layer("feed_forward_length"), default=0)  # gate, up and their product lie side by side
    hidden = 4 * max(width, max(header.num_heads, default=0) * keys)
    return Footprint(
        file_bytes=sum(tensor.num_bytes for tensor in tensors),
        input_bytes=input_bytes,
        layer_bytes=tuple(layer_bytes),
        output_bytes=output_bytes + (embedding_bytes if tied else 0),
        largest_bytes=max((tensor.num_bytes for tensor in tensors if tensor.layer is not None), default=0),
        key_numbers=key_numbers,
        value_numbers=tuple(
            0 if only_keys else heads * values * attends for heads, attends in zip(kv_heads, attending, strict=True)
        ),
        state_numbers=tuple(0 if numbers else state for numbers in key_numbers),
        head_widths=(keys, values) if any(key_numbers) else (),
        num_masks=2 if header.own_int("attention.sliding_window") else 1,
        num_words=header.vocabulary_size or 0,
        hidden_numbers=hidden,
        read_numbers=max(hidden + 3 * inner, _expert_numbers(header, width)),
        trained_context=header.context_length or 0,
    )


def _attends(header: Header, layer: int) -> bool:
    """Return whether a layer keeps keys and values of its own."""
    interval = header.own_int("full_attention_interval")
    if interval and (layer + 1) % interval:
        return False  # Qwen3-Next and its like: the others keep a state
    shared = header.own_int("attention.shared_kv_layers") or 0  # Gemma 3n and 4: the last layers read those of others
    return layer < (header.num_layers or 0) - shared


def _state_numbers(header: Header) -> int:
    """Return how many numbers the state of a recurrent layer has (llama_hparams::n_embd_r and n_embd_s)."""
    if kernel := header.own_int("shortconv.l_cache"):
        return (kernel - 1) * (header.embedding_length or 0)
    if head := header.own_int("wkv.head_size"):
        return ((header.own_int("token_shift_count") or 2) + head) * (header.embedding_length or 0)
    inner, state = header.own_int("ssm.inner_size") or 0, header.own_int("ssm.state_size") or 0
    groups = header.own_int("ssm.group_count") or 0
    kernel = header.own_int("ssm.conv_kernel") or 1
    return (kernel - 1) * (inner + 2 * groups * state) + inner * state


def _expert_numbers(header: Header, width: int) -> int:
    """Return how many numbers the experts hold for a token: inside each that is used, and what it gives back."""
    used, inner = header.own_int("expert_used_count") or 0, header.own_int("expert_feed_forward_length")
    return 2 * used * ((inner or header.own_int("feed_forward_length") or 0) + width)
