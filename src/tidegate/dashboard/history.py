"""The last minutes of each model, one point a second, so that a page opened now shows how it came here."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tidegate.core.lifecycle import ENDED, State
from tidegate.core.types import ModelId
from tidegate.dashboard.page import FleetPage, ModelPage

SPAN_POINTS = 300
"""Five minutes at one point a second; 64 models take about 4 MB."""

RATE_SPAN_POINTS = 10
"""Rates are the growth of a total over this many points: long enough to be read, short enough to be now."""


class Point(NamedTuple):
    """One model at one moment. Travels as a JSON array in this order."""

    at_s: float
    demand: int
    """Requests in flight and queued."""
    desired: int
    serving: int
    running: int
    """Replicas in any state but an ended one."""
    queued: int
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    requests_per_s: float | None
    tokens_per_s: float | None


class _Trail:
    """One model's points, and the totals that rates are read from."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=SPAN_POINTS)
        self._totals: deque[tuple[float, int, int]] = deque(maxlen=RATE_SPAN_POINTS + 1)

    def add(self, at_s: float, model: ModelPage) -> None:
        self._totals.append((at_s, model.arrivals_total, model.output_tokens_total))
        requests_per_s, tokens_per_s = self._rates()
        states = [replica.state for replica in model.replicas]
        self.points.append(
            Point(
                at_s=at_s,
                demand=model.in_flight + model.queue.requests,
                desired=model.desired,
                serving=states.count(State.SERVING),
                running=sum(state not in ENDED for state in states),
                queued=model.queue.requests,
                ttft_p50_s=model.latency.ttft_p50_s,
                ttft_p95_s=model.latency.ttft_p95_s,
                requests_per_s=requests_per_s,
                tokens_per_s=tokens_per_s,
            )
        )

    def _rates(self) -> tuple[float | None, float | None]:
        (then_s, arrivals_then, tokens_then), (now_s, arrivals, tokens) = self._totals[0], self._totals[-1]
        # A total that fell belongs to a gateway that began anew.
        if now_s <= then_s or arrivals < arrivals_then or tokens < tokens_then:
            return None, None
        return (arrivals - arrivals_then) / (now_s - then_s), (tokens - tokens_then) / (now_s - then_s)


class History:
    """The trails of the models that the last page named; those of others are forgotten."""

    def __init__(self) -> None:
        self._trails: dict[ModelId, _Trail] = {}

    def add(self, page: FleetPage) -> None:
        """Keep one point of each model."""
        self._trails = {model.id: self._trails.get(model.id) or _Trail() for model in page.models}
        for model in page.models:
            self._trails[model.id].add(page.at_s, model)

    def newest(self) -> dict[ModelId, Point]:
        """The last point of each model."""
        return {model: trail.points[-1] for model, trail in self._trails.items()}

    def all(self) -> dict[ModelId, tuple[Point, ...]]:
        """Every point kept, oldest first."""
        return {model: tuple(trail.points) for model, trail in self._trails.items()}
