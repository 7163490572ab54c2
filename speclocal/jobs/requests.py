"""What a model is asked for: a summary of a text or an answer from it, and notes on its parts.

Knows words. The text comes first and the request last, so that another request finds the text already processed.
"""

from __future__ import annotations

from dataclasses import dataclass

from speclocal.jobs.modes import Style

USUAL_REPEAT_PENALTY = 1.1
"""Small models easily fall into repeating a sentence of a long text."""
_FORMS = {
    Style.PARAGRAPH: ("in one short paragraph", "in one paragraph of about {} words"),
    Style.BULLETS: ("as a short list of bullet points", "as a list of bullet points, about {} words in all"),
    Style.TLDR: ("in one sentence", "in one or two sentences, at most {} words"),
}
_TOKENS_PER_WORD = 3  # of languages that need many


@dataclass(frozen=True)
class Request:
    """What a person wants to know of a text, and in which form. Without a question: what it says."""

    style: Style = Style.PARAGRAPH
    num_words: int | None = None
    question: str = ""
    language: str = ""

    @property
    def num_tokens(self) -> int:
        """Room for a reply of the wanted length; 0 where none is given."""
        return _TOKENS_PER_WORD * (self.num_words or 0)

    def about_text(self) -> str:
        """Return the request over a whole text, or over the notes on its parts."""
        if self.question:
            return self._worded(
                f"Answer this question about the text above {self._form}: {self.question}\nKeep to what the text says."
            )
        return self._worded(f"Summarize the text above {self._form}. Keep to what it says.")

    def about_part(self) -> str:
        """Return the request over a part of a text, for notes of which the reply will be made."""
        if self.question:
            return self._worded(f"Note in one paragraph what the text above says about this question: {self.question}")
        return self._worded("Summarize the text above in one paragraph. Keep its names, numbers and results.")

    @property
    def _form(self) -> str:
        short, counted = _FORMS[self.style]
        return counted.format(self.num_words) if self.num_words else short

    def _worded(self, request: str) -> str:
        return f"{request} Write in {self.language}." if self.language else request


def with_text(text: str, request: str) -> str:
    """Return a prompt: a text and what is asked about it."""
    return f"{text.strip()}\n\n---\n\n{request}"
