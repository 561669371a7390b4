"""The brain that decides about requests: admission, order, replica, retry, ending.

It owns the ledger of open requests and one ``Line`` for each model. A gateway reports what happens
on its sockets as events and carries out the effects; nothing here waits, sends or looks at a clock.

Four promises hold on every path: a request that was accepted gets exactly one outcome; a replica never
has more requests in flight than its slots; nothing starts again from the beginning once a byte has been
passed on; nobody waits for ever while others are served.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidegate.core.dispatch import admission, choosing, spilling
from tidegate.core.dispatch.attempts import Attempts
from tidegate.core.dispatch.budget import Arrivals
from tidegate.core.dispatch.changes import Changes
from tidegate.core.dispatch.filling import fill, place, refuse_adapter
from tidegate.core.dispatch.floor import DispatchEffect, Floor
from tidegate.core.dispatch.hedging import Hedging
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.patience import Patience
from tidegate.core.dispatch.prefix import PrefixStats
from tidegate.core.dispatch.routing.cost import Choice, Terms
from tidegate.core.dispatch.routing.registry import Shared
from tidegate.core.dispatch.spillbook import SpillBook, SpillStats
from tidegate.core.events import (
    CacheTold,
    CapacitiesRestored,
    ClientGone,
    FirstByte,
    ModelsConfigured,
    ReportDue,
    RequestArrived,
    RouteTableChanged,
    SpillsRestored,
    StopBegun,
    Tick,
    TokensSent,
    UpstreamEnded,
    UpstreamFailed,
)
from tidegate.core.knowledge import KnownCapacity
from tidegate.core.outcomes import Outcome
from tidegate.core.types import Dice, ModelId, RequestId

DispatchEvent = (
    Tick
    | RequestArrived
    | FirstByte
    | TokensSent
    | UpstreamEnded
    | UpstreamFailed
    | ClientGone
    | RouteTableChanged
    | ModelsConfigured
    | StopBegun
    | ReportDue
    | CacheTold
    | SpillsRestored
    | CapacitiesRestored
)


HURRY_S = 1.0
"""After the controller was told at once that a model without replicas is asked for; reports come as often as this."""


class Dispatcher:
    """Decides about requests. ``on`` is its whole interface."""

    def __init__(self, gateway: str = "gateway", *, dice: Dice | None = None) -> None:
        """``dice`` are for those of the other systems' routers that leave something to chance."""
        floor = self._floor = Floor(gateway, Shared(dice))
        self._arrivals = Arrivals()
        self._attempts = Attempts(floor, self._arrivals)
        self._hedging = Hedging(floor, self._arrivals)
        self._hedges = False
        """Some model does."""
        self._patience = Patience(floor, self._hedging)
        self._changes = Changes(floor, self._attempts)
        self._turns: dict[type, Callable[[Any, float], list[DispatchEffect]]] = {
            Tick: self._patience.tick,
            RequestArrived: self._arrived,
            FirstByte: self._attempts.first_byte,
            TokensSent: self._attempts.tokens_sent,
            UpstreamEnded: self._attempts.ended,
            UpstreamFailed: self._attempts.failed,
            ClientGone: self._attempts.client_gone,
            RouteTableChanged: self._changes.routes,
            ModelsConfigured: self._configured,
            StopBegun: self._stop_begun,
            ReportDue: self._report_due,
            CacheTold: self._cache_told,
            SpillsRestored: self._spills_restored,
            CapacitiesRestored: self._capacities_restored,
        }

    def __repr__(self) -> str:
        return f"<Dispatcher {self._floor!r}>"

    def on(self, event: DispatchEvent, now_s: float) -> list[DispatchEffect]:
        """Take a fact in, give orders out. The orders are to be carried out in their order."""
        effects = self._turns[type(event)](event, now_s)
        if self._hedges:
            effects += self._hedging.watch(effects, now_s)
        if self._floor.versions.news:
            effects = [*effects, *self._floor.versions.news]
            self._floor.versions.news.clear()
        return effects

    @property
    def open_requests(self) -> int:
        """Accepted and not ended."""
        return len(self._floor.ledger)

    def prefix_stats(self) -> dict[ModelId, PrefixStats]:
        """How well prompts' beginnings are foreseen, by model; without those whose routing has no use for it."""
        found = {model: line.router.prefix_stats() for model, line in self._floor.lines.items()}
        return {model: stats for model, stats in found.items() if stats is not None}

    def spill_stats(self, now_s: float) -> dict[ModelId, SpillStats]:
        """What has been spilt, by model; without those that have no upstream and never had."""
        lines = self._floor.lines
        return {
            model: book.stats(now_s)
            for model, book in self._floor.spills.items()
            if book.requests_total or (model in lines and lines[model].config.spill is not None)
        }

    def spilt_minutes(self, now_s: float) -> dict[ModelId, tuple[tuple[float, float], ...]]:
        """What each model has spilt in the last hour, as ``SpillsRestored`` takes it."""
        found = {model: book.minutes(now_s) for model, book in self._floor.spills.items()}
        return {model: minutes for model, minutes in found.items() if minutes}

    def remember(self) -> tuple[KnownCapacity, ...]:
        """What has been learned of configured models' engines, to be given to a later process as
        ``CapacitiesRestored``. Looking changes nothing."""
        known = self._floor.shared.capacities.remember()
        return tuple(one for one in known if one.model in self._floor.lines)

    def foresees_refusal(self, arrived: RequestArrived, now_s: float) -> bool:
        """Whether this request would be turned away now: a look that changes nothing, for whoever has more work to
        do for a request that is let in. False when nobody waits."""
        line = self._floor.lines.get(arrived.model)
        if line is None or not line.queue.held.requests:
            return False
        return admission.foresees_refusal(line, Entry(arrived, now_s, 0), now_s, self._floor.queues)

    def explain(self, request_id: RequestId, now_s: float) -> list[Terms]:
        """What each replica with room would cost an open request now, in the router's terms."""
        entry = self._floor.ledger.find(request_id)
        line = None if entry is None else self._floor.lines.get(entry.model)
        return [] if entry is None or line is None else choosing.explain(line, entry, now_s)

    def ask_about(self, request_id: RequestId) -> list[Choice]:
        """Keep why this request is sent where it is, from now on: the list grows with each time that it is sent."""
        self._floor.asked_about, self._floor.choices = request_id, []
        return self._floor.choices

    # ---- a request comes in ----

    def _arrived(self, event: RequestArrived, now_s: float) -> list[DispatchEffect]:
        """Seven cases, the first that fits.

        1. The gateway is stopping: rejected.
        2. The model is not configured: rejected.
        3. Nobody serves the model and nobody can be started, or its LoRA adapter cannot be loaded: rejected, with the
           reason.
        4. Its deadline comes before an answer could begin: rejected.
        5. Nobody waits and a replica has a free slot: sent.
        6. It would wait in vain, or there is no place to wait: rejected, with the time after which to
           come back.
        7. Queued; when nobody serves, the controller is told at once.

        Instead of being rejected in 3 or 6 it is spilt, where the model has an upstream for that.
        """
        floor = self._floor
        self._arrivals.arrived(now_s)
        entry = floor.ledger.open(event, now_s)
        if floor.stop_deadline_s is not None:  # 1
            return floor.turn_away(entry, Outcome.REJECTED_STOPPING, "the gateway is stopping", now_s, 1.0)
        line = floor.lines.get(event.model) or floor.versions.line_for(entry, floor.lines)
        if line is None:  # 2
            because = f"the model {event.model!r} is not configured here"
            return floor.turn_away(entry, Outcome.REJECTED_UNKNOWN_MODEL, because, now_s)
        line.note_arrival(event, now_s)
        refused = refuse_adapter(floor, entry, line, now_s) if event.adapter is not None else None
        if refused is not None:  # 3
            return refused
        if line.route is not None and not line.route.can_serve and not line.anybody_serves():  # 3
            return floor.nobody(entry, line, now_s)
        hopeless = admission.hopeless(line, entry, now_s)
        if hopeless is not None:  # 4
            return floor.turn_away(entry, Outcome.REJECTED_DEADLINE, hopeless, now_s)
        if not line.queue.turns:  # 5
            orders = place(floor, entry, line, now_s)
            if orders is not None:
                if line.promises.told:
                    line.promises.redeem(entry, now_s)
                line.note_load()
                if floor.wake_s is None or event.deadline_s < floor.wake_s:
                    # The first of many: those after it, with the same patience, find a wake-up set.
                    orders += floor.wake_by(event.deadline_s)
                return orders
        return self._wait(entry, line, now_s)

    def _wait(self, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
        """Cases 6 and 7 of an arrival."""
        floor = self._floor
        too_long = spilling.foreseen(line, entry, now_s)
        if too_long is not None:
            outcome = Outcome.REJECTED_LATE if line.anybody_serves() else Outcome.REJECTED_NOBODY
            spilt = floor.spill(entry, outcome, too_long, now_s)
            if spilt is not None:
                line.note_load(1)
                return spilt
        refusal, gone = admission.judge(line, entry, now_s, floor.queues, floor.lines.values())
        effects: list[DispatchEffect] = []
        if refusal is not None:  # 6
            line.note_load(1)
            effects = floor.turn_away(entry, refusal.outcome, refusal.because, now_s, refusal.retry_after_s)
        else:  # 7
            for other in gone:
                why = admission.displaced(floor.lines[other.model], other, now_s)
                effects += floor.turn_away(other, why.outcome, why.because, now_s, why.retry_after_s)
            effects += floor.queue(entry, line, now_s)
            if line.tenants.is_contested or line.is_short_of(entry.arrived.adapter):
                effects += fill(floor, line, now_s)  # A slot that those before it may not take.
        if not line.anybody_serves() and len(line.queue) <= 1 and now_s >= line.hurries_from_s:
            # Once: of those who are turned away meanwhile the controller hears with the next report.
            line.hurries_from_s = now_s + HURRY_S
            effects.append(floor.report(now_s))
        return effects

    # ---- the world around ----

    def _configured(self, event: ModelsConfigured, now_s: float) -> list[DispatchEffect]:
        self._hedges = any(config.hedge_ratio for config in event.models.values())
        return self._changes.configured(event, now_s)

    def _stop_begun(self, event: StopBegun, now_s: float) -> list[DispatchEffect]:
        self._floor.stop_deadline_s = event.deadline_s
        return self._floor.wake_by(event.deadline_s)

    def _report_due(self, event: ReportDue, now_s: float) -> list[DispatchEffect]:
        return [self._floor.report(now_s)]

    def _spills_restored(self, event: SpillsRestored, now_s: float) -> list[DispatchEffect]:
        for model, minutes in event.minutes.items():
            self._floor.spills.setdefault(model, SpillBook()).restore(minutes, now_s)
        return []

    def _capacities_restored(self, event: CapacitiesRestored, _now_s: float) -> list[DispatchEffect]:
        self._floor.shared.capacities.restore(event.capacities)
        return []

    def _cache_told(self, event: CacheTold, now_s: float) -> list[DispatchEffect]:
        seat = self._floor.seats.get(event.replica_id)
        line = None if seat is None else self._floor.lines.get(seat.route.model)
        if line is not None:
            line.router.cache_told(event.replica_id, event.gone_before_s)
        return []
