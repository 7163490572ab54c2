"""Pages of HTML that need nothing else: no script, no font, no picture from elsewhere.

Knows templates and values. Whatever comes from a model, a file or a person is escaped; a policy in every page forbids
requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

import speclocal
from speclocal.jobs.explanation import Explanation
from speclocal.terminal.sheets import Sheet


def explanation_page(found: Explanation, sheets: Sequence[Sheet]) -> str:
    """Return the tour as one page."""
    return render("explain.html", title=f"{found.target.name}: speculative decoding", found=found, sheets=sheets)


def render(template: str, **values: Any) -> str:
    """Return a page made of a template, with its values escaped."""
    pages = Environment(
        loader=PackageLoader("speclocal.terminal"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    pages.filters["prose"] = _prose
    return pages.get_template(template).render(version=speclocal.__version__, **values)


def _prose(text: str) -> Markup:
    """Return a text as HTML, with what stands between backticks as code."""
    pieces = text.split("`")
    return Markup("").join(Markup("<code>{}</code>").format(p) if i % 2 else escape(p) for i, p in enumerate(pieces))
