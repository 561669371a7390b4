"""How fast bytes may come: without a limit for a start that waits for them, slowly for one to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pace:
    """Shared by all connections of a download. The limit may change at any time."""

    def __init__(self, bytes_per_s: float | None, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._free_at_s = 0.0
        self._changed = asyncio.Event()
        self._bytes_per_s = bytes_per_s

    def __repr__(self) -> str:
        return f"<Pace {self._bytes_per_s}>"

    @property
    def bytes_per_s(self) -> float | None:
        """The limit; None when there is none."""
        return self._bytes_per_s

    def change(self, bytes_per_s: float | None) -> None:
        """From now on. Whoever waits under the old limit waits no longer."""
        self._bytes_per_s = bytes_per_s
        self._free_at_s = 0.0
        self._changed.set()
        self._changed = asyncio.Event()

    async def spend(self, count: int) -> None:
        """These many have come; returns when more may be read."""
        limit = self._bytes_per_s
        if limit is None:
            return
        self._free_at_s = max(self._free_at_s, self._now_s()) + count / limit
        wait_s = self._free_at_s - self._now_s()
        changed = self._changed
        if wait_s > 0:
            try:
                async with asyncio.timeout(wait_s):
                    await changed.wait()
            except TimeoutError:
                return
