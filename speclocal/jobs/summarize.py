"""Summarize a document.

Knows what to ask a model for; reading the document and running the model are done elsewhere.
"""

from __future__ import annotations

from speclocal.text.documents import Document


def summary_prompt(document: Document) -> str:
    """Return the request. The document comes first, so that another question about it finds it already processed."""
    return f"{document.text.strip()}\n\n---\n\nSummarize the text above in one short paragraph. Keep to what it says."
