"""What is intended for one model: its settings, its autoscaler, its failures, its number and why."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from tidegate.core.effects import Decision, Shadowed
from tidegate.core.fleet.batches import Batches
from tidegate.core.fleet.byhand import BY_HAND, ByHand
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.lineup import Lineup, Need
from tidegate.core.fleet.reasons import Basis, Reason
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.autoscaler import Autoscaler, Standing
from tidegate.core.fleet.scaling.forecast import Expected
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.scaling.wishes import Grant
from tidegate.core.fleet.shadow import Shadow
from tidegate.core.fleet.sizes import Size
from tidegate.core.fleet.variants import OWN, Variants
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId, ReplicaId


class Plan:
    """One configured model. Owns its number of replicas; the controller owns the replicas."""

    def __init__(self, model: ModelId, spec: FleetModel, now_s: float) -> None:
        self.model = model
        self.spec = spec
        self.variants = Variants(spec)
        self.need = Need(spec.scaling.scale_down_delay_s)
        self.lineup: Lineup | None = None
        """Who is to serve, variant by variant; None where there is only one."""
        self.reserve = OWN
        """The variant that is started for its pool."""
        self.autoscaler = Autoscaler(spec.scaling, now_s, self.bounds[0] if self.bounds else None)
        self.desired = 0
        self.batches = Batches(self.variants)
        self.by_hand = ByHand()
        self.remark = ""
        """What there is to say of its replicas in this turn, beside their number."""
        self.choice = ""
        """Why others than the cheapest are in the line-up, if they are."""
        self.spent = 0.0
        """Since the last decision told."""
        self._before = 0
        self._basis: Basis | None = None
        self._shadow: Shadow | None = None
        self._said: tuple[object, ...] | None = None
        """Number, holder, whether more was asked for, remarks and variants, of the decision told last."""

    def __repr__(self) -> str:
        return f"<Plan {self.model} desired={self.desired} failures={self.variants.failures}>"

    @property
    def size(self) -> Size:
        """What one more replica would take."""
        return self.size_as(self.following)

    @property
    def taken(self) -> list[Size]:
        """What the number in force takes."""
        if self.lineup is None:
            return [self.size] * self.desired
        return [self.size_as(part.variant) for part in self.lineup.first(self.desired)]

    @property
    def following(self) -> str:
        """The variant that would be started next."""
        return OWN if self.lineup is None else self.lineup.following

    @property
    def named(self) -> frozenset[ReplicaId]:
        """Who is to serve by the line-up, as far as it was granted; nobody where there is none."""
        return frozenset() if self.lineup is None else self.lineup.named(self.desired)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """Between which a law's number can be, where that is not what the settings say."""
        scaling = self.spec.scaling
        if not self.variants.is_mixed:
            return None
        return self.variants.bounds(scaling.min_replicas, scaling.max_replicas)

    def spec_as(self, variant: str) -> FleetModel:
        """How a replica of this variant is started; as the model's own where there is no such variant any more."""
        return self.variants.spec(variant) or self.spec

    def size_as(self, variant: str) -> Size:
        """What one more replica of this variant would take."""
        return self.variants.sizes.get(variant) or self.variants.sizes[OWN]

    def configure(self, spec: FleetModel, now_s: float) -> None:
        """New settings. The number stands, and so does what is known; old failures are forgiven."""
        if spec == self.spec:
            return
        before = dict(self.variants.specs)
        self.spec = spec
        self.variants.configure(spec)
        self.batches.keep_same(before)
        if self.need.delay_s != spec.scaling.scale_down_delay_s:
            self.need = self.need.under(spec.scaling.scale_down_delay_s)
        self.lineup = None
        self.reserve = OWN
        self.choice = ""
        self.autoscaler.configure(spec.scaling, now_s)
        if self._shadow is not None and self._shadow.laws == spec.shadow:
            self._shadow.configure(now_s)
        else:
            self._shadow = None

    def is_outdated(self, replica: Replica) -> bool:
        """It was started in another way than one would be now. One that is lent by another model of its group
        is started in that model's way. So is one that has had a LoRA adapter's name from another source: engines keep
        what they have computed under it."""
        if replica.home != self.model and self.spec.pool.group:
            return replica.spec.pool.group != self.spec.pool.group
        now = self.variants.spec(replica.variant)
        if now is replica.spec:
            return False
        if now is None or now.command_hash != replica.spec.command_hash:
            return True
        return replica.aboard is not None and replica.aboard.clashes(now)

    def propose(self, demand: Demand, standing: Standing, now_s: float) -> Proposal:
        """What this model's policy wants, or what somebody has set instead, before the final clamp."""
        proposal = self.autoscaler.propose(demand, standing, now_s)
        hand = self.by_hand.number
        if hand is None:
            return proposal
        if hand.is_over(proposal.asked, now_s):
            self.by_hand.number = None
            if demand.complete_since_s is not None:
                return proposal
            # The law is in the dark, and what it last saw may be as old as the number.
            self.autoscaler.adopt(ceil(standing.live), now_s)
            return self.autoscaler.propose(demand, standing, now_s)
        return hand.put_upon(proposal, self.spec.scaling.schedule)

    def ended_by_hand(self, now_s: float) -> None:
        """Somebody has ended a replica that was wanted. Where that is adopted, one fewer holds."""
        if self.spec.adopts_ends and self._basis is not None:
            self.by_hand.end_one(self.desired, self._basis.proposal.asked, self.spec.by_hand_for_s, now_s)

    def still_stands(self, standing: Standing, now_s: float) -> bool:
        """While nobody says anything new of its demand: its replicas are as they were when its law was last asked, and
        nothing is due."""
        if self._basis is None or standing != self._basis.standing:
            return False
        return self.due_s is None or now_s < self.due_s

    def settle(
        self, demand: Demand, proposal: Proposal, grant: Grant, standing: Standing, now_s: float
    ) -> Decision | None:
        """Put the granted number in force. A Decision when there is something new to say: the first, a
        changed number, one held back in another way than was told last, or a remark."""
        self._basis = Basis(demand, proposal, grant, standing, now_s)
        self._before, self.desired = self.desired, grant.desired
        held_by = self._basis.held_by
        counts = None if self.lineup is None else sorted(self.lineup.counts(self.desired).items())
        # How far it is from what is asked for changes all the time; whether it is short of that is news.
        is_short = held_by is not None and proposal.asked > self.desired
        remark = self._remark
        saying = (self.desired, held_by, is_short, remark, counts)
        is_news = (held_by is not None or bool(remark) or counts is not None) and saying != self._said
        if self._said is not None and self.desired == self._before and not is_news:
            return None
        self._said = saying
        return self.decision()

    def look_aside(
        self, demand: Demand, standing: Standing, replicas: Sequence[Replica], cold: ColdStarts, now_s: float
    ) -> Shadowed | None:
        """Let the second policy, if there is one, look at the same turn."""
        if self.spec.shadow is None:
            return None
        if self._shadow is None:
            self._shadow = Shadow(self.model, self.spec.shadow, self.variants, now_s)
            self._shadow.begin(standing, replicas, now_s)
        return self._shadow.look(demand, standing, replicas, self.desired, cold, now_s)

    @property
    def forecast(self) -> Expected | None:
        """What is expected, and what comes of it; None while those hours have never been seen, and where no law asks."""
        return self._basis.forecast if self._basis else None

    @property
    def shadowed(self) -> Shadowed | None:
        """How the second policy stands; None without one."""
        return self._shadow.said if self._shadow else None

    @property
    def because(self) -> str:
        """Why the number in force is what it is; empty before the first turn. Cheaper than the whole decision."""
        return self._reason(self._basis).because if self._basis else ""

    def decision(self) -> Decision | None:
        """The number in force and what it was decided on; None before the first turn."""
        return self._reason(self._basis).decision() if self._basis else None

    @property
    def demand(self) -> Demand:
        """The demand that the number in force was decided on."""
        return self._basis.demand if self._basis else Demand()

    @property
    def proposal(self) -> Proposal:
        """What its law, or a hand, last answered."""
        return self._basis.proposal if self._basis else Proposal(0, 0, "")

    @property
    def is_capped(self) -> bool:
        """A cap of the whole fleet keeps it below what its demand asks for."""
        basis = self._basis
        if basis is None or basis.grant.held_by is None:
            return False
        return basis.grant.held_by.startswith("fleet.") and self._is_short(basis)

    def _is_short(self, basis: Basis) -> bool:
        """The number in force carries less than the demand asks for."""
        if self.lineup is not None:
            return not self.lineup.carries(self.desired)
        return self.desired < basis.proposal.asked

    @property
    def is_by_hand(self) -> bool:
        """The number in force is one that somebody set, as far as limits leave it, and not the law's."""
        return self._basis is not None and self._basis.proposal.held_by == BY_HAND

    @property
    def sheds(self) -> bool:
        """Something that will not give way soon keeps it below what its demand asks for: a cap, or a hand."""
        if self._basis is not None and self.is_by_hand and self._is_short(self._basis):
            return True
        return self.is_capped

    @property
    def due_s(self) -> float | None:
        """When the number may change without news."""
        if self._basis is None or self.lineup is None or self.need.due_s is None:
            return self._basis.proposal.due_at_s if self._basis else None
        return min(self.need.due_s, self._basis.proposal.due_at_s or inf)

    @property
    def _remark(self) -> str:
        return "; ".join(filter(None, (self.remark or self.choice, self.batches.mismatch)))

    def _reason(self, basis: Basis) -> Reason:
        return Reason(
            model=self.model,
            spec=self.spec,
            variants=self.variants,
            lineup=self.lineup,
            hold_s=self.need.delay_s,
            basis=basis,
            before=self._before,
            desired=self.desired,
            remark=self._remark,
            spent=self.spent,
        )
