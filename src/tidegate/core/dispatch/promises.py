"""Who was turned away with a time to come back, and the places that are kept for them.

A ``Retry-After`` is only true when there is room at that moment. So refusals are told moments one after
the other, as far apart as the queue can take them on, and when a moment has come a place is kept for
whoever was told it. A request is known again by what it had in common with itself the first time: its
tenant and its size, and a mark of its content when the gateway gives one.

Kept places bind only other requests of the same tenant: a tenant that is refused a thousand times holds
nothing against the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import replace
from math import inf

from tidegate.core.dispatch.held import NOTHING, Held
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.types import FlowId

Mark = tuple[int, int, int]

AHEAD_S = 1.0
"""Places are kept for those whose moment comes within this."""
GRACE_S = 5.0
"""And for this long after it."""
EARLY_S = 0.5
"""Nobody is refused for being this much early: clients round."""
MADE_MAX = 8_192
"""Of one tenant. Beyond that moments are told all the same, and no places are kept for them."""
MADE_MAX_OF_ALL = 65_536
"""Of all tenants, each an equal part of it: some 30 MB."""
SWEPT_FROM = 256
"""Tenants from which on those are looked for that never came back."""


def mark(entry: Entry) -> Mark:
    """What a request has in common with itself when it comes again."""
    arrived = entry.arrived
    return arrived.again or 0, arrived.body_bytes, arrived.prompt_tokens


class Told:
    """The promises made to one tenant, by moment."""

    __slots__ = ("by_mark", "due_s", "last_s", "ripe", "sizes")

    def __init__(self) -> None:
        self.due_s: list[float] = []
        self.sizes: list[tuple[Mark, int, int]] = []
        self.by_mark: dict[Mark, deque[float]] = {}
        self.last_s = -inf
        self.ripe = Held()
        """Of them, those whose moment comes about now. They are the first."""

    def ripen(self, now_s: float) -> None:
        """Forget the moments that have passed, and count those that come."""
        gone = bisect_right(self.due_s, now_s - GRACE_S)
        for number in range(gone):
            self._drop(number)
        del self.due_s[:gone]
        del self.sizes[:gone]
        ripe, due_s = self.ripe, self.due_s
        while ripe.requests < len(due_s) and due_s[ripe.requests] <= now_s + AHEAD_S:
            _, tokens, size = self.sizes[ripe.requests]
            ripe.requests, ripe.tokens, ripe.bytes = (
                ripe.requests + 1,
                ripe.tokens + tokens,
                ripe.bytes + size,
            )

    def remove(self, entry_mark: Mark, due_s: float) -> None:
        """One that was told this moment has come."""
        at = bisect_right(self.due_s, due_s) - 1
        while self.sizes[at][0] != entry_mark:
            at -= 1
        is_ripe = at < self.ripe.requests
        self._drop(at, is_ripe=is_ripe)
        del self.due_s[at]
        del self.sizes[at]

    def _drop(self, at: int, *, is_ripe: bool = True) -> None:
        """Out of all books but the two lists."""
        entry_mark, tokens, size = self.sizes[at]
        moments = self.by_mark[entry_mark]
        moments.remove(self.due_s[at])
        if not moments:
            del self.by_mark[entry_mark]
        if is_ripe and self.ripe.requests:
            ripe = self.ripe
            ripe.requests, ripe.tokens, ripe.bytes = (
                ripe.requests - 1,
                ripe.tokens - tokens,
                ripe.bytes - size,
            )


class Promises:
    """All promises of one model's line."""

    __slots__ = ("_swept_at", "told")

    def __init__(self) -> None:
        self.told: dict[FlowId, Told] = {}
        """By tenant; empty when nobody was told anything of late."""
        self._swept_at = SWEPT_FROM

    def __len__(self) -> int:
        return sum(len(told.due_s) for told in self.told.values())

    def __repr__(self) -> str:
        return f"<Promises {len(self)}>"

    def make(
        self, entry: Entry, now_s: float, after_s: float, apart_s: float, longest_s: float = inf
    ) -> float:
        """Tell a moment: not before ``after_s`` from now, and ``apart_s`` after the one told last.

        Returns the seconds until then, ``longest_s`` at most.
        """
        told = self.told.get(entry.arrived.flow)
        if told is None:
            if len(self.told) >= self._swept_at:
                self._sweep(now_s)
            told = self.told[entry.arrived.flow] = Told()
        due_s = max(now_s + after_s, told.last_s + apart_s)
        if due_s > now_s + longest_s:
            return longest_s  # Nothing is promised for so late.
        told.last_s = due_s
        if len(told.due_s) < min(MADE_MAX, MADE_MAX_OF_ALL // len(self.told)):
            entry_mark = mark(entry)
            told.due_s.append(due_s)
            told.sizes.append((entry_mark, entry.tokens, entry.arrived.body_bytes))
            told.by_mark.setdefault(entry_mark, deque()).append(due_s)
        return due_s - now_s

    def redeem(self, entry: Entry, now_s: float, *, at_any_time: bool = False) -> bool:
        """True when this is someone who was told to come about now; the place is no longer kept."""
        told = self.told.get(entry.arrived.flow)
        if told is None:
            return False
        self._forget(entry.arrived.flow, told, now_s)
        moments = told.by_mark.get(mark(entry))
        if moments is None or (moments[0] > now_s + EARLY_S and not at_any_time):
            return False
        told.remove(mark(entry), moments[0])
        return True

    def expects(self, entry: Entry, now_s: float) -> bool:
        """Whether this is someone who was told to come about now. Only a look."""
        told = self.told.get(entry.arrived.flow)
        moments = None if told is None else told.by_mark.get(mark(entry))
        return moments is not None and moments[0] <= now_s + EARLY_S

    def kept(self, entry: Entry, now_s: float) -> Held:
        """What is kept for others of this tenant."""
        told = self.told.get(entry.arrived.flow)
        if told is None:
            return NOTHING
        self._forget(entry.arrived.flow, told, now_s)
        return replace(told.ripe) if told.ripe.requests else NOTHING

    def _forget(self, flow_id: FlowId, told: Told, now_s: float) -> None:
        told.ripen(now_s)
        if not told.due_s and told.last_s < now_s:
            del self.told[flow_id]

    def _sweep(self, now_s: float) -> None:
        """Forget tenants that were told something and never came back."""
        for flow_id, told in list(self.told.items()):
            self._forget(flow_id, told, now_s)
        self._swept_at = max(SWEPT_FROM, 2 * len(self.told))
