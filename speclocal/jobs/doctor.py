"""Whether models work and fit each other: what their files say. Whether they pay here is added by trial.py.

Knows headers and vocabularies, no weights.

A candidate that cannot draft is no error: it is told with its reason, and the others go on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from speclocal.decoding.costs import Exactness, Speeds
from speclocal.errors import ModelError, SpeclocalError
from speclocal.jobs.forecast import Forecast
from speclocal.jobs.session import ModelFile
from speclocal.llama.formats import KvType
from speclocal.llama.grants import free_memory
from speclocal.llama.peek import vocabulary_of
from speclocal.llama.vocab import Vocab, VocabularyComparison, compare_vocabularies
from speclocal.models import splits
from speclocal.models.checks import check_model
from speclocal.models.footprint import STATE_NUMBER_BYTES, footprint
from speclocal.text.template import Message, chat_prompt

USUAL_CONTEXT = 4096
"""Tokens of the context for which memory is told; fewer where a model was trained on fewer."""


@dataclass(frozen=True)
class Facts:
    """What a model's file says of it.

    chat_template_problem: why a chat cannot be put into its template; empty where that works, or there is none.
    context_token_bytes: what every token of the context takes in memory. state_bytes: what a recurrent state takes,
    however long the context is.
    """

    name: str
    path: Path
    architecture: str
    quantization: str
    file_bytes: int
    trained_context: int | None
    context_token_bytes: float
    state_bytes: int
    has_chat_template: bool
    chat_template_problem: str

    @property
    def file(self) -> ModelFile:
        return ModelFile(self.name, self.path)

    @property
    def usual_context(self) -> int:
        return min(USUAL_CONTEXT, self.trained_context or USUAL_CONTEXT)

    def memory_bytes(self, context: int) -> float:
        """Return about how much memory the model takes with a context of so many tokens."""
        return self.file_bytes + self.state_bytes + context * self.context_token_bytes


@dataclass(frozen=True)
class Measured:
    """What was measured of a model here. can_rollback: whether its cache can drop rejected tokens.

    exact: empty where passes of several tokens are of no use.
    """

    can_rollback: bool
    speeds: Speeds
    exact: tuple[Exactness, ...]


@dataclass(frozen=True)
class Candidate:
    """A draft model, judged for a target. obstacle: why it cannot draft; empty if it can, or that was not tried."""

    name: str
    facts: Facts | None = None
    vocabulary: VocabularyComparison | None = None
    measured: Measured | None = None
    forecast: Forecast | None = None
    obstacle: str = ""


@dataclass(frozen=True)
class Examination:
    """A target, what it does alone, and the draft models that were judged for it, the best first.

    notes: what else a person should know, as which tasks were left out. num_tokens: longest reply of a trial.
    free_bytes: of memory, before anything is loaded.
    """

    facts: Facts
    num_tokens: int
    free_bytes: int
    measured: Measured | None = None
    alone: Forecast | None = None
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Candidate | None:
        """The draft model that makes replies fastest, None where none can draft."""
        return next((candidate for candidate in self.candidates if candidate.forecast), None)


def read_files(target: ModelFile, drafts: Sequence[ModelFile], kv_type: KvType, num_tokens: int) -> Examination:
    """Judge models by their files alone: nothing is loaded but vocabularies.

    Raises ModelError where the target's file cannot be used.
    """
    with _opened_file(target, kv_type) as (facts, vocab):
        candidates = tuple(_read_candidate(vocab, draft, kv_type) for draft in drafts)
    return Examination(facts, num_tokens, free_memory(), candidates=candidates)


def _read_candidate(target: Vocab, draft: ModelFile, kv_type: KvType) -> Candidate:
    try:
        with _opened_file(draft, kv_type) as (facts, vocab):
            found = compare_vocabularies(target, vocab)
            return Candidate(draft.name, facts, found, obstacle=found.obstacle)
    except ModelError as exc:
        return Candidate(draft.name, obstacle=exc.message)


@contextmanager
def _opened_file(model: ModelFile, kv_type: KvType) -> Iterator[tuple[Facts, Vocab]]:
    """Give what a file says, or the first of several parts, and its vocabulary."""
    header, first = check_model(model.path), splits.parts(model.path)[0]
    parts = footprint([header])
    with vocabulary_of(first, model.name, header.chat_template) as vocab:
        yield (
            Facts(
                name=model.name,
                path=model.path,
                architecture=header.architecture,
                quantization=header.quantization,
                file_bytes=splits.total_bytes(model.path),
                trained_context=header.context_length,
                context_token_bytes=sum((*parts.key_numbers, *parts.value_numbers)) * kv_type.number_bytes,
                state_bytes=sum(parts.state_numbers) * STATE_NUMBER_BYTES,
                has_chat_template=bool(header.chat_template),
                chat_template_problem=_template_problem(vocab),
            ),
            vocab,
        )


def _template_problem(vocab: Vocab) -> str:
    try:
        chat_prompt([Message("user", "hello")], vocab)
    except SpeclocalError as exc:
        return exc.message
    return ""


def ranked(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates with the one that makes replies fastest first, and those that cannot draft last."""
    return tuple(sorted(candidates, key=lambda found: -found.forecast.speedup if found.forecast else 0.0))
