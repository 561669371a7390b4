"""Requests whose turn has come while no replica that has their adapter had room: they hold up nobody else."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.dispatch.flows import Flow
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.types import FlowId, RequestId


class Aside:
    """Of one queue, in the order of their turns."""

    __slots__ = ("_entries", "_sent")

    def __init__(self) -> None:
        self._entries: dict[RequestId, Entry] = {}
        self._sent: set[RequestId] = set()
        """Of these, those that had been sent before they came here."""

    def __repr__(self) -> str:
        return f"<Aside {len(self)}>"

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, entry: Entry) -> bool:
        return entry.request_id in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def add(self, entry: Entry, *, was_sent: bool) -> None:
        """The entry waits here from now on."""
        self._entries[entry.request_id] = entry
        if was_sent:
            self._sent.add(entry.request_id)

    def pop(self, entry: Entry) -> bool | None:
        """Take the entry out: whether it had been sent when it came; None when it is not here.

        What it is by now does not tell: whoever is sent from here has one attempt more already.
        """
        if self._entries.pop(entry.request_id, None) is None:
            return None
        was_sent = entry.request_id in self._sent
        self._sent.discard(entry.request_id)
        return was_sent

    def weaker(self, entry: Entry, own: Flow) -> list[Entry]:
        """Who has a weaker claim to a place here than a newcomer, whose tenant's line is ``own``: whoever is of a lower
        class, or of a tenant of the same one that holds more here than the newcomer's does. The weakest first."""
        priority, theirs = entry.arrived.priority, dict[FlowId, float]()
        first = [one for one in self if one.request_id not in self._sent and one.arrived.priority <= priority]
        for one in first:
            if one.arrived.priority == priority:
                flow_id = one.arrived.flow
                theirs[flow_id] = theirs.get(flow_id, 0.0) + one.tokens / one.arrived.weight
        mine = theirs.get(own.flow_id, 0.0) + (own.tokens + entry.tokens) / entry.arrived.weight
        found = [one for one in first if one.arrived.priority < priority or theirs[one.arrived.flow] > mine]
        return sorted(found, key=lambda one: (one.arrived.priority, -one.number))

    def in_order(self) -> Iterator[Entry]:
        """Who is next. Of each adapter's, only as many as are taken, and one more."""
        full: set[str | None] = set()
        for entry in list(self):
            if entry.arrived.adapter in full:
                continue
            yield entry
            if entry in self:
                full.add(entry.arrived.adapter)
