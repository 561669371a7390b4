"""What is known of all replicas, and what their failures mean for their models.

The one place that all who give orders about replicas look at: the records, the plans, how long starts take,
the demand. Each failure is remembered with its reason, at its model's gate and for the admin page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tidegate.core.effects import Demote, Launch, Pooled, Promote, Sleep, Stop, Wake
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, Replicas
from tidegate.core.fleet.variants import OWN
from tidegate.core.fleet.view import Failure
from tidegate.core.lifecycle import State
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId

FAILURES_KEPT = 50
"""How many failures of the whole fleet can be looked at; each model's last one is always kept."""

HALF = 0.5
"""Of a start: who begins later than this comes up mostly by itself."""

Order = Launch | Promote | Demote | Sleep | Wake | Stop | Pooled


class Roster:
    """Owns the records of all replicas."""

    def __init__(self, demand: DemandBook) -> None:
        self.replicas = Replicas()
        self.cold = ColdStarts()
        self.demand = demand
        self.plans: Mapping[ModelId, Plan] = {}
        self.failures: deque[Failure] = deque(maxlen=FAILURES_KEPT)
        self.last_failure: dict[ModelId, Failure] = {}

    def __repr__(self) -> str:
        return f"<Roster {self.replicas!r} failures={len(self.failures)}>"

    def spec_of(self, replica: Replica) -> FleetModel:
        """Its model's settings as they are now; those it was launched with when the model is gone."""
        plan = self.plans.get(replica.model)
        return plan.spec if plan else replica.spec

    def ready_s(self, plan: Plan, variant: str) -> float:
        """From a launch to serving, as far as that is known; what is not known is not held against it."""
        otherwise_s = plan.spec_as(variant).expected_start_s
        kind = self.cold.kinds.of_next(plan.model, variant)
        return self.cold.start_s(plan.model, otherwise_s, kind, unknown_s=0.0) or 0.0

    def launch(
        self,
        plan: Plan,
        missing: int,
        coming_up: int,
        launching: Launching,
        now_s: float,
        because: str | None = None,
        variant: str = OWN,
    ) -> list[Order]:
        """Start as many of the missing as the model's failures, the caps and the hour allow."""
        effects: list[Order] = []
        for _ in range(plan.variants.gate(variant).allowed(missing, coming_up, now_s)):
            place = launching.take(plan, variant)
            if place is None:
                break
            replica = self.replicas.launch(plan.model, plan.spec_as(variant), place, now_s, variant)
            self._note_company(replica, now_s)
            kind = self.cold.kinds.of(replica)
            replica.fetch_s = self.cold.fetch_s(plan.model, replica.spec.expected_start_s, kind)
            why, where = because or plan.because, place if place.gpus else None
            effects.append(Launch(replica.replica_id, plan.model, why, variant, where))
        return effects

    def _note_company(self, replica: Replica, now_s: float) -> None:
        """Starts that begin within half a start of each other are side by side."""
        for other in self.replicas.coming_up():
            if other is replica or (replica.is_beside and other.is_beside):
                continue  # of many that are ordered at once most are known to be
            if not other.shares_machine(replica):
                continue
            kind = self.cold.kinds.of(other)
            took_s = self.cold.expected_s(other.model, other.spec.expected_start_s, kind=kind)
            if took_s is None or now_s - other.launched_s <= HALF * took_s:
                replica.is_beside = other.is_beside = True

    def note_failure(self, replica: Replica, before: State, detail: str, now_s: float) -> None:
        """Failing to start counts against the model, and so does dying soon after being ready."""
        self.forgive(replica, now_s)
        replica.detail = detail
        failure = Failure(now_s, replica.model, replica.replica_id, before, detail)
        self.failures.append(failure)
        self.last_failure[replica.model] = failure
        plan = self.plans.get(replica.model)
        if plan is None or replica.is_forgiven:
            return
        line = " ".join(detail.split())[:300]
        plan.variants.gate(replica.variant).fail(
            replica.number, self.replicas.highest(replica.model), line, now_s
        )

    def forgive(self, replica: Replica, now_s: float) -> None:
        """Once, when it has served for long enough."""
        forgiven_after_s = self.spec_of(replica).restarts.forgiven_after_s
        if replica.is_forgiven or replica.ready_s is None or now_s < replica.ready_s + forgiven_after_s:
            return
        replica.is_forgiven = True
        plan = self.plans.get(replica.model)
        if plan is not None:
            plan.variants.gate(replica.variant).forgive()
