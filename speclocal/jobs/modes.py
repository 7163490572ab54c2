"""The drafting modes by name.

Knows words only, so that the command line can offer them without loading anything.
"""

from enum import StrEnum

MAX_DRAFT_TOKENS = 64


class Mode(StrEnum):
    """Who drafts."""

    AUTO = "auto"
    OFF = "off"
    LOOKUP = "lookup"
    DRAFT = "draft"
