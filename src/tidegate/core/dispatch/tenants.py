"""Which tenants and classes use a model at the moment, and which tenants use little of it.

Where several do, a loud one may not take the last free slots: they are for whoever has less than half of
an equal share in flight. So a quiet tenant need not wait until one of the loud one's answers ends.
"""

from __future__ import annotations

from tidegate.core.types import FlowId

RECENT_S = 60.0
"""A tenant counts for so long after it was last heard of."""
LOOK_EVERY_S = 1.0
LIGHT_RATIO = 0.5
"""Of an equal share."""


class Tenants:
    """Counts by tenant; who has nothing in flight and has not come for a minute is forgotten."""

    __slots__ = ("_classes_s", "_in_flight", "_looked_s", "_seen_s", "count", "is_contested")

    def __init__(self) -> None:
        self.count = 0
        """Tenants heard of within a minute, as of the last look."""
        self.is_contested = False
        """More than one tenant or priority class was heard of within a minute, as of the last look."""
        self._seen_s: dict[FlowId, float] = {}
        self._classes_s: dict[int, float] = {}
        self._in_flight: dict[FlowId, int] = {}
        self._looked_s = 0.0

    def __repr__(self) -> str:
        return f"<Tenants {self.count}>"

    def came(self, flow: FlowId, priority: int, now_s: float) -> None:
        """A request of this tenant and class arrived."""
        self._seen_s[flow] = now_s
        self._classes_s[priority] = now_s
        if now_s >= self._looked_s + LOOK_EVERY_S:
            self._looked_s, since_s = now_s, now_s - RECENT_S
            self._seen_s = {one: at_s for one, at_s in self._seen_s.items() if at_s > since_s}
            self._classes_s = {one: at_s for one, at_s in self._classes_s.items() if at_s > since_s}
            self.count = len(self._seen_s)
            self.is_contested = self.count > 1 or len(self._classes_s) > 1

    def taken(self, flow: FlowId) -> None:
        """One of its requests got a slot."""
        self._in_flight[flow] = self._in_flight.get(flow, 0) + 1

    def given_back(self, flow: FlowId) -> None:
        """One of its requests gave a slot back."""
        left = self._in_flight[flow] - 1
        if left:
            self._in_flight[flow] = left
        else:
            del self._in_flight[flow]

    def is_light(self, flow: FlowId, slots: int) -> bool:
        """It has less than half of an equal share of so many slots."""
        return self._in_flight.get(flow, 0) < LIGHT_RATIO * slots / max(1, self.count)
