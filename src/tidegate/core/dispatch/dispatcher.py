"""The brain that decides about requests: admission, order, replica, retry, ending.

It owns the ledger of open requests and one ``Line`` for each model. A gateway reports what happens
on its sockets as events and carries out the effects; nothing here waits, sends or looks at a clock.

Three promises hold on every path: a request that was accepted gets exactly one outcome; a replica
never has more requests in flight than its slots; nothing is sent again once a byte has been passed on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.dispatch import admission
from tidegate.core.dispatch.ledger import Entry, Ledger, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.seats import Seat
from tidegate.core.effects import CancelUpstream, Record, Reject, Report, Send, WakeAt
from tidegate.core.events import (
    ClientGone,
    Failure,
    FirstByte,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    StopBegun,
    Tick,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.outcomes import Outcome
from tidegate.core.types import DemandReport, ModelId, ReplicaId, ReplicaLoad

DispatchEvent = (
    Tick
    | RequestArrived
    | FirstByte
    | UpstreamEnded
    | UpstreamFailed
    | ClientGone
    | RouteTableChanged
    | ModelsConfigured
    | StopBegun
    | ReportDue
)
DispatchEffect = Send | Reject | CancelUpstream | Report | Record | WakeAt


class Dispatcher:
    """Decides about requests. ``on`` is its whole interface."""

    def __init__(self, gateway: str = "gateway") -> None:
        self._gateway = gateway
        self._ledger = Ledger()
        self._lines: dict[ModelId, Line] = {}
        self._seats: dict[ReplicaId, Seat] = {}
        self._route_version = 0
        self._stop_deadline_s: float | None = None
        self._retries = admission.RetryBudget()
        self._wake_s: float | None = None
        self._turns: dict[type, Callable[[Any, float], list[DispatchEffect]]] = {
            Tick: self._tick,
            RequestArrived: self._arrived,
            FirstByte: self._first_byte,
            UpstreamEnded: self._ended,
            UpstreamFailed: self._failed,
            ClientGone: self._client_gone,
            RouteTableChanged: self._routes_changed,
            ModelsConfigured: self._configured,
            StopBegun: self._stop_begun,
            ReportDue: self._report_due,
        }

    def __repr__(self) -> str:
        return f"<Dispatcher {self._ledger!r} models={len(self._lines)} routes=v{self._route_version}>"

    def on(self, event: DispatchEvent, now_s: float) -> list[DispatchEffect]:
        """Take a fact in, give orders out. The orders are to be carried out in their order."""
        return self._turns[type(event)](event, now_s)

    @property
    def open_requests(self) -> int:
        """Accepted and not ended."""
        return len(self._ledger)

    # ---- a request's way through ----

    def _arrived(self, event: RequestArrived, now_s: float) -> list[DispatchEffect]:
        """Six cases, the first that fits.

        1. The gateway is stopping: rejected.
        2. The model is not configured: rejected.
        3. Nobody serves the model and nobody can be started: rejected, with the reason.
        4. Nobody waits and a replica has a free slot: sent.
        5. The queue is full: rejected, with the time after which to come back.
        6. Queued; when nobody serves, the controller is told at once.
        """
        self._retries.arrived()
        entry = self._ledger.open(event, now_s)
        if self._stop_deadline_s is not None:  # 1
            return self._turn_away(entry, Outcome.REJECTED_STOPPING, "the gateway is stopping", now_s, 1.0)
        line = self._lines.get(event.model)
        if line is None:  # 2
            because = f"the model {event.model!r} is not configured here"
            return self._turn_away(entry, Outcome.REJECTED_UNKNOWN_MODEL, because, now_s)
        line.note_arrival(now_s)
        if line.route is not None and not line.route.can_serve and not line.anybody_serves():  # 3
            return self._nobody(entry, line, now_s)
        if not len(line.queue):  # 4
            seat = line.choose(entry, now_s)
            if seat is not None:
                order = self._seat(entry, seat, now_s)
                line.note_load()
                return [order]
        why = line.queue.fits(entry)
        if why is not None:  # 5
            wait_s = admission.retry_after_full(len(line.queue), line.drained, now_s)
            return self._turn_away(entry, Outcome.REJECTED_FULL, f"the queue is full: {why}", now_s, wait_s)
        line.queue.join(entry)  # 6
        line.note_load()
        effects = self._wake_by(event.deadline_s)
        rest_end_s = line.earliest_rest_end_s()
        if rest_end_s is not None:
            effects += self._wake_by(rest_end_s)
        if len(line.queue) == 1 and not line.anybody_serves():
            effects.append(self._report(now_s))
        return effects

    def _first_byte(self, event: FirstByte, now_s: float) -> list[DispatchEffect]:
        entry = self._ledger.find(event.request_id)
        if entry is not None and entry.phase is Phase.SENT:
            entry.phase = Phase.STREAMING
            entry.first_byte_s = now_s
        return []

    def _ended(self, event: UpstreamEnded, now_s: float) -> list[DispatchEffect]:
        entry = self._ledger.find(event.request_id)
        if entry is None or entry.phase is Phase.QUEUED:
            return []
        if entry.first_byte_s is None:
            entry.first_byte_s = now_s
        seat = self._seats.get(entry.replica_id) if entry.replica_id else None
        if seat is not None:
            seat.answered()
        record = self._close(entry, Outcome.COMPLETED, now_s, event.prompt_tokens, event.output_tokens)
        line = self._lines.get(entry.arrived.model)
        if line is None or not len(line.queue):
            return [record]
        return [record, *self._seat_those_who_wait(line, now_s)]

    def _failed(self, event: UpstreamFailed, now_s: float) -> list[DispatchEffect]:
        """Four cases, the first that fits.

        1. The request has ended already, or is not at a replica: a late fact.
        2. A byte has been passed on: it ends with an error event.
        3. Nothing was started there, or a retry is left in the request and in the budget: it keeps
           its place in the line.
        4. It ends with an error.
        """
        entry = self._ledger.find(event.request_id)
        if entry is None or entry.phase is Phase.QUEUED:  # 1
            return []
        seat = self._leave_seat(entry)
        if seat is not None:
            seat.failed(event.failure, now_s)
        line = self._lines.get(entry.arrived.model)
        effects: list[DispatchEffect] = []
        if entry.phase is Phase.STREAMING:  # 2
            because = f"the engine failed in the middle of its answer: {event.failure.value}"
            effects = self._turn_away(entry, Outcome.FAILED_MIDSTREAM, because, now_s)
        elif line is not None and self._may_retry(entry, line, event.failure, now_s):  # 3
            if seat is not None and seat.replica_id not in entry.tried:
                entry.tried = (*entry.tried, seat.replica_id)
            entry.phase = Phase.QUEUED
            line.queue.join(entry)
            effects = self._wake_by(entry.arrived.deadline_s)
        else:  # 4
            because = f"no replica answered, after {entry.attempts} tried: {event.failure.value}"
            effects = self._turn_away(entry, Outcome.FAILED_ENGINE, because, now_s, 1.0)
        if seat is not None and seat.rests_until_s is not None:
            effects += self._wake_by(seat.rests_until_s)
        if line is not None:
            effects += self._seat_those_who_wait(line, now_s)
        return effects

    def _client_gone(self, event: ClientGone, now_s: float) -> list[DispatchEffect]:
        entry = self._ledger.find(event.request_id)
        if entry is None:
            return []
        effects: list[DispatchEffect] = []
        if entry.phase is not Phase.QUEUED and entry.replica_id is not None:
            effects.append(CancelUpstream(entry.request_id, entry.replica_id))
        effects.append(self._close(entry, Outcome.CLIENT_GONE, now_s))
        line = self._lines.get(entry.arrived.model)
        if line is not None:
            effects += self._seat_those_who_wait(line, now_s)
        return effects

    # ---- the world around ----

    def _tick(self, event: Tick, now_s: float) -> list[DispatchEffect]:
        if self._wake_s is not None and self._wake_s <= now_s:
            self._wake_s = None
        effects: list[DispatchEffect] = []
        stopping = self._stop_deadline_s is not None and self._stop_deadline_s <= now_s
        for entry in self._ledger if stopping else self._ledger.overdue(now_s):
            effects += self._run_out(entry, now_s, stopping=stopping)
        for line in self._lines.values():
            if len(line.queue):
                effects += self._seat_those_who_wait(line, now_s)
                deadline_s = line.queue.earliest_deadline_s()
                if deadline_s is not None:
                    effects += self._wake_by(deadline_s)
        return effects

    def _run_out(self, entry: Entry, now_s: float, *, stopping: bool) -> list[DispatchEffect]:
        """End an entry whose time is over: its own deadline, or the gateway's."""
        effects: list[DispatchEffect] = []
        if entry.phase is not Phase.QUEUED and entry.replica_id is not None:
            effects.append(CancelUpstream(entry.request_id, entry.replica_id))
        waited_s = now_s - entry.arrived_s
        if stopping and entry.phase is Phase.STREAMING:
            why, outcome = "the gateway stopped before the answer was complete", Outcome.CUT_STOPPING
        elif stopping:
            why, outcome = "the gateway stopped before an answer came", Outcome.REJECTED_STOPPING
        elif entry.phase is Phase.QUEUED:
            why, outcome = f"no replica got free within {waited_s:.1f} s", Outcome.EXPIRED_QUEUED
        else:
            why, outcome = f"the answer was not complete within {waited_s:.1f} s", Outcome.EXPIRED_RUNNING
        return effects + self._turn_away(entry, outcome, why, now_s, 1.0 if stopping else None)

    def _routes_changed(self, event: RouteTableChanged, now_s: float) -> list[DispatchEffect]:
        """Known seats keep their requests; requests on a seat that is gone are cut loose."""
        table = event.table
        self._route_version = table.version
        known, self._seats = self._seats, {}
        for line in self._lines.values():
            line.seats = []
            line.route = None
        for number, route in enumerate(table.routes):
            seat = known.pop(route.replica_id, None) or Seat(route, number)
            seat.route, seat.number = route, number
            self._seats[route.replica_id] = seat
            if route.model in self._lines:
                self._lines[route.model].seats.append(seat)
        for told in table.models:
            if told.model in self._lines:
                self._lines[told.model].route = told
        effects: list[DispatchEffect] = []
        for gone in known.values():
            for entry in list(gone.in_flight.values()):
                effects.append(CancelUpstream(entry.request_id, gone.replica_id))
                effects += self._failed(UpstreamFailed(entry.request_id, Failure.CUT), now_s)
        for line in self._lines.values():
            effects += self._seat_those_who_wait(line, now_s)
            if line.route is not None and not line.route.can_serve and not line.anybody_serves():
                for entry in line.queue.in_order():
                    effects += self._nobody(entry, line, now_s)
        return effects

    def _configured(self, event: ModelsConfigured, now_s: float) -> list[DispatchEffect]:
        effects: list[DispatchEffect] = []
        for model in [model for model in self._lines if model not in event.models]:
            line = self._lines[model]
            for entry in line.queue.in_order():
                because = f"the model {model!r} is no longer configured here"
                effects += self._turn_away(entry, Outcome.REJECTED_UNKNOWN_MODEL, because, now_s)
            del self._lines[model]
        for model, config in event.models.items():
            if model in self._lines:
                self._lines[model].configure(config)
            else:
                line = self._lines[model] = Line(model, config)
                line.seats = [seat for seat in self._seats.values() if seat.route.model == model]
        return effects

    def _stop_begun(self, event: StopBegun, now_s: float) -> list[DispatchEffect]:
        self._stop_deadline_s = event.deadline_s
        return self._wake_by(event.deadline_s)

    def _report_due(self, event: ReportDue, now_s: float) -> list[DispatchEffect]:
        return [self._report(now_s)]

    # ---- the pieces ----

    def _seat_those_who_wait(self, line: Line, now_s: float) -> list[DispatchEffect]:
        """Fill free slots from the front of the line."""
        effects: list[DispatchEffect] = []
        while (entry := line.queue.first()) is not None:
            seat = line.choose(entry, now_s)
            if seat is None:
                break
            line.queue.leave(entry)
            effects.append(self._seat(entry, seat, now_s))
        return effects

    def _seat(self, entry: Entry, seat: Seat, now_s: float) -> Send:
        seat.take(entry)
        entry.phase = Phase.SENT
        entry.replica_id = seat.replica_id
        entry.sent_s = now_s
        entry.attempts += 1
        return Send(entry.request_id, seat.replica_id, entry.attempts)

    def _leave_seat(self, entry: Entry) -> Seat | None:
        """Give the entry's slot back; None when its replica is no longer in the table."""
        if entry.replica_id is None:
            return None
        seat = self._seats.get(entry.replica_id)
        if seat is not None:
            seat.give_back(entry)
        return seat

    def _may_retry(self, entry: Entry, line: Line, failure: Failure, now_s: float) -> bool:
        if now_s >= entry.arrived.deadline_s or self._stop_deadline_s is not None:
            return False
        if failure is Failure.BUSY:
            # The engine took nothing on: waiting for another turn costs it nothing either.
            return True
        return entry.attempts <= line.config.max_retries and self._retries.take(now_s)

    def _nobody(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        told = line.route
        why = (told.because if told else None) or "no replica is running"
        wait_s = admission.retry_after_nobody(told.expected_ready_s if told else None, now_s)
        because = f"nobody can serve {line.model!r}: {why}"
        return self._turn_away(entry, Outcome.REJECTED_NOBODY, because, now_s, wait_s)

    def _turn_away(
        self, entry: Entry, outcome: Outcome, because: str, now_s: float, retry_after_s: float | None = None
    ) -> list[DispatchEffect]:
        order = Reject(entry.request_id, outcome, because, retry_after_s)
        return [order, self._close(entry, outcome, now_s)]

    def _close(
        self,
        entry: Entry,
        outcome: Outcome,
        now_s: float,
        prompt_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> Record:
        """The one way out of the ledger: queue place and slot are given back here."""
        line = self._lines.get(entry.arrived.model)
        if entry.phase is not Phase.QUEUED:
            self._leave_seat(entry)
        elif line is not None:
            line.queue.leave(entry)
        self._ledger.end(entry)
        record = entry.close(outcome, now_s, prompt_tokens, output_tokens)
        if line is not None:
            line.note_end(record, now_s, answered=outcome is Outcome.COMPLETED)
        return record

    def _wake_by(self, at_s: float) -> list[DispatchEffect]:
        """Ask for a tick at this moment, unless an earlier one has been asked for."""
        if self._wake_s is not None and self._wake_s <= at_s:
            return []
        self._wake_s = at_s
        return [WakeAt(at_s)]

    def _report(self, now_s: float) -> Report:
        loads = tuple(
            ReplicaLoad(seat.replica_id, len(seat.in_flight), seat.tokens) for seat in self._seats.values()
        )
        models = tuple(line.demand(now_s) for line in self._lines.values())
        return Report(DemandReport(self._gateway, self._route_version, models, loads))
