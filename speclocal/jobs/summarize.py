"""Summarize a text of any length: in one piece where that fits, else part by part.

Knows how a text is divided and in which order it is read. The words are those of requests.py, the places where it is
cut those of text/parts.py.

    text -- too long? --> parts -- one reply on each --> notes, joined -- too long again? --> parts ...
         `- fits: the reply                                            `- fit: the reply
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from speclocal.decoding.types import Finish
from speclocal.errors import ContextError
from speclocal.jobs.generate import ignore, prompt_tokens
from speclocal.jobs.keys import origin_in_any_layout
from speclocal.jobs.notes import Note, keep_note, kept_note
from speclocal.jobs.reply import Reading, Reply, ReplySettings
from speclocal.jobs.requests import Request, with_text
from speclocal.jobs.session import Session
from speclocal.jobs.store import PROMPTS
from speclocal.text.documents import Document
from speclocal.text.parts import split

_NOTE_TOKENS = 256
"""The longest note on a part, where the context is not small."""
_SEAM_TOKENS = 16
"""By how much a text may grow where it meets the request."""


@dataclass(frozen=True)
class Part:
    """A piece of a text that is read at once."""

    text: str
    num_tokens: int


@dataclass(frozen=True)
class Plan:
    """How a text is read. The texts of its parts joined are the text."""

    parts: tuple[Part, ...]
    context_size: int  # the most tokens that a part, the request and the reply may take together

    @property
    def num_tokens(self) -> int:
        return sum(part.num_tokens for part in self.parts)


@dataclass(frozen=True)
class PartProgress:
    """Which part is worked on, from 1, of how many, and about how long all of them still take."""

    number: int
    total: int
    seconds_left: float | None  # None: not known yet


class _Pace:
    """How long parts still take, judged by those that were read since it was made."""

    def __init__(self, num_left: int) -> None:
        self.num_read = 0  # tokens of finished parts
        self.num_left = num_left  # tokens of all others
        self._started = time.perf_counter()

    def seconds_left(self, num_more: float) -> float | None:
        """Return the seconds left when so many tokens of the next part are read; None at the very beginning."""
        num_read = self.num_read + num_more
        seconds = time.perf_counter() - self._started
        return seconds / num_read * (self.num_left - num_more) if num_read else None


def joined(documents: Sequence[Document]) -> str:
    """Return the text of one document, or those of several under their names."""
    if len(documents) == 1:
        return documents[0].text
    return "\n\n".join(f"# {document.name}\n\n{document.text}" for document in documents)


class Summarizer:
    """A session that answers one request about a text, whatever its length."""

    def __init__(
        self,
        session: Session,
        request: Request,
        settings: ReplySettings,
        context_size: int | None = None,
        *,
        raw: bool = False,
    ) -> None:
        """context_size: None takes what the text needs, as far as training and memory allow.

        raw: as in `prompt_tokens`.
        """
        self._session = session
        self._request = request
        self._settings = replace(settings, max_tokens=max(settings.max_tokens, request.num_tokens))
        self._asked = context_size
        self._raw = raw
        self._context_size = context_size or session.largest_context
        self._reply_room = min(self._settings.max_tokens, self._context_size // 4)
        self._note_settings = replace(settings, max_tokens=min(_NOTE_TOKENS, self._context_size // 8), stops=())

    def plan(self, text: str) -> Plan:
        """Return how a text is read. Raises ContextError when the context is too small to read it in parts."""
        whole, most = Part(text, self._count(text)), self._context_size - self._reply_room
        if whole.num_tokens <= most and len(self._prompt(text)) <= most:
            return Plan((whole,), self._context_size)
        parts = split(text, self._part_size(whole.num_tokens), self._count)
        return Plan(tuple(Part(part, self._count(part)) for part in parts), self._context_size)

    def reply(self, plan: Plan, progress: Callable[[PartProgress], object] = ignore) -> Reply:
        """Return the reply to iterate over; where a plan has several parts, after taking notes on each of them.

        Notes are kept on disk: a part that was finished by an earlier run is not read again.
        """
        self._open_context(plan)
        while len(plan.parts) > 1:
            notes = self._take_notes(plan, progress)
            shorter = self.plan("\n\n".join(note.text for note in notes if note.text))
            if len(shorter.parts) >= len(plan.parts):
                raise ContextError(
                    f"the notes on {len(plan.parts)} parts are as long as the parts", "give a larger `--ctx`"
                )
            plan = shorter
        return self._session.reply(self._prompt(plan.parts[0].text), self._settings)

    def _part_size(self, num_tokens: int) -> int:
        """Return the most tokens in a part: at least half the context, so that notes are shorter than parts."""
        num_around = max(len(self._prompt("")), len(self._part_prompt(""))) + _SEAM_TOKENS
        size = self._context_size - num_around - max(self._reply_room, self._note_settings.max_tokens)
        if size < self._context_size // 2:
            enough = min(4 * num_around, num_tokens + num_around + self._settings.max_tokens)
            raise ContextError(
                f"a context of {self._context_size} tokens is too small for this text: the request takes {num_around}",
                f"give a `--ctx` of at least {enough}",
            )
        return size

    def _open_context(self, plan: Plan) -> None:
        """Open a context for all that follows. Processed prompts are kept on disk if all of them have room there."""
        fits_disk = plan.num_tokens * self._session.context_bytes < PROMPTS.limit_bytes
        if len(plan.parts) > 1:
            longest = max(part.num_tokens for part in plan.parts)
            self._session.open_context(longest, self._settings, plan.context_size, [] if fits_disk else None)
        else:
            prompt = self._prompt(plan.parts[0].text)
            self._session.open_context(len(prompt), self._settings, self._asked, prompt if fits_disk else None)

    def _take_notes(self, plan: Plan, progress: Callable[[PartProgress], object]) -> list[Note]:
        """Return a note on every part."""
        notes: list[Note] = []
        pace = _Pace(plan.num_tokens)
        for number, part in enumerate(plan.parts, 1):
            prompt = self._part_prompt(part.text)
            key = self._note_key(prompt)
            note = kept_note(key)
            if note is None:
                reply = self._session.reply(prompt, self._note_settings)
                for event in reply:
                    share = event.done / max(1, event.total) if isinstance(event, Reading) else 1.0
                    progress(PartProgress(number, len(plan.parts), pace.seconds_left(share * part.num_tokens)))
                note = Note(reply.text.strip(), cut=reply.finish_reason in (Finish.LENGTH, Finish.CONTEXT))
                keep_note(key, note)
                pace.num_read += part.num_tokens
            pace.num_left -= part.num_tokens
            notes.append(note)
        if num_cut := sum(note.cut for note in notes):
            limit = self._note_settings.max_tokens
            self._session.notes.append(f"{num_cut} of the notes on {len(notes)} parts are cut off at {limit} tokens")
        return notes

    def _note_key(self, prompt: list[int]) -> Any:
        """Return all that a note depends on; who drafts is no part of it."""
        assert self._session.target is not None
        settings = self._note_settings
        model = origin_in_any_layout(self._session.target.weights)
        return [model, asdict(settings.params), settings.seed, settings.max_tokens, prompt]

    def _prompt(self, text: str) -> list[int]:
        return prompt_tokens(self._session, with_text(text, self._request.about_text()), raw=self._raw)

    def _part_prompt(self, text: str) -> list[int]:
        return prompt_tokens(self._session, with_text(text, self._request.about_part()), raw=self._raw)

    def _count(self, text: str) -> int:
        return len(self._session.vocab.tokenize(text))
