"""The live feed: one reading of the fleet a second, told to every page that watches.

The feed reads the fleet itself, whether or not anybody watches, so that the history has no holes. Each
watcher has a short queue of its own. One that reads too slowly is cut off: its page reconnects and is
given everything anew, which is cheaper than remembering what it missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tidegate.dashboard.history import History
from tidegate.dashboard.page import DecisionPage, FleetPage

log = logging.getLogger("tidegate.dashboard")

WATCHERS_MAX = 16
BACKLOG_MAX = 8
"""Frames a watcher may be behind: about eight seconds."""
PERIOD_S = 1.0
DECISIONS_EVERY_S = 0.2
DECISIONS_SHOWN = 50


def frame(event: str, value: Any) -> bytes:
    """One server-sent event. JSON has no raw line break, so one ``data`` line always suffices."""
    return b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(value))


class Watcher:
    """One open feed connection. ``cut`` closes it at once, whatever is still unsent."""

    def __init__(self, opening: bytes, cut: Callable[[], None]) -> None:
        self.cut = cut
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue(BACKLOG_MAX)
        self._frames.put_nowait(opening)

    def tell(self, told: bytes) -> bool:
        """Queue a frame; False when the watcher is too far behind."""
        try:
            self._frames.put_nowait(told)
        except asyncio.QueueFull:
            return False
        return True

    def end(self) -> None:
        """Nothing follows."""
        while not self._frames.empty():
            self._frames.get_nowait()
        self._frames.put_nowait(None)

    async def next(self) -> bytes | None:
        """The next frame; None at the end."""
        return await self._frames.get()


class Feed:
    """Owns the history, the watchers and the one task that reads the fleet."""

    def __init__(self, fleet: Callable[[], FleetPage], recent: Callable[[], Sequence[DecisionPage]]) -> None:
        self._fleet = fleet
        self._recent = recent
        self._history = History()
        self._watchers: set[Watcher] = set()
        self._told: frozenset[tuple[float, str, int, int]] = frozenset()

    def __repr__(self) -> str:
        return f"<Feed {len(self._watchers)} of {WATCHERS_MAX} watchers>"

    @property
    def watchers(self) -> int:
        """How many watch now."""
        return len(self._watchers)

    async def run(self) -> None:
        """Read and tell until cancelled."""
        loop = asyncio.get_running_loop()
        fleet_due_s = loop.time()
        while True:
            self._guarded(self._tell_decisions)
            if loop.time() >= fleet_due_s:
                self._guarded(self._tell_fleet)
                # From the moment that was due, not from now: a busy second must not shift all later ones.
                fleet_due_s = max(fleet_due_s + PERIOD_S, loop.time())
            await asyncio.sleep(DECISIONS_EVERY_S)

    def join(self, cut: Callable[[], None]) -> Watcher | None:
        """A new watcher, whose first frame is everything known; None when there are too many."""
        if len(self._watchers) >= WATCHERS_MAX:
            return None
        decisions = self._tell_decisions()
        opening = {"points": self._history.all(), "decisions": decisions[-DECISIONS_SHOWN:]}
        first = b"retry: 1000\n" + frame("opening", opening) + frame("fleet", self._fleet())
        watcher = Watcher(first, cut)
        self._watchers.add(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Forget a watcher; again is no harm."""
        self._watchers.discard(watcher)

    def close(self) -> None:
        """End every connection."""
        for watcher in self._watchers:
            watcher.end()
        self._watchers.clear()

    def _tell_decisions(self) -> Sequence[DecisionPage]:
        """Tell the watchers what is new; returns all that are remembered, oldest first."""
        decisions = self._recent()
        fresh = [decision for decision in decisions if decision.key not in self._told]
        self._told = frozenset(decision.key for decision in decisions)
        if fresh:
            self._tell(b"".join(frame("decision", decision) for decision in fresh))
        return decisions

    def _tell_fleet(self) -> None:
        page = self._fleet()
        self._history.add(page)
        if self._watchers:
            self._tell(frame("points", self._history.newest()) + frame("fleet", page))

    def _tell(self, told: bytes) -> None:
        for watcher in [watcher for watcher in self._watchers if not watcher.tell(told)]:
            self.leave(watcher)
            watcher.cut()

    def _guarded(self, step: Callable[[], object]) -> None:
        # A page that cannot be read once is a gap in a picture; the feed must be there when it can be again.
        try:
            step()
        except Exception:
            log.exception("the fleet could not be read for the live page")
