"""What time does to requests: deadlines, waits that are long enough, first tokens that are overdue, the gateway's own end."""

from __future__ import annotations

from math import inf

from tidegate.core.dispatch import spilling
from tidegate.core.dispatch.filling import fill, refuse_adapters
from tidegate.core.dispatch.floor import DispatchEffect, Floor
from tidegate.core.dispatch.hedging import Hedging
from tidegate.core.dispatch.ledger import Entry, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.events import Failure, Tick
from tidegate.core.outcomes import Outcome

KEPT_S = 1.0
"""Between two looks at who would be spilt but for a bound."""


class Patience:
    """Owns no requests: it ends them on the floor, or passes them on."""

    def __init__(self, floor: Floor, hedging: Hedging) -> None:
        self._floor = floor
        self._hedging = hedging

    def tick(self, event: Tick, now_s: float) -> list[DispatchEffect]:
        """Time has passed: whoever has none left ends, and whoever may go now goes."""
        floor = self._floor
        if floor.wake_s is not None and floor.wake_s <= now_s:
            floor.wake_s = None
        effects: list[DispatchEffect] = []
        stopping = floor.stop_deadline_s is not None and floor.stop_deadline_s <= now_s
        for entry in floor.ledger if stopping else floor.ledger.overdue(now_s):
            effects += self._run_out(entry, now_s, stopping=stopping)
        effects += self._hedging.look(now_s)
        for line in floor.lines.values():
            if len(line.queue):
                effects += self._tend(line, now_s)
        look_s = floor.ledger.next_look_s(now_s)
        return effects if look_s is None else effects + floor.wake_by(look_s)

    def _tend(self, line: Line, now_s: float) -> list[DispatchEffect]:
        """A line that somebody waits in: end those who have waited too long, seat who can be."""
        floor = self._floor
        effects = refuse_adapters(floor, line, now_s)
        while (oldest := line.queue.oldest()) is not None and line.expires_s(oldest) <= now_s:
            effects += floor.expire(oldest, line, now_s)
        effects += fill(floor, line, now_s)
        effects += self._spill_waiting(line, now_s)
        moments: list[float | None] = [line.next_change_s(now_s)]
        oldest = line.queue.oldest()
        if oldest is not None:
            moments.append(line.expires_s(oldest))
        for moment in moments:
            if moment is not None and now_s < moment < inf:
                effects += floor.wake_by(moment)
        return effects

    def _spill_waiting(self, line: Line, now_s: float) -> list[DispatchEffect]:
        """Pass on who has waited for longer than the policy lets it, though that was not foreseen. Whom a bound keeps is
        looked at again soon: nothing that happens here need say when it gives."""
        bounds = line.config.spill
        if bounds is None or bounds.max_wait_s is None:
            return []
        effects: list[DispatchEffect] = []
        outcome = Outcome.EXPIRED_QUEUED if line.anybody_serves() else Outcome.EXPIRED_NOBODY
        again_s = inf
        for entry in line.queue.in_order():
            due_s = spilling.due_s(line, entry)
            if due_s > now_s:
                again_s = min(again_s, due_s)
                continue
            if line.spills.obstacle(bounds, 0.0, now_s) is not None:
                again_s = min(again_s, now_s + KEPT_S)
                break
            because = f"no replica was free for {now_s - entry.queued_s:.1f} s"
            spilt = self._floor.spill(entry, outcome, because, now_s)
            if spilt is None:
                again_s = min(again_s, now_s + KEPT_S)
            effects += spilt or []
        return effects if again_s == inf else effects + self._floor.wake_by(again_s)

    def _run_out(self, entry: Entry, now_s: float, *, stopping: bool) -> list[DispatchEffect]:
        """End an entry whose time is over: its own deadline, or the gateway's."""
        floor = self._floor
        line = floor.lines.get(entry.model)
        if not stopping and entry.phase is Phase.QUEUED and line is not None:
            return floor.expire(entry, line, now_s)
        effects = floor.cancel(entry)
        if not stopping:
            self._blame(entry, line, now_s)
        if stopping and entry.first_byte_s is not None:
            why, outcome = "the gateway stopped before the answer was complete", Outcome.CUT_STOPPING
        elif stopping:
            why, outcome = "the gateway stopped before an answer came", Outcome.REJECTED_STOPPING
        else:
            waited_s = now_s - entry.arrived_s
            why, outcome = f"the answer was not complete within {waited_s:.1f} s", Outcome.EXPIRED_RUNNING
        return effects + floor.turn_away(entry, outcome, why, now_s, 1.0 if stopping else None)

    def _blame(self, entry: Entry, line: Line | None, now_s: float) -> None:
        """An answer that did not begin in time counts against a replica that was silent all the while."""
        seat = None if entry.replica_id is None else self._floor.seats.get(entry.replica_id)
        if seat is None or entry.sent_s is None or entry.first_byte_s is not None:
            return
        if seat.was_silent_since(entry.sent_s, now_s):
            is_alone = line is None or line.is_alone(seat)
            seat.failed(Failure.SILENT, now_s, has_begun=False, is_alone=is_alone)
