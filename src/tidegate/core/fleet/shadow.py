"""A second policy beside the one that acts: it sees the live traffic, decides, and nothing comes of it.

Its fleet is imagined: what it asks for beyond what it has is ready after the model's median start, what it gives up is gone
at once. Both courses, the imagined and the real one, are judged by the same closed estimate (``judging``), so what is told
is a comparison and no measurement; and traffic is open loop, it came while the other policy acted.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.effects import Shadowed
from tidegate.core.fleet.judging import Judged
from tidegate.core.fleet.predicting import traffic_of
from tidegate.core.fleet.scaling.autoscaler import Autoscaler, Standing
from tidegate.core.fleet.scaling.policies import Coming, Demand
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId

JUDGED_EVERY_S = 5.0
TOLD_EVERY_S = 300.0
"""And whenever its number changes."""


class Shadow:
    """One model's second policy, its imagined fleet, and how both have done so far."""

    def __init__(
        self, model: ModelId, policy: ScalingPolicy, spec: FleetModel, live: int, now_s: float
    ) -> None:
        self.policy = policy
        self._model = model
        self._autoscaler = Autoscaler(_under(policy, spec.scaling), now_s)
        self._autoscaler.adopt(live, now_s)
        self._serving = live
        self._coming: list[tuple[float, float]] = []
        """When each was launched in thought, and when it will be ready."""
        self._own = Judged()
        self._acting = Judged()
        self._judged_s = now_s
        self._told_s: float | None = None
        self._said: Shadowed | None = None

    def __repr__(self) -> str:
        return f"<Shadow {self.policy.value} serving={self._serving} coming={len(self._coming)}>"

    @property
    def said(self) -> Shadowed | None:
        """How it stood at the last turn; None before the first."""
        return self._said

    def configure(self, spec: FleetModel, now_s: float) -> None:
        """The model's settings have changed."""
        self._autoscaler.configure(_under(self.policy, spec.scaling), now_s)

    def look(
        self, demand: Demand, standing: Standing, spec: FleetModel, acting: int, now_s: float
    ) -> Shadowed | None:
        """One turn beside the real one, in which the acting policy's number is ``acting``. Something to tell when its
        own number has changed, and every five minutes."""
        self._judge(demand, standing, spec, now_s)
        self._coming.sort(key=lambda start: start[1])
        while self._coming and self._coming[0][1] <= now_s:
            self._coming.pop(0)
            self._serving += 1
        proposal = self._autoscaler.propose(demand, self._imagined(standing, spec, now_s), now_s)
        number = max(spec.scaling.min_replicas, min(proposal.wanted, spec.scaling.max_replicas))
        self._go_to(number, standing, now_s)
        before = self._said
        self._said = Shadowed(
            model=self._model,
            policy=self.policy.value,
            desired=number,
            acting=acting,
            because=proposal.because,
            judged_s=self._own.judged_s,
            attainment=self._own.attainment,
            acting_attainment=self._acting.attainment,
            replica_hours=self._own.replica_hours,
            acting_replica_hours=self._acting.replica_hours,
            cost=self._own.cost,
            acting_cost=self._acting.cost,
            regret=_regret(self._acting, self._own),
        )
        is_news = before is None or before.desired != number
        if not is_news and self._told_s is not None and now_s < self._told_s + TOLD_EVERY_S:
            return None
        self._told_s = now_s
        return self._said

    def _judge(self, demand: Demand, standing: Standing, spec: FleetModel, now_s: float) -> None:
        span_s = now_s - self._judged_s
        if span_s < JUDGED_EVERY_S:
            return
        self._judged_s = now_s
        traffic = traffic_of(demand, now_s)
        there = self._serving + len(self._coming)
        self._own.go_on(span_s, traffic, demand.capacity, spec, serving=self._serving, there=there)
        self._acting.go_on(
            span_s,
            traffic,
            demand.capacity,
            spec,
            serving=standing.serving,
            there=standing.live + standing.kept,
        )

    def _imagined(self, standing: Standing, spec: FleetModel, now_s: float) -> Standing:
        """What the policy is told of its fleet."""
        live = self._serving + len(self._coming)
        first_ready_s = None
        if self._serving:
            first_ready_s = now_s if standing.first_ready_s is None else standing.first_ready_s
        return replace(
            standing,
            coming_up=len(self._coming),
            serving=self._serving,
            serving_slots=self._serving * spec.slots,
            first_ready_s=first_ready_s,
            live=live,
            kept=0,
            there=live,
            coming=tuple(Coming(launched_s, ready_s) for launched_s, ready_s in self._coming),
        )

    def _go_to(self, number: int, standing: Standing, now_s: float) -> None:
        missing = number - self._serving - len(self._coming)
        if missing > 0:
            start_s = standing.readiness.median_s or 0.0
            self._coming += [(now_s, now_s + start_s)] * missing
            return
        for _ in range(-missing):
            if self._coming:
                self._coming.pop()  # the one that would be ready last
            else:
                self._serving -= 1


def _under(policy: ScalingPolicy, scaling: Scaling) -> Scaling:
    return replace(scaling, policy=policy, law=(), also=())


def _regret(acting: Judged, own: Judged) -> float | None:
    """How much more the acting policy has cost, as a share, in money or, without prices, in hours."""
    paid, would_pay = (acting.cost, own.cost) if own.cost > 0 else (acting.replica_s, own.replica_s)
    return paid / would_pay - 1.0 if would_pay > 0 else None
