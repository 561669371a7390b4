"""What is intended for one model: its settings, its autoscaler, its failures, its number and why."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.effects import Decision, Prediction, Shadowed
from tidegate.core.events import EngineReported
from tidegate.core.fleet.coldstart import PROMOTION_S, ColdStarts, Readiness
from tidegate.core.fleet.predicting import Traffic, attainment, traffic_of
from tidegate.core.fleet.replicas import Replica, size_in
from tidegate.core.fleet.scaling.autoscaler import Autoscaler, Standing
from tidegate.core.fleet.scaling.limits import Grant, Size, Wish
from tidegate.core.fleet.scaling.policies import Coming, Demand, EngineSeen, Proposal
from tidegate.core.fleet.shadow import Shadow
from tidegate.core.fleet.starts import StartGate
from tidegate.core.lifecycle import State
from tidegate.core.settings import FleetModel
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.core.values import value


@value
class _Basis:
    """What the number in force was decided on."""

    demand: Demand
    proposal: Proposal
    grant: Grant
    standing: Standing
    now_s: float


class Plan:
    """One configured model. Owns its number of replicas; the controller owns the replicas."""

    def __init__(self, model: ModelId, spec: FleetModel, now_s: float) -> None:
        self.model = model
        self.spec = spec
        self.gate = StartGate(spec.restarts)
        self.autoscaler = Autoscaler(spec.scaling, now_s)
        self.desired = 0
        self.remark = ""
        """What there is to say of its replicas in this turn, beside their number."""
        self.spent = 0.0
        """Since the last decision told."""
        self._before = 0
        self._basis: _Basis | None = None
        self._shadow: Shadow | None = None
        self._said: tuple[int, str | None, int, str] | None = None
        """Number, holder, what was asked for and remark, of the decision told last."""

    def __repr__(self) -> str:
        return f"<Plan {self.model} desired={self.desired} failures={self.gate.failures}>"

    @property
    def size(self) -> Size:
        """What one more replica would take."""
        return size_in(self.spec, State.SERVING)

    def configure(self, spec: FleetModel, now_s: float) -> None:
        """New settings. The number stands, and so does what is known; old failures are forgiven."""
        if spec == self.spec:
            return
        self.spec = spec
        self.gate.configure(spec.restarts)
        self.autoscaler.configure(spec.scaling, now_s)
        if self._shadow is not None and self._shadow.policy is spec.shadow:
            self._shadow.configure(spec, now_s)
        else:
            self._shadow = None

    def is_outdated(self, replica: Replica) -> bool:
        """It was started in another way than one would be now. One that is lent by another model of its group
        is started in that model's way."""
        if replica.home != self.model and self.spec.pool.group:
            return replica.spec.pool.group != self.spec.pool.group
        return replica.spec is not self.spec and replica.spec.command_hash != self.spec.command_hash

    def propose(self, demand: Demand, standing: Standing, now_s: float) -> Proposal:
        """What this model's policy wants, before the final clamp."""
        return self.autoscaler.propose(demand, standing, now_s)

    def wish(self, proposal: Proposal, standing: Standing, now_s: float) -> Wish:
        """The proposal in the words of the final clamp."""
        return Wish(
            model=self.model,
            wanted=proposal.wanted,
            min_replicas=self.spec.scaling.min_replicas,
            max_replicas=self.spec.scaling.max_replicas,
            held=standing.there,
            asleep=standing.asleep,
            size=self.size,
            can_start=self.gate.block(now_s) is None,
        )

    def settle(
        self, demand: Demand, proposal: Proposal, grant: Grant, standing: Standing, now_s: float
    ) -> Decision | None:
        """Put the granted number in force. A Decision when there is something new to say: the first, a
        changed number, one held back in another way than was told last, or a remark."""
        self._basis = _Basis(demand, proposal, grant, standing, now_s)
        self._before, self.desired = self.desired, grant.desired
        held_by = grant.held_by or proposal.held_by
        saying = (self.desired, held_by, proposal.asked if held_by else -1, self.remark)
        is_news = (held_by is not None or bool(self.remark)) and saying != self._said
        if self._said is not None and self.desired == self._before and not is_news:
            return None
        self._said = saying
        return self.decision()

    def look_aside(self, demand: Demand, standing: Standing, now_s: float) -> Shadowed | None:
        """Let the second policy, if there is one, look at the same turn."""
        if self.spec.shadow is None:
            return None
        if self._shadow is None:
            self._shadow = Shadow(self.model, self.spec.shadow, self.spec, standing.live, now_s)
        return self._shadow.look(demand, standing, self.spec, self.desired, now_s)

    @property
    def shadowed(self) -> Shadowed | None:
        """How the second policy stands; None without one."""
        return self._shadow.said if self._shadow else None

    @property
    def because(self) -> str:
        """Why the number in force is what it is; empty before the first turn. Cheaper than the whole decision."""
        return self._because(self._basis) if self._basis else ""

    def decision(self) -> Decision | None:
        """The number in force and what it was decided on; None before the first turn."""
        if self._basis is None:
            return None
        basis, desired = self._basis, self.desired
        traffic = traffic_of(basis.demand, basis.now_s)
        return Decision(
            model=self.model,
            desired=desired,
            before=self._before,
            because=self._because(basis),
            held_by=basis.grant.held_by or basis.proposal.held_by,
            inputs=_inputs(basis, traffic),
            fewer=self._prediction(max(0, desired - 1), basis.demand, traffic),
            chosen=self._prediction(desired, basis.demand, traffic),
            more=self._prediction(desired + 1, basis.demand, traffic),
            spent=self.spent,
        )

    @property
    def demand(self) -> Demand:
        """The demand that the number in force was decided on."""
        return self._basis.demand if self._basis else Demand()

    @property
    def is_capped(self) -> bool:
        """A cap of the whole fleet keeps it below what its demand asks for."""
        basis = self._basis
        if basis is None or basis.grant.held_by is None:
            return False
        return basis.grant.held_by.startswith("fleet.") and self.desired < basis.proposal.asked

    @property
    def due_s(self) -> float | None:
        """When the number may change without news."""
        return self._basis.proposal.due_at_s if self._basis else None

    def _because(self, basis: _Basis) -> str:
        why = [basis.proposal.because]
        match basis.grant.held_by:
            case None:
                pass
            case "min_replicas":
                why.append(f"min_replicas keeps {self.desired}")
            case "max_replicas":
                why.append(f"max_replicas allows {self.desired}")
            case cap:
                why.append(f"{cap} leaves {self.desired}")
        if self.remark:
            why.append(self.remark)
        return "; ".join(why)

    def _prediction(self, replicas: int, demand: Demand, traffic: Traffic | None) -> Prediction:
        slots = replicas * self.spec.slots
        queued = max(0, round(demand.peak) - slots)
        kept = None
        if traffic is not None and demand.capacity is not None:
            kept = attainment(replicas, traffic, demand.capacity, self.spec.slots, self.spec.scaling.promise)
        return Prediction(replicas, slots, queued, replicas * self.spec.price_per_h, kept)


