"""Token pieces become text as it grows, up to a stop string.

Knows bytes and text, not tokens or models.
"""

import codecs
from collections.abc import Sequence

from speclocal.errors import UsageError


class TextStream:
    """The text of a reply, in parts that are final: characters are whole and no part belongs to a stop string.

    The stop that ends first in the text ends it; of several that end there, the longest. What comes before it
    is kept, itself and the rest are not. Invalid bytes, and a character cut off by the end, become U+FFFD.

        stream = TextStream(stops=["\\n\\n"])
        stream.push(b"caf\\xc3")     # "caf": the last character is not whole yet
        stream.push(b"\\xa9\\n")      # "é": the newline may begin the stop
        stream.push(b"\\nmore")      # "": it did, and stream.stopped is "\\n\\n"
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        if "" in stops:
            raise UsageError("a stop string is empty", "leave out --stop, or give it the text to stop at")
        self.stopped: str | None = None
        self._stops = tuple(stops)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""  # the longest end of the text that could begin a stop
        self._parts: list[str] = []

    @property
    def text(self) -> str:
        """All text returned so far."""
        return "".join(self._parts)

    def push(self, piece: bytes) -> str:
        """Take the bytes of a token and return the text that became final."""
        return self._advance(self._decoder.decode(piece), final=False)

    def finish(self) -> str:
        """Return what was held back, now that nothing can follow."""
        return self._advance(self._decoder.decode(b"", final=True), final=True)

    def _advance(self, new: str, final: bool) -> str:
        if self.stopped is not None:
            return ""
        pending = self._held + new
        ends = [(pending.find(stop) + len(stop), -len(stop), stop) for stop in self._stops if stop in pending]
        if ends:
            end, _, self.stopped = min(ends)
            size = end - len(self.stopped)
        else:
            size = len(pending) - (0 if final else self._possible_start(pending))
        self._held = pending[size:]
        self._parts.append(pending[:size])
        return pending[:size]

    def _possible_start(self, text: str) -> int:
        """Return the length of the longest end of the text that begins a stop without completing it."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        sizes = range(min(longest, len(text)), 0, -1)
        return next((n for n in sizes if any(stop.startswith(text[-n:]) for stop in self._stops)), 0)
