"""Keeping tokens and passwords off the screen, whatever says them: an error of a library, a traceback, an address.

Knows what they look like and which the environment holds, not who uses them.
"""

import os
import re

_HIDDEN = "***"
_SHORTEST = 8  # characters; what is shorter is no token, and stands in words
_NAMES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_LOOKS = re.compile(r"\bhf_[A-Za-z0-9]{16,}|(?<=[Bb]earer )[^\s'\"]+|(?<=://)[^/\s@'\"]+(?=@)")


def redacted(text: str) -> str:
    """Return `text` with every token, and every name and password inside an address, replaced by stars."""
    for name in _NAMES:
        if len(token := os.environ.get(name, "").strip()) >= _SHORTEST:
            text = text.replace(token, _HIDDEN)
    return _LOOKS.sub(_HIDDEN, text)