def standing_of(plan: Plan, replicas: Iterable[Replica], cold: ColdStarts, now_s: float) -> Standing:
    """One model's replicas, counted, and what is known of their starts.

    Where it has a pool, what comes up beyond the number that is to serve comes up for the pool, and no law counts
    on it; and the next replica comes from the nearest tier that holds one.
    """
    coming_up = serving = slots = live = kept = warm = asleep = 0
    first_ready_s: float | None = None
    coming: list[Coming] = []
    engines: list[EngineSeen] = []
    reads_engines = plan.autoscaler.reads_engines
    for replica in replicas:
        if replica.state is State.SERVING:
            serving += 1
            live += 1
            slots += replica.spec.slots
            ready_s = replica.ready_s
            if ready_s is not None and (first_ready_s is None or ready_s < first_ready_s):
                first_ready_s = ready_s
            if reads_engines and replica.engine is not None:
                engines.append(_engine_seen(replica, replica.engine, now_s))
        else:
            if replica.is_coming_up:
                coming_up += 1
                coming.append(_coming(replica, cold))
            live += replica.is_live
            kept += replica.can_be_kept
            warm += replica.is_warm
            asleep += replica.state is State.SLEEPING
    there = live + kept + asleep
    if plan.spec.pool.is_used:
        coming_up = min(coming_up, max(0, plan.desired - serving))
        coming = coming[:coming_up]
        live = serving + coming_up
    return Standing(
        coming_up,
        serving,
        slots,
        first_ready_s,
        live,
        kept,
        there,
        tuple(coming),
        tuple(engines),
        _next_readiness(plan, cold, warm, asleep),
        plan.spec.slots,
        plan.spec.price_per_h,
        asleep,
    )


def _next_readiness(plan: Plan, cold: ColdStarts, warm: int, asleep: int) -> Readiness:
    """Of the replica that would come next."""
    if warm:
        return Readiness(PROMOTION_S)
    if asleep:
        return cold.readiness(plan.model, plan.spec.pool.expected_wake_s, Tier.SLEEPING)
    return cold.readiness(plan.model, plan.spec.expected_start_s)


def _engine_seen(replica: Replica, page: EngineReported, now_s: float) -> EngineSeen:
    age_s = now_s - replica.engine_s
    return EngineSeen(replica.replica_id, age_s, page.running, page.waiting, page.kv_usage_ratio)


def _coming(replica: Replica, cold: ColdStarts) -> Coming:
    if replica.state is State.WAKING:
        wake_s = cold.expected_s(replica.home, replica.spec.pool.expected_wake_s, Tier.SLEEPING)
        ready_s = None if wake_s is None else replica.since_s + wake_s
        return Coming(replica.since_s, ready_s, Tier.SLEEPING)
    here_s, took_s = replica.weights_here_s, cold.expected_s(replica.model, replica.spec.expected_start_s)
    ready_s = None if here_s is None or took_s is None else here_s + took_s
    return Coming(replica.launched_s, ready_s, Tier.COLD)


def _inputs(basis: _Basis, traffic: Traffic | None) -> dict[str, float]:
    """The numbers that the decision was made from. What is not known is left out."""
    inputs = dict(basis.proposal.inputs)
    inputs["asked"] = float(basis.proposal.asked)
    inputs["queued"] = float(basis.demand.queued)
    inputs["in_flight"] = float(basis.demand.in_flight)
    inputs["live"] = float(basis.standing.live)
    inputs["serving"] = float(basis.standing.serving)
    if basis.demand.complete_since_s is not None:
        inputs["complete_since_s"] = basis.demand.complete_since_s
    if traffic is not None:
        inputs["arrivals_per_s"] = traffic.arrivals_per_s
        inputs["mean_prompt_tokens"] = traffic.prompt_tokens
        inputs["mean_output_tokens"] = traffic.output_tokens
    return inputs
