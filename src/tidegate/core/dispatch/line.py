"""Everything the dispatcher keeps for one model: its line of waiting requests and its seats."""

from __future__ import annotations

from tidegate.core.dispatch.admission import DRAIN_SPAN_S
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.queue import Queue
from tidegate.core.dispatch.routing.filters import open_seats, untried
from tidegate.core.dispatch.routing.pick import Picker, picker_for
from tidegate.core.dispatch.seats import Seat
from tidegate.core.effects import Record
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import LatencySummary, ModelDemand, ModelId, ModelRoute
from tidegate.core.windows import RateWindow, percentile

SAMPLES_MAX = 512
"""Latencies kept between two reports; at 20,000 requests a second sorting them all would cost more
than the report is worth."""


class Line:
    """One model: who waits, who is seated, what was measured since the last report."""

    def __init__(self, model: ModelId, config: DispatchConfig) -> None:
        self.model = model
        self.config = config
        self.queue = Queue(config.queue)
        self.seats: list[Seat] = []
        self.route: ModelRoute | None = None
        """None until the controller's first table: a model is then held, not refused."""
        self.drained = RateWindow(DRAIN_SPAN_S)
        self.arrivals_total = 0
        self.ended_total = 0
        self._picker: Picker = picker_for(config.routing)
        self._peak = 0
        self._output_tokens_total = 0
        self._last_active_s: float | None = None
        self._ttft_s: list[float] = []
        self._e2e_s: list[float] = []

    def __repr__(self) -> str:
        return (
            f"<Line {self.model} queued={len(self.queue)} in_flight={self.in_flight} seats={len(self.seats)}>"
        )

    @property
    def in_flight(self) -> int:
        return sum(len(seat.in_flight) for seat in self.seats)

    def configure(self, config: DispatchConfig) -> None:
        """New settings; whoever waits keeps waiting."""
        if config.routing is not self.config.routing:
            self._picker = picker_for(config.routing)
        self.config = config
        self.queue.limits = config.queue

    def choose(self, entry: Entry, now_s: float) -> Seat | None:
        """The seat to send this entry to, or None when all are taken. Filter, then pick."""
        candidates = open_seats(self.seats, now_s)
        if not candidates:
            return None
        return self._picker.pick(untried(entry, candidates))

    def anybody_serves(self) -> bool:
        return any(seat.serves for seat in self.seats)

    def earliest_rest_end_s(self) -> float | None:
        """When the first resting seat may be tried again; None when none rests."""
        return min((s.rests_until_s for s in self.seats if s.rests_until_s is not None), default=None)

    def note_arrival(self, now_s: float) -> None:
        self.arrivals_total += 1
        self._last_active_s = now_s

    def note_load(self) -> None:
        """Keep the largest concurrency since the report before."""
        load = len(self.queue)
        for seat in self.seats:  # a plain loop: this is done for every arrival
            load += len(seat.in_flight)
        if load > self._peak:
            self._peak = load

    def note_end(self, record: Record, now_s: float, *, answered: bool) -> None:
        self.ended_total += 1
        self._last_active_s = now_s
        if not answered:
            return
        self.drained.add(now_s)
        self._output_tokens_total += record.output_tokens or 0
        if len(self._e2e_s) < SAMPLES_MAX:
            self._e2e_s.append(record.e2e_s)
            if record.ttft_s is not None:
                self._ttft_s.append(record.ttft_s)

    def demand(self, now_s: float) -> ModelDemand:
        """What to tell the controller; begins a new reporting span."""
        queued, in_flight = len(self.queue), self.in_flight
        oldest_s = self.queue.oldest_arrival_s()
        peak, self._peak = max(self._peak, queued + in_flight), queued + in_flight
        return ModelDemand(
            model=self.model,
            queued=queued,
            in_flight=in_flight,
            peak=peak,
            queued_tokens=self.queue.tokens,
            in_flight_tokens=sum(seat.tokens for seat in self.seats),
            arrivals_total=self.arrivals_total,
            ended_total=self.ended_total,
            output_tokens_total=self._output_tokens_total,
            oldest_wait_s=0.0 if oldest_s is None else now_s - oldest_s,
            last_active_s=self._last_active_s,
            latency=self._latency(),
        )

    def _latency(self) -> LatencySummary:
        ttft_s, e2e_s = sorted(self._ttft_s), sorted(self._e2e_s)
        self._ttft_s, self._e2e_s = [], []
        return LatencySummary(
            samples=len(e2e_s),
            ttft_p50_s=percentile(ttft_s, 0.50),
            ttft_p95_s=percentile(ttft_s, 0.95),
            e2e_p50_s=percentile(e2e_s, 0.50),
            e2e_p95_s=percentile(e2e_s, 0.95),
        )
