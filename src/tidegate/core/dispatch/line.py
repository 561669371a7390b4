"""Everything the dispatcher keeps for one model: its line of waiting requests and its seats."""

from __future__ import annotations

from math import inf

from tidegate.core.dispatch.held import Held
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.promises import Promises
from tidegate.core.dispatch.queue import Queue
from tidegate.core.dispatch.ramp import PROMPT_BASE_TOKENS, Ramp
from tidegate.core.dispatch.routing.filters import open_seats
from tidegate.core.dispatch.routing.registry import Shared
from tidegate.core.dispatch.routing.router import Router
from tidegate.core.dispatch.seats import Seat
from tidegate.core.dispatch.spans import Span
from tidegate.core.dispatch.spillbook import SpillBook
from tidegate.core.dispatch.tenants import Tenants
from tidegate.core.dispatch.waits import SAMPLES_FEW, Waits
from tidegate.core.events import RequestArrived
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import ModelDemand, ModelId, ModelRoute, ReplicaId

LEARNS = 0.05


class Line:
    """One model: who waits, who is seated, what was measured since the last report."""

    def __init__(
        self,
        model: ModelId,
        config: DispatchConfig,
        total: Held | None = None,
        shared: Shared | None = None,
        spills: SpillBook | None = None,
    ) -> None:
        """``total`` counts what waits over all models; ``shared`` is what all models' routers share; ``spills``
        outlives the line."""
        self.model = model
        self.config = config
        self.queue = Queue(config.queue, total)
        self.promises = Promises()
        self.tenants = Tenants()
        self.waits = Waits()
        self.seats: list[Seat] = []
        self.route: ModelRoute | None = None
        """None until the controller's first table: a model is then held, not refused."""
        self.slots = 0
        """Of those that serve, or that served last."""
        self.is_ramping = False
        """One of the seats is new among others."""
        self.regime_s = 0.0
        """Since when somebody serves, or since when nobody does: waits are counted from here."""
        self.hurries_from_s = -inf
        """From when on the controller is to hear at once of a request that finds nobody."""
        self.span = Span()
        self.spills = SpillBook() if spills is None else spills
        self.router = Router(model, config, Shared() if shared is None else shared)
        self._serves = False

    def __repr__(self) -> str:
        return (
            f"<Line {self.model} queued={len(self.queue)} in_flight={self.in_flight} seats={len(self.seats)}>"
        )

    @property
    def in_flight(self) -> int:
        return sum(len(seat.in_flight) for seat in self.seats)

    def configure(self, config: DispatchConfig, now_s: float) -> None:
        """New settings; whoever waits keeps waiting."""
        self.router.configure(config, self.seats, now_s)
        self.config = config
        self.queue.limits = config.queue

    # ---- seats ----

    def is_light(self, entry: Entry) -> bool:
        """Its tenant is one of several and has little in flight."""
        return self.tenants.count > 1 and self.tenants.is_light(entry.arrived.flow, self.slots)

    def seats_for(self, entry: Entry) -> list[Seat]:
        """The replicas that have what it asks for."""
        adapter = entry.arrived.adapter
        if adapter is None:
            return self.seats
        return [seat for seat in self.seats if seat.known is None or adapter in seat.known]

    def is_short_of(self, adapter: str | None) -> bool:
        """Some that serve have not got this adapter."""
        if adapter is None:
            return False
        return any(
            seat.serves and seat.known is not None and adapter not in seat.known for seat in self.seats
        )

    def is_held_up_by(self, entry: Entry, now_s: float) -> bool:
        """The entry finds no room for want of its adapter: others could go before it."""
        adapter = entry.arrived.adapter
        if not self._serves or not self.is_short_of(adapter):
            return False
        if not self.anybody_has(adapter):
            return True
        return bool(
            open_seats([s for s in self.seats if s.known is not None and adapter not in s.known], now_s)
        )

    def anybody_has(self, adapter: str | None) -> bool:
        """Somebody who serves has this adapter, or needs none."""
        if adapter is None:
            return True
        return any(seat.serves and (seat.known is None or adapter in seat.known) for seat in self.seats)

    def adapters_awaited(self) -> tuple[str, ...]:
        """Those that somebody who was set aside waits for, and nobody has."""
        if not self.queue.aside:
            return ()
        asked = {entry.arrived.adapter for entry in self.queue.aside}
        return tuple(sorted(name for name in asked if name is not None and not self.anybody_has(name)))

    def can_serve(self) -> bool:
        """Somebody serves, or can be started, as far as is known."""
        return self._serves or self.route is None or self.route.can_serve

    def take(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The entry gets a slot there."""
        seat.take(entry)
        if self.tenants.is_contested and not entry.arrived.streams and len(self.waits.pace) >= SAMPLES_FEW:
            usual_s = self.waits.pace.at(0.5) or 0.0
            seat.expect(entry, now_s + (seat.opening + entry.arrived.prompt_tokens) * usual_s)
        self.tenants.taken(entry.arrived.flow)
        self.waits.turnover.taken(now_s)
        self.router.sent(entry, seat, now_s)

    def given_back(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The entry has given its slot there back."""
        self.tenants.given_back(entry.arrived.flow)
        self.waits.turnover.given_back(now_s)
        self.router.left(entry, replica_id)

    def seated(self, seats: list[Seat], now_s: float) -> None:
        """These are the replicas from now on. One that begins to serve beside others is ramped up."""
        span_s, tokens = self.config.slow_start_s, self.config.slow_start_tokens
        known = {seat.replica_id for seat in self.seats}
        for entry in [
            one for seat in seats if seat.replica_id not in known for one in seat.in_flight.values()
        ]:
            # The model was taken out of the policy and is back while its old requests still run.
            self.tenants.taken(entry.arrived.flow)
            self.waits.turnover.taken(now_s)
        settled = any(seat.serves and seat.has_served for seat in seats)
        for seat in seats:
            if seat.serves and not seat.has_served:
                seat.has_served = True
                if settled and span_s > 0.0:
                    seat.begin_ramp(Ramp(now_s, span_s, tokens))
        self.seats = seats
        self.router.seats_are(seats, now_s)
        self.is_ramping = any(seat.ramp is not None for seat in seats)
        serves = any(seat.serves for seat in seats)
        if serves:
            self.slots = sum(seat.route.slots for seat in seats if seat.serves)
        if serves != self._serves:
            self._serves, self.regime_s = serves, now_s

    def anybody_serves(self) -> bool:
        """Capacity exists, though it may be busy."""
        return self._serves

    def is_alone(self, seat: Seat) -> bool:
        """No other replica is to be trusted with this one's work."""
        return not any(other.serves and other.breaker.is_closed for other in self.seats if other is not seat)

    def expected_ready_s(self) -> float | None:
        """When somebody is expected to serve; None when that is not known."""
        return None if self.route is None else self.route.expected_ready_s

    def next_change_s(self, now_s: float) -> float | None:
        """When a seat that is held back may take more by the passing of time alone; None: never."""
        found = [moment for seat in self.seats if (moment := seat.next_s(now_s)) is not None]
        return min(found, default=None)

    # ---- waits ----

    def expires_s(self, entry: Entry) -> float:
        """When an entry that waits has waited long enough, as things are."""
        limits = self.queue.limits
        longest_s = limits.max_wait_busy_s if self._serves else limits.max_wait_starting_s
        return min(entry.arrived.deadline_s, max(entry.queued_s, self.regime_s) + longest_s)

    # ---- what is noted ----

    def note_arrival(self, arrived: RequestArrived, now_s: float) -> None:
        self.span.arrived(arrived.prompt_tokens, now_s)
        self.tenants.came(arrived.flow, arrived.priority, now_s)

    def note_load(self, more: int = 0) -> None:
        """Keep the largest concurrency since the report before. ``more`` were turned away."""
        load = self.queue.held.requests + more
        for seat in self.seats:  # a plain loop: this is done for every arrival
            load += len(seat.in_flight)
        self.span.load(load)

    def note_first_byte(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The answer of this seat has begun, which tells how fast it is."""
        seat.breaker.answered()
        seat.began(entry)
        self.router.began(entry, seat.replica_id, now_s)
        sent_s = entry.sent_s
        if sent_s is None or entry.hedge_id is not None:
            return
        tokens = entry.arrived.prompt_tokens + entry.resumed_tokens + PROMPT_BASE_TOKENS
        if seat.ramp is None:
            pace = self.waits.pace
            pace.add((now_s - sent_s) / tokens)
            if pace.is_due:
                self._limit_openings()
            return
        usual = self.waits.pace.at(0.5)
        seat.ramp.began(now_s - sent_s, None if usual is None else usual * tokens)

    def _limit_openings(self) -> None:
        """How many prompt tokens a replica computes within the moment that may be given to it ahead.

        Where all who wait have the same claim, it does not matter whether they wait here or there.
        """
        usual = self.waits.pace.at(0.1)
        ahead_s = self.config.prefill_ahead_s if self.tenants.is_contested or self.queue.is_shared else 0.0
        limit = ahead_s / usual if usual and ahead_s and len(self.waits.pace) >= SAMPLES_FEW else inf
        for seat in self.seats:
            seat.opening_limit = limit

    def note_answer(
        self, entry: Entry, seat: Seat | None, now_s: float, prompt: int, output: int | None
    ) -> None:
        """A good answer is complete; ``output`` is None when the engine does not say its length."""
        queue = self.queue
        if entry.sent_s is not None:
            self.waits.held.add(now_s - entry.sent_s)
        if seat is not None and seat.ramp is not None:
            seat.ramp.ended(prompt + (output or 0))
        if output is None:
            return
        known = queue.usual_tokens
        queue.usual_tokens = float(output) if known is None else known + LEARNS * (output - known)
        if entry.flow is not None:
            entry.flow.learn(output)
            queue.settle(entry, prompt + output)

    def note_unanswered(self, entry: Entry) -> None:
        """It was sent and ended without a complete answer: what is known to have been served counts."""
        if entry.first_byte_s is None:
            self.queue.settle(entry, float(entry.arrived.prompt_tokens if entry.sent_s is not None else 0))
        elif entry.answer_tokens:
            self.queue.settle(entry, float(entry.arrived.prompt_tokens + entry.answer_tokens))

    # ---- reports ----

    def demand(self, now_s: float) -> ModelDemand:
        """What to tell the controller; begins a new reporting span."""
        queued, in_flight = len(self.queue), self.in_flight
        oldest, span = self.queue.oldest(), self.span
        return ModelDemand(
            model=self.model,
            queued=queued,
            in_flight=in_flight,
            peak=span.peak(queued + in_flight),
            queued_tokens=self.queue.held.tokens,
            in_flight_tokens=sum(seat.tokens for seat in self.seats),
            arrivals_total=span.arrivals_total,
            ended_total=span.ended_total,
            output_tokens_total=span.output_tokens_total,
            oldest_wait_s=0.0 if oldest is None else now_s - oldest.arrived_s,
            last_active_s=span.last_active_s,
            latency=span.latency(now_s),
            prompt_tokens_total=span.prompt_tokens_total,
            refused_total=span.refused_total,
            spilt_total=self.spills.requests_total,
            spilt_in_flight=self.spills.in_flight,
            spilt_cost_total=self.spills.cost_total,
            spilt_cost_last_h=self.spills.last_hour(now_s),
            adapters_awaited=self.adapters_awaited(),
            queued_prompt_tokens=self.queue.prompt_tokens,
        )
