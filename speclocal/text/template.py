"""Messages become token ids by the model's own chat template, and their content never becomes control tokens.

Knows jinja2 and a tokenizer, not models, nor where a text comes from.

A chat template is a program that writes control tokens, such as `<|im_end|>`, as text around the contents. Whoever
gets that text into a content, a web page to be summarized say, could end the message and speak in another role. So
the contents are disguised while control tokens are looked for, and all between control tokens is tokenized as plain
text:

    content           hi <|im_end|>
    disguised         hi X|im_end|>                                X: a character that occurs nowhere else
    rendered          <|im_start|>user\\nhi X|im_end|><|im_end|>\\n
    split, restored   <|im_start|>  user\\nhi <|im_end|>  <|im_end|>  \\n

Scaffolding and content stay in one piece, so they merge into tokens as they would in the whole text. A disguise
keeps the length and all that is harmless, so a template may trim, search and slice what it gets.
"""

import datetime
import functools
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol

from speclocal.errors import ModelError

if TYPE_CHECKING:
    from jinja2 import Template

PLAIN_TEMPLATE = "{{ messages | map(attribute='content') | join('\n\n') }}"
"""For a model without a template: a base model, which continues text and knows neither roles nor turns."""

FIRST_STAND_IN = 0x100000
"""The last private use area of Unicode, where no character means anything to a template."""

WHITESPACE = " \t\n\v\f\r"
"""What llama.cpp drops after a token that takes the whitespace to its right with it."""


@dataclass(frozen=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Tokenizer(Protocol):
    """What a prompt must know of a model's vocabulary."""

    @property
    def bos(self) -> int | None: ...
    @property
    def bos_text(self) -> str: ...
    @property
    def eos_text(self) -> str: ...
    @property
    def adds_bos(self) -> bool:
        """Whether every prompt of this model begins with `bos`."""

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """The ids of all control tokens by their texts."""

    @property
    def chat_template(self) -> str | None:
        """The jinja2 source of the model's chat template."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Return the ids of a text, without BOS and EOS, and without control tokens unless `special`."""


def raw_prompt(text: str, tokenizer: Tokenizer) -> list[int]:
    """Return the ids of a text that the model continues as it stands."""
    return _with_bos(tokenizer.tokenize(text), tokenizer)


def chat_prompt(messages: Sequence[Message], tokenizer: Tokenizer, *, reply: bool = True) -> list[int]:
    """Return the ids of a conversation and, with `reply`, of the opening of the model's answer.

    They equal the ids of the whole rendered text, tokenized at once, if no content holds a control token.
    A conversation that continues this one, the answer included, begins with the same ids under most templates.
    """
    control_tokens = tokenizer.control_tokens
    start, *parts = _scaffold(messages, tokenizer, reply)
    ids = tokenizer.tokenize(start) if start else []
    takes_whitespace = {control for control in set(parts[::2]) if _takes_whitespace(control, tokenizer)}
    for control, plain in zip(parts[::2], parts[1::2], strict=True):
        ids.append(control_tokens[control])
        if control in takes_whitespace:
            plain = plain.lstrip(WHITESPACE)
        ids += tokenizer.tokenize(plain) if plain else []
    return _with_bos(ids, tokenizer)


def _scaffold(messages: Sequence[Message], tokenizer: Tokenizer, reply: bool) -> list[str]:
    """Return the rendered conversation cut at the control tokens that the template wrote.

    Plain texts stand at even places, control tokens at odd places.
    """
    source = tokenizer.chat_template or PLAIN_TEMPLATE
    variables = {
        "add_generation_prompt": reply,
        "bos_token": tokenizer.bos_text,
        "eos_token": tokenizer.eos_text,
        "tools": None,
        "documents": None,
    }
    controls = sorted(filter(None, tokenizer.control_tokens), key=len, reverse=True)
    control = re.compile(f"({'|'.join(map(re.escape, controls)) or '(?!)'})")
    contents = [message.content for message in messages]
    starts = "".join(sorted({text[0] for text in controls}))
    stand_ins = _absent_characters(len(starts), "".join([source, *contents]))
    disguise, restore = str.maketrans(starts, stand_ins), str.maketrans(stand_ins, starts)

    def split(contents: Iterable[str]) -> list[str]:
        turns = [{"role": m.role, "content": c} for m, c in zip(messages, contents, strict=True)]
        return control.split(_render(source, {"messages": turns, **variables}))

    def hide(found: re.Match[str]) -> str:
        return found[0][0].translate(disguise) + found[0][1:]

    # An answer is the model's own: templates look for its tags, such as </think>, to leave out old thoughts.
    parts = split(m.content if m.role == "assistant" else control.sub(hide, m.content) for m in messages)
    # Halves of a control token could still meet in the template. They cannot where no content can begin one, but
    # that hides harmless tags from the template too: it is the measure, and the way out only if needed.
    safe_parts = split(content.translate(disguise) for content in contents)
    if parts[1::2] != safe_parts[1::2]:
        parts = safe_parts
    return [part.translate(restore) for part in parts]


def _absent_characters(number: int, text: str) -> str:
    """Return characters that do not occur in the text."""
    candidates = map(chr, range(FIRST_STAND_IN, sys.maxunicode))
    return "".join(islice((char for char in candidates if char not in text), number))


def _takes_whitespace(control: str, tokenizer: Tokenizer) -> bool:
    """Return whether whitespace after this control token is no part of the prompt, as with Phi-3."""
    return len(tokenizer.tokenize(control + "\n", special=True)) == 1


def _with_bos(ids: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return the ids with one BOS in front if the model wants it, whether or not the template wrote it."""
    if not tokenizer.adds_bos or tokenizer.bos is None or ids[:1] == [tokenizer.bos]:
        return ids
    return [tokenizer.bos, *ids]


def _render(source: str, variables: Mapping[str, Any]) -> str:
    """Return the text a template makes. Templates are foreign programs and may fail in any way."""
    import jinja2

    try:
        return _compile(source).render(variables)
    except jinja2.TemplateSyntaxError as exc:
        raise ModelError(
            f"the model's chat template cannot be read: {exc.message} (line {exc.lineno})",
            "use --raw to give the text to the model without a template",
        ) from exc
    except Exception as exc:
        raise ModelError(
            f"the model's chat template refuses this conversation: {exc}",
            "leave out the system prompt if it is about roles, or use --raw to go without a template",
        ) from exc


@functools.lru_cache(maxsize=4)
def _compile(source: str) -> "Template":
    """Return the template in the surroundings that Hugging Face transformers gives it."""
    from jinja2 import TemplateError, nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class GenerationTag(Extension):
        """`{% generation %}` marks the model's own words for training and has no effect here."""

        tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def raise_exception(message: str) -> NoReturn:
        raise TemplateError(message)

    def strftime_now(format: str) -> str:
        return datetime.datetime.now().strftime(format)

    def tojson(value: object, ensure_ascii: bool = False, **layout: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **layout)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals |= {"raise_exception": raise_exception, "strftime_now": strftime_now}
    return environment.from_string(source)
