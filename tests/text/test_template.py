"""Prompts are the whole rendered text, tokenized at once; only the template's own words become control tokens.

Over a fake tokenizer whose plain tokens span the border of scaffolding and content, as real merges do.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from chat_templates import CHATML, GEMMA, LLAMA_3, MISTRAL, THINKING
from hypothesis import given
from hypothesis import strategies as st

from speclocal.errors import ModelError
from speclocal.text.template import Message, chat_prompt, raw_prompt

CONTROLS = (
    *("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<think>", "</think>"),
)
PLAIN_TOKEN = re.compile(r"\s*\w+|\s+|.", re.DOTALL)

SYSTEM = Message("system", "Be brief.")
QUESTION = Message("user", "  What is 2 + 2?\n")
ANSWER = Message("assistant", "4")
FOLLOW_UP = Message("user", "And 3 + 3?")


@dataclass
class FakeTokenizer:
    chat_template: str | None = CHATML
    adds_bos: bool = False
    bos: int | None = 0
    bos_text: str = "<s>"
    eos_text: str = "</s>"
    takes_whitespace: bool = False
    texts: list[str] = field(default_factory=lambda: list(CONTROLS))

    @property
    def control_tokens(self) -> dict[str, int]:
        return {text: token for token, text in enumerate(CONTROLS)}

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        if not special:
            return [self._plain(piece) for piece in PLAIN_TOKEN.findall(text)]
        tail = r"\s*" if self.takes_whitespace else ""
        parts = re.split(f"({'|'.join(map(re.escape, CONTROLS))}){tail}", text)
        first, *rest = [self.tokenize(part) for part in parts[::2]]
        for control, tokens in zip(parts[1::2], rest, strict=True):
            first += [self.control_tokens[control], *tokens]
        return first

    def _plain(self, piece: str) -> int:
        places = [n for n, text in enumerate(self.texts) if text == piece and n >= len(CONTROLS)]
        if not places:
            self.texts.append(piece)
        return places[0] if places else len(self.texts) - 1

    def controls(self, tokens: list[int]) -> list[str]:
        return [self.texts[token] for token in tokens if token < len(CONTROLS)]

    def text(self, tokens: list[int]) -> str:
        return "".join(self.texts[token] for token in tokens)


@pytest.mark.parametrize(
    ("template", "messages", "rendered"),
    [
        (
            CHATML,
            [SYSTEM, QUESTION],
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n  What is 2 + 2?\n<|im_end|>\n"
            "<|im_start|>assistant\n",
        ),
        (
            LLAMA_3,
            [SYSTEM, QUESTION],
            "<s><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nWhat is 2 + 2?<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            GEMMA,
            [QUESTION, ANSWER, FOLLOW_UP],
            "<s><start_of_turn>user\nWhat is 2 + 2?<end_of_turn>\n<start_of_turn>model\n4<end_of_turn>\n"
            "<start_of_turn>user\nAnd 3 + 3?<end_of_turn>\n<start_of_turn>model\n",
        ),
        (
            MISTRAL,
            [SYSTEM, QUESTION, ANSWER, FOLLOW_UP],
            "<s>[INST] Be brief.\n\n  What is 2 + 2?\n[/INST] 4</s>[INST] And 3 + 3?[/INST]",
        ),
        (
            THINKING,
            [QUESTION, Message("assistant", "<think>\nEasy.\n</think>\n\n4"), FOLLOW_UP],
            "<|im_start|>user\n  What is 2 + 2?\n<|im_end|>\n<|im_start|>assistant\n4<|im_end|>\n"
            "<|im_start|>user\nAnd 3 + 3?<|im_end|>\n<|im_start|>assistant\n",
        ),
        (None, [SYSTEM, FOLLOW_UP], "Be brief.\n\nAnd 3 + 3?"),
    ],
)
def test_harmless_prompt_is_the_rendered_text_tokenized_at_once(
    template: str | None, messages: Sequence[Message], rendered: str
) -> None:
    tokenizer = FakeTokenizer(template)
    assert chat_prompt(messages, tokenizer) == tokenizer.tokenize(rendered, special=True)


@given(st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "<|im_", "end|>", "<", "</think>", "system", "\n"])))
def test_no_content_becomes_control_tokens_and_none_is_lost(words: list[str]) -> None:
    content = "".join(words)
    tokenizer = FakeTokenizer()
    prompt = chat_prompt([Message("user", content), Message("assistant", content)], tokenizer)
    assert tokenizer.controls(prompt) == ["<|im_start|>", "<|im_end|>"] * 2 + ["<|im_start|>"]
    turns = (f"<|im_start|>{role}\n{content}<|im_end|>\n" for role in ("user", "assistant"))
    assert tokenizer.text(prompt) == "".join(turns) + "<|im_start|>assistant\n"


def test_halves_of_a_control_token_cannot_meet_in_the_template() -> None:
    tokenizer = FakeTokenizer("{{ messages[0].content + messages[1].content }}<|im_end|>")
    prompt = chat_prompt([Message("user", "a<|im_"), Message("user", "start|>b")], tokenizer)
    assert tokenizer.controls(prompt) == ["<|im_end|>"]
    assert tokenizer.text(prompt) == "a<|im_start|>b<|im_end|>"


def test_control_tokens_at_the_edges_of_a_trimmed_content_stay_text() -> None:
    tokenizer = FakeTokenizer(GEMMA)
    prompt = chat_prompt([Message("user", " <end_of_turn>\nhi <bos><s> ")], tokenizer)
    assert tokenizer.controls(prompt) == ["<s>", "<start_of_turn>", "<end_of_turn>", "<start_of_turn>"]
    assert "user\n<end_of_turn>\nhi <bos><s><end_of_turn>" in tokenizer.text(prompt)


def test_an_answer_that_kept_its_thoughts_holds_no_control_tokens() -> None:
    tokenizer = FakeTokenizer(CHATML)
    prompt = chat_prompt([QUESTION, Message("assistant", "<think>Easy.</think>4")], tokenizer, reply=False)
    assert tokenizer.controls(prompt) == ["<|im_start|>", "<|im_end|>"] * 2


def test_control_tokens_in_a_question_do_not_keep_thoughts_in_the_answer() -> None:
    tokenizer = FakeTokenizer(THINKING)
    messages = [Message("user", "What is <|im_end|>?"), Message("assistant", "<think>Hm.</think>A token.")]
    rendered = tokenizer.text(chat_prompt(messages, tokenizer, reply=False))
    assert rendered == ("<|im_start|>user\nWhat is <|im_end|>?<|im_end|>\n<|im_start|>assistant\nA token.<|im_end|>\n")


def test_stand_ins_are_never_characters_of_the_content() -> None:
    content = "\U00100000\U00100001 <|im_end|> \U00100002"
    tokenizer = FakeTokenizer()
    assert content in tokenizer.text(chat_prompt([Message("user", content)], tokenizer))


@pytest.mark.parametrize("template", [CHATML, LLAMA_3])
@pytest.mark.parametrize("adds_bos", [True, False])
def test_bos_stands_once_where_the_model_or_the_template_wants_it(template: str, adds_bos: bool) -> None:
    tokenizer = FakeTokenizer(template, adds_bos)
    prompt = chat_prompt([QUESTION], tokenizer)
    assert prompt.count(0) == (adds_bos or template == LLAMA_3)
    assert 0 not in prompt[1:]


def test_raw_prompt_is_plain_text_after_bos() -> None:
    tokenizer = FakeTokenizer(adds_bos=True)
    prompt = raw_prompt("<s><|im_start|>user", tokenizer)
    assert tokenizer.controls(prompt) == ["<s>"]
    assert tokenizer.text(prompt) == "<s><s><|im_start|>user"


def test_raw_prompt_without_bos_is_the_text_alone() -> None:
    tokenizer = FakeTokenizer(adds_bos=False)
    assert tokenizer.text(raw_prompt("Once upon", tokenizer)) == "Once upon"


def test_the_next_prompt_begins_with_this_one_and_its_answer() -> None:
    tokenizer = FakeTokenizer()
    now = chat_prompt([SYSTEM, QUESTION], tokenizer)
    later = chat_prompt([SYSTEM, QUESTION, ANSWER, FOLLOW_UP], tokenizer)
    shared = now[:-1]  # the newline that ends the scaffolding may merge with the answer
    assert later[: len(shared)] == shared


def test_whitespace_that_a_control_token_takes_is_not_in_the_prompt() -> None:
    tokenizer = FakeTokenizer(takes_whitespace=True)
    prompt = chat_prompt([QUESTION], tokenizer)
    rendered = "<|im_start|>user\n  What is 2 + 2?\n<|im_end|>\n<|im_start|>assistant\n"
    assert prompt == tokenizer.tokenize(rendered, special=True)
    assert "<|im_end|><|im_start|>" in tokenizer.text(prompt)


def test_a_refusal_of_the_template_is_quoted() -> None:
    with pytest.raises(ModelError, match=r"refuses this conversation: System role not supported$"):
        chat_prompt([SYSTEM, QUESTION], FakeTokenizer(GEMMA))


def test_a_template_that_fails_is_a_clear_error() -> None:
    with pytest.raises(ModelError, match="refuses this conversation: 'dict object' has no attribute 'name'"):
        chat_prompt([QUESTION], FakeTokenizer("{{ messages[0].name.first }}"))


def test_a_template_that_is_no_template_is_a_clear_error() -> None:
    with pytest.raises(ModelError, match=r"cannot be read: .*\(line 2\)"):
        chat_prompt([QUESTION], FakeTokenizer("\n{% if %}"))


def test_a_template_cannot_reach_python() -> None:
    with pytest.raises(ModelError, match="unsafe"):
        chat_prompt([QUESTION], FakeTokenizer("{{ messages.__class__.__mro__ }}"))


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{ {'a': '<é>'} | tojson }}", '{"a": "<é>"}'),
        ("{{ [1] | tojson(indent=1) }}", "[\n 1\n]"),
        ("{{ strftime_now('%%') }}", "%"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}a{% endgeneration %}b", "ab"),
        ("  {% if tools is none %}\nno tools\n  {% endif %}\n", "no tools\n"),
    ],
)
def test_templates_find_what_transformers_gives_them(template: str, rendered: str) -> None:
    tokenizer = FakeTokenizer(template)
    assert tokenizer.text(chat_prompt([QUESTION], tokenizer)) == rendered
