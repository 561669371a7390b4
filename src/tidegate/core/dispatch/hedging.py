"""A second attempt for a request whose first token is overdue, before anything has been passed on.

Only where the model allows it, only for streams (an answer in one piece has no first token), only while
another replica has a free slot and nobody waits for it, and only within a share of the traffic.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tidegate.core.dispatch.budget import Arrivals, Budget
from tidegate.core.dispatch.choosing import choose_other
from tidegate.core.dispatch.floor import DispatchEffect, Floor
from tidegate.core.dispatch.ledger import Entry, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.ramp import PROMPT_BASE_TOKENS
from tidegate.core.effects import Hedge, Send
from tidegate.core.types import RequestId

OVERDUE_RATIO = 3.0
"""Of the usual time to first token for a prompt of this length."""
FLOOR = 1.0
"""Hedges within half a minute in any case."""


class Hedging:
    """Keeps an eye on requests without a first token."""

    def __init__(self, floor: Floor, arrivals: Arrivals) -> None:
        self._floor = floor
        self._budget = Budget(arrivals, FLOOR)
        self._watched: list[tuple[float, int, RequestId]] = []
        """A heap: when each is overdue. Who has its answer by then is passed over."""

    def watch(self, effects: Sequence[DispatchEffect], now_s: float) -> list[DispatchEffect]:
        """Of these orders, keep an eye on the requests that are sent for the first time."""
        floor = self._floor
        first = [effect.request_id for effect in effects if isinstance(effect, Send) and effect.attempt == 1]
        found: list[DispatchEffect] = []
        for entry in filter(None, map(floor.ledger.find, first)):
            line = floor.lines.get(entry.model)
            if line is not None and line.config.hedge_ratio and entry.arrived.streams:
                found += self._watch(entry, line, now_s)
        return found

    def _watch(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        usual_s = line.waits.pace.at(0.5)
        after_s = line.config.hedge_after_s
        if usual_s is not None:
            tokens = entry.arrived.prompt_tokens + PROMPT_BASE_TOKENS
            after_s = max(after_s, OVERDUE_RATIO * usual_s * tokens)
        heapq.heappush(self._watched, (now_s + after_s, entry.number, entry.request_id))
        return self._floor.wake_by(now_s + after_s)

    def look(self, now_s: float) -> list[DispatchEffect]:
        """Send those that are overdue to a second replica, where one is free."""
        effects: list[DispatchEffect] = []
        watched = self._watched
        while watched:
            due_s, _, request_id = watched[0]
            entry = self._floor.ledger.find(request_id)
            if entry is not None and entry.phase is Phase.SENT and entry.attempts == 1:
                if due_s > now_s:
                    return effects + self._floor.wake_by(due_s)
                effects += self._hedge(entry, now_s)
            heapq.heappop(watched)
        return effects

    def _hedge(self, entry: Entry, now_s: float) -> list[DispatchEffect]:
        line = self._floor.lines.get(entry.model)
        first_id = entry.replica_id
        if line is None or first_id is None or len(line.queue) or self._floor.stop_deadline_s is not None:
            return []
        seat = choose_other(line, entry, first_id, now_s)
        if seat is None or not self._budget.take(now_s, line.config.hedge_ratio):
            return []
        line.take(entry, seat, now_s)
        entry.hedge_id = seat.replica_id
        entry.attempts += 1
        return [Hedge(entry.request_id, seat.replica_id, entry.attempts)]
