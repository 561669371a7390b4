"""What changes around the requests: the table of replicas, and the policy."""

from __future__ import annotations

from tidegate.core.dispatch import admission
from tidegate.core.dispatch.attempts import Attempts
from tidegate.core.dispatch.filling import fill, refuse_adapters
from tidegate.core.dispatch.floor import DispatchEffect, Floor
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.seats import Seat
from tidegate.core.dispatch.spillbook import SpillBook
from tidegate.core.effects import CancelUpstream
from tidegate.core.events import Failure, ModelsConfigured, RouteTableChanged, UpstreamFailed
from tidegate.core.outcomes import Outcome
from tidegate.core.types import ModelId


class Changes:
    """Owns nothing: it takes what is told over into the floor's books."""

    def __init__(self, floor: Floor, attempts: Attempts) -> None:
        self._floor = floor
        self._attempts = attempts

    def routes(self, event: RouteTableChanged, now_s: float) -> list[DispatchEffect]:
        """Known seats keep their requests; requests on a seat that is gone are cut loose."""
        floor, table = self._floor, event.table
        floor.route_version = table.version
        known, floor.seats = floor.seats, {}
        seats: dict[ModelId, list[Seat]] = {model: [] for model in floor.lines}
        for number, route in enumerate(table.routes):
            seat = known.pop(route.replica_id, None) or Seat(route, number)
            seat.told(route, number)
            floor.seats[route.replica_id] = seat
            if route.model in seats:
                seats[route.model].append(seat)
        told = {route.model: route for route in table.models}
        for model, line in floor.lines.items():
            line.route = told.get(model)
            line.seated(seats[model], now_s)
        effects: list[DispatchEffect] = []
        for gone in known.values():
            floor.seats[gone.replica_id] = gone  # Until nobody sits there any more.
            for entry in list(gone.in_flight.values()):
                effects.append(CancelUpstream(entry.request_id, gone.replica_id))
                lost = UpstreamFailed(entry.request_id, Failure.CUT, replica_id=gone.replica_id)
                effects += self._attempts.failed(lost, now_s)
            del floor.seats[gone.replica_id]
        for line in floor.lines.values():
            effects += refuse_adapters(floor, line, now_s)
            effects += fill(floor, line, now_s)
            oldest = line.queue.oldest()
            if oldest is not None:
                effects += floor.wake_for(oldest, line)  # Now that somebody serves it may wait for less.
            if line.route is None or line.anybody_serves():
                continue
            for entry in list(line.queue.in_order()):
                # Who waited when the start was ordered learns now that it ends too late, and not at the deadline.
                late = None if entry.resumes else admission.starts_too_late(line, entry, now_s)
                if not line.route.can_serve:
                    effects += floor.nobody(entry, line, now_s)
                elif late is not None:
                    effects += floor.turn_away(entry, late.outcome, late.because, now_s, late.retry_after_s)
        return effects

    def configured(self, event: ModelsConfigured, now_s: float) -> list[DispatchEffect]:
        """Models come and go, and are dispatched otherwise. Requests that wait for one that goes are told so."""
        floor = self._floor
        floor.queues = event.queues
        floor.shared.index.bound(event.prefix_index_bytes)
        floor.versions.configure(event.shifts)
        effects: list[DispatchEffect] = []
        for model in [model for model in floor.lines if model not in event.models]:
            because = f"the model {model!r} is no longer configured here"
            for entry in floor.lines[model].queue.in_order():
                outcome = Outcome.FAILED_MIDSTREAM if entry.resumes else Outcome.REJECTED_UNKNOWN_MODEL
                effects += floor.turn_away(entry, outcome, because, now_s)
            del floor.lines[model]
        for model, config in event.models.items():
            if model in floor.lines:
                floor.lines[model].configure(config, now_s)
                effects += refuse_adapters(floor, floor.lines[model], now_s)
                for entry in floor.lines[model].queue:
                    effects += floor.wake_for(entry, floor.lines[model])
            else:
                line = floor.lines[model] = Line(
                    model, config, floor.waiting, floor.shared, floor.spills.setdefault(model, SpillBook())
                )
                line.seated([seat for seat in floor.seats.values() if seat.route.model == model], now_s)
        return effects
