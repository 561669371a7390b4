"""All requests, lines and seats of one gateway, and the few moves that keep them in step.

Each move leaves every book right: a request is in the ledger, and either in one line or at a replica (or
two, while it is hedged). The rules that decide which move to make are in ``dispatcher`` and ``attempts``.
"""

from __future__ import annotations

from tidegate.core.dispatch import admission, outlook, spilling
from tidegate.core.dispatch.held import Held
from tidegate.core.dispatch.ledger import Entry, Ledger, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.routing.cost import Choice
from tidegate.core.dispatch.routing.registry import Shared
from tidegate.core.dispatch.seats import Seat
from tidegate.core.dispatch.spillbook import SpillBook
from tidegate.core.dispatch.versions import Versions
from tidegate.core.effects import (
    CancelUpstream,
    Hedge,
    Record,
    Reject,
    Report,
    Resume,
    RolledBack,
    Send,
    Spill,
    WakeAt,
)
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import ALL_QUEUES, QueueLimits
from tidegate.core.types import DemandReport, ModelId, ReplicaId, ReplicaLoad, RequestId

DispatchEffect = (
    Send | Hedge | Resume | Spill | Reject | CancelUpstream | Report | Record | RolledBack | WakeAt
)


class Floor:
    """The dispatcher's books."""

    def __init__(self, gateway: str, shared: Shared) -> None:
        self.shared = shared
        """What the routers of all models share."""
        self.ledger = Ledger()
        self.lines: dict[ModelId, Line] = {}
        self.spills: dict[ModelId, SpillBook] = {}
        """Kept when a model goes: what was spent in the hour stays spent when it comes back."""
        self.seats: dict[ReplicaId, Seat] = {}
        self.queues: QueueLimits = ALL_QUEUES
        self.versions = Versions()
        self.waiting = Held()
        """Over all lines."""
        self.route_version = 0
        self.stop_deadline_s: float | None = None
        self.wake_s: float | None = None
        self.asked_about: RequestId | None = None
        """Somebody wants to know where this request is sent, and why; None when nobody asks."""
        self.choices: list[Choice] = []
        self._gateway = gateway

    def __repr__(self) -> str:
        return f"<Floor {self.ledger!r} models={len(self.lines)} routes=v{self.route_version}>"

    # ---- lines ----

    def queue(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        """The entry waits in its line."""
        entry.phase = Phase.QUEUED
        entry.queued_s = now_s
        line.queue.join(entry)
        line.note_load()
        effects = self.wake_for(entry, line)
        change_s = line.next_change_s(now_s)
        return effects if change_s is None else effects + self.wake_by(change_s)

    def take_back(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        """The entry leaves its replica before it has a token, and waits for its next turn."""
        replica_id = entry.replica_id
        assert replica_id is not None
        self.leave(entry, replica_id, now_s)
        line.waits.turnover.taken_back()
        entry.yields += 1
        entry.gave_way_id = replica_id
        return [CancelUpstream(entry.request_id, replica_id), *self.queue(entry, line, now_s)]

    def expire(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        """The entry has waited for too long."""
        waited_s = now_s - entry.arrived_s
        if entry.resumes:
            because = f"no other replica could take the answer up within {now_s - entry.queued_s:.1f} s"
            return self.turn_away(entry, Outcome.FAILED_MIDSTREAM, because, now_s)
        if line.anybody_serves() and not line.anybody_has(entry.arrived.adapter):
            because = f"no replica had loaded the adapter {entry.arrived.adapter!r} within {waited_s:.1f} s"
            return self.turn_away(entry, Outcome.EXPIRED_NOBODY, because, now_s, admission.RETRY_AFTER_MIN_S)
        if line.anybody_serves():
            because = f"every replica was busy for {waited_s:.1f} s"
            wait_s = admission.clamp_retry_after(outlook.clears_s(line, now_s))
            return self.turn_away(entry, Outcome.EXPIRED_QUEUED, because, now_s, wait_s)
        because = f"no replica came to serve within {waited_s:.1f} s"
        wait_s = admission.retry_after_nobody(line.expected_ready_s(), now_s)
        return self.turn_away(entry, Outcome.EXPIRED_NOBODY, because, now_s, wait_s)

    def nobody(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        """Nobody can serve the entry's model, for the reason that the table gives."""
        told = line.route
        why = (told.because if told else None) or "no replica is running"
        because = f"nobody can serve {line.model!r}: {why}"
        if entry.resumes:
            return self.turn_away(entry, Outcome.FAILED_MIDSTREAM, because, now_s)
        wait_s = admission.retry_after_nobody(line.expected_ready_s(), now_s)
        return self.turn_away(entry, Outcome.REJECTED_NOBODY, because, now_s, wait_s)

    # ---- seats ----

    def seat(self, entry: Entry, line: Line, seat: Seat, now_s: float) -> Send | Resume:
        """The entry goes to this replica."""
        line.take(entry, seat, now_s)
        entry.phase = Phase.SENT
        entry.replica_id = seat.replica_id
        entry.sent_s = now_s
        entry.attempts += 1
        if entry.resumes:
            return Resume(entry.request_id, seat.replica_id, entry.attempts, entry.resumed_tokens)
        return Send(entry.request_id, seat.replica_id, entry.attempts)

    def leave(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> Seat | None:
        """The entry gives up its slot there; None when the replica is no longer in the table.

        Of two replicas that work on it the other is then the one that does.
        """
        if entry.replica_id == replica_id:
            entry.replica_id, entry.hedge_id = entry.hedge_id or replica_id, None
        elif entry.hedge_id == replica_id:
            entry.hedge_id = None
        seat = self.seats.get(replica_id)
        if seat is not None and seat.give_back(entry):
            line = self.lines.get(entry.model)
            if line is not None:
                line.given_back(entry, replica_id, now_s)
        return seat

    def cancel(self, entry: Entry) -> list[DispatchEffect]:
        """Nobody waits for what replicas do for this entry. Their slots stay taken until it is closed."""
        if entry.phase is Phase.QUEUED or entry.replica_id is None:
            return []
        effects: list[DispatchEffect] = [CancelUpstream(entry.request_id, entry.replica_id)]
        if entry.hedge_id is not None:
            effects.append(CancelUpstream(entry.request_id, entry.hedge_id))
        return effects

    # ---- endings ----

    def turn_away(
        self, entry: Entry, outcome: Outcome, because: str, now_s: float, retry_after_s: float | None = None
    ) -> list[DispatchEffect]:
        """End the entry with an error, unless it may be spilt instead."""
        spilt = self.spill(entry, outcome, because, now_s, retry_after_s)
        if spilt is not None:
            return spilt
        line = self.lines.get(entry.model)
        if line is not None:
            spilling.note_refused(line, entry, outcome, now_s)
        order = Reject(entry.request_id, outcome, because, retry_after_s)
        return [order, self.close(entry, outcome, now_s)]

    def spill(
        self, entry: Entry, outcome: Outcome, because: str, now_s: float, retry_after_s: float | None = None
    ) -> list[DispatchEffect] | None:
        """Pass the entry to its model's pay-per-token upstream; None when that may not be."""
        line = self.lines.get(entry.model)
        if line is None or self.stop_deadline_s is not None:
            return None
        order = spilling.spill(line, entry, outcome, because, now_s, retry_after_s)
        return None if order is None else [order, *self.wake_by(entry.arrived.deadline_s)]

    def close(
        self,
        entry: Entry,
        outcome: Outcome,
        now_s: float,
        prompt_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> Record:
        """The one way out of the ledger: queue place and slots are given back here."""
        line = self.lines.get(entry.model)
        if entry.phase is not Phase.QUEUED:
            replica_id = entry.replica_id
            if entry.hedge_id is not None:
                self.leave(entry, entry.hedge_id, now_s)
            if replica_id is not None:
                self.leave(entry, replica_id, now_s)
        elif line is not None and len(line.queue):
            line.queue.leave(entry)
        self.ledger.end(entry)
        if entry.spilt is not None:
            spilling.settle(self.spills[entry.model], entry, prompt_tokens, output_tokens, now_s)
        record = entry.close(outcome, now_s, prompt_tokens, output_tokens)
        if line is not None:
            answered = outcome is Outcome.COMPLETED
            if not answered and entry.flow is not None and entry.spilt is None:
                line.note_unanswered(entry)
            line.span.ended(record, now_s, answered=answered, streams=entry.arrived.streams)
        if entry.shifted_tokens is not None:
            self.versions.settle(entry, record)
        return record

    # ---- the rest ----

    def wake_by(self, at_s: float) -> list[DispatchEffect]:
        """Ask for a tick at this moment, unless an earlier one has been asked for."""
        if self.wake_s is not None and self.wake_s <= at_s:
            return []
        self.wake_s = at_s
        return [WakeAt(at_s)]

    def wake_for(self, entry: Entry, line: Line) -> list[DispatchEffect]:
        """Ask for a tick when this entry, which waits, has waited long enough to end or to be spilt."""
        return self.wake_by(min(line.expires_s(entry), spilling.due_s(line, entry)))

    def report(self, now_s: float) -> Report:
        """Everything that the controller is told."""
        loads = tuple(self._load(seat, now_s) for seat in self.seats.values())
        models = tuple(line.demand(now_s) for line in self.lines.values())
        learned = [capacity.figures for capacity in self.shared.capacities.all()]
        capacities = tuple(figures for figures in learned if figures is not None)
        return Report(DemandReport(self._gateway, self.route_version, models, loads, capacities))

    def _load(self, seat: Seat, now_s: float) -> ReplicaLoad:
        line = self.lines.get(seat.route.model)
        alone_s = 0.0 if line is None else line.router.alone_s(seat.replica_id, now_s)
        # To a tenth: what fades would make every report a new one.
        return ReplicaLoad(
            seat.replica_id, len(seat.in_flight), seat.tokens, seat.breaker.failures_in_row, round(alone_s, 1)
        )
