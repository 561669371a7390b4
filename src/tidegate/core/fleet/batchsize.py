"""How many requests an engine runs at once, learned from its own page.

Nobody asks an engine that somebody else started what it was started with. But while requests wait in it for a place in
its batch it runs as many as it can, on page after page the same number. Where they wait for memory, or for the next step
to begin, that number changes from page to page, and nothing is learned. That they wait is believed only where the gateways
have more there than it runs: some engines count as waiting what has long been answered.
"""

from __future__ import annotations

from collections import deque

from tidegate.core.events import EngineReported

PAGES = 20
"""With somebody waiting, before anything is said: a page comes each second."""
SAME = 0.75
"""So many of them have the one number; the rest were read while a place was empty between two requests."""
MEMORY_FULL = 0.9
"""Of the KV cache in use: from here on a request may wait for memory."""


class BatchSize:
    """Of one engine."""

    __slots__ = ("_crowded", "_most", "size")

    def __init__(self) -> None:
        self.size: int | None = None
        """Requests that it runs at once at most; None: not known."""
        self._most = 0
        self._crowded: deque[int] = deque(maxlen=PAGES)

    def __repr__(self) -> str:
        return f"<BatchSize {self.size}>"

    def note(self, page: EngineReported, in_flight: int) -> bool:
        """Take in a page, beside what gateways have there. True when something else is known than before."""
        running, before = page.running or 0, self.size
        if running > self._most:
            self._most, self.size = running, None
            self._crowded.clear()
        is_crowded = 0 < running < in_flight and (page.waiting or 0) > 0
        if is_crowded and (page.kv_usage_ratio is None or page.kv_usage_ratio < MEMORY_FULL):
            self._crowded.append(running)
            if len(self._crowded) == PAGES:
                is_level = self._crowded.count(self._most) >= SAME * PAGES
                self.size = self._most if is_level else None
        return self.size != before
