"""What is intended for one model: its settings, its autoscaler, its failures, its number and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, inf

from tidegate.core.effects import Decision, Prediction, Shadowed
from tidegate.core.events import ScaledByHand
from tidegate.core.fleet.answering import Traffic
from tidegate.core.fleet.byhand import BY_HAND, HandNumber
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.crews import counted, crew_of, price_per_h
from tidegate.core.fleet.lineup import Lineup, Need
from tidegate.core.fleet.predicting import attainment, traffic_of
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.autoscaler import Autoscaler, Standing
from tidegate.core.fleet.scaling.forecast import SETS_FLOOR, Expected
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.scaling.wishes import Grant, Wish
from tidegate.core.fleet.shadow import Shadow
from tidegate.core.fleet.sizes import Size
from tidegate.core.fleet.variants import DEFAULT, OWN, Variants
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId, ReplicaId
from tidegate.core.values import value

HELD_LEAST = 0.005
"""A need that is so little above what is asked for now is not called held."""


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
        self.variants = Variants(spec)
        self.need = Need(spec.scaling.scale_down_delay_s)
        self.lineup: Lineup | None = None
        """Who is to serve, variant by variant; None where there is only one."""
        self.reserve = OWN
        """The variant that is started for its pool."""
        self.autoscaler = Autoscaler(spec.scaling, now_s, self.bounds[0] if self.bounds else None)
        self.desired = 0
        self.batches: dict[str, int] = {}
        """Requests that engines of each variant run at once at most, where that has been seen."""
        self.hand: HandNumber | None = None
        """A number that somebody set."""
        self.remark = ""
        """What there is to say of its replicas in this turn, beside their number."""
        self.choice = ""
        """Why others than the cheapest are in the line-up, if they are."""
        self.spent = 0.0
        """Since the last decision told."""
        self._before = 0
        self._basis: _Basis | None = None
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

    def slots_as(self, variant: str) -> int:
        """Requests that one replica of this variant takes at once: what its settings say, or its engine's batch size where
        that is known to be smaller."""
        slots = self.spec_as(variant).slots
        return min(slots, self.batches.get(variant, slots))

    def learn_batch(self, variant: str, replicas: Iterable[Replica]) -> None:
        """One of this variant has shown its batch size, or a larger one than it was thought to have."""
        alike = [each for each in replicas if each.variant == variant and not each.is_ended]
        sizes = [each.batch.size for each in alike if each.batch.size and not self.is_outdated(each)]
        self.batches.pop(variant, None)
        if sizes:
            self.batches[variant] = min(sizes)

    @property
    def mismatch(self) -> str:
        """Which engines run fewer requests at once than they are counted on for, in words; empty: none is known to."""
        said = []
        target = self.spec.scaling.concurrency_target
        for variant, batch in sorted(self.batches.items()):
            slots = self.spec_as(variant).slots
            if batch >= slots:
                continue
            whose = self.variants.named(variant)
            beyond = (
                f" and its concurrency_target {target:g}" if target is not None and target > batch else ""
            )
            said.append(
                f"{f'{whose}: ' if whose else ''}an engine runs {batch} requests at once while others wait in it, "
                f"but its slots are {slots}{beyond}; make them equal"
            )
        return "; ".join(said)

    def configure(self, spec: FleetModel, now_s: float) -> None:
        """New settings. The number stands, and so does what is known; old failures are forgiven."""
        if spec == self.spec:
            return
        before = dict(self.variants.specs)
        self.spec = spec
        self.variants.configure(spec)
        self.batches = {
            name: batch
            for name, batch in self.batches.items()
            if (was := before.get(name)) is not None
            and (now := self.variants.spec(name)) is not None
            and now.command_hash == was.command_hash
        }
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
        if self.hand is None:
            return proposal
        if self.hand.is_over(proposal.asked, now_s):
            self.hand = None
            if demand.complete_since_s is not None:
                return proposal
            # The law is in the dark, and what it last saw may be as old as the number.
            self.autoscaler.adopt(ceil(standing.live), now_s)
            return self.autoscaler.propose(demand, standing, now_s)
        return self.hand.put_upon(proposal, self.spec.scaling.schedule)

    def set_by_hand(self, event: ScaledByHand, now_s: float) -> None:
        """Somebody sets the number, or lets the law have it again."""
        if event.replicas is None or not 0.0 < event.for_s < inf:
            self.hand = None
            return
        until_s = now_s + event.for_s
        self.hand = HandNumber(max(0, event.replicas), now_s, until_s, event.at_least, event.asked)

    def ended_by_hand(self, now_s: float) -> None:
        """Somebody has ended a replica that was wanted. Where that is adopted, one fewer holds."""
        if not self.spec.adopts_ends or self._basis is None:
            return
        if self.hand is not None and self.hand.asked is None:
            return  # A number was set, and it says what is wanted.
        held = self.desired if self.hand is None else self.hand.replicas
        until_s = now_s + self.spec.by_hand_for_s
        self.hand = HandNumber(max(0, held - 1), now_s, until_s, False, self._basis.proposal.asked)

    def still_stands(self, standing: Standing, now_s: float) -> bool:
        """While nobody says anything new of its demand: its replicas are as they were when its law was last asked, and
        nothing is due."""
        if self._basis is None or standing != self._basis.standing:
            return False
        return self.due_s is None or now_s < self.due_s

    def wish(self, proposal: Proposal, standing: Standing, now_s: float) -> Wish:
        """The proposal in the words of the final clamp."""
        lineup = self.lineup
        return Wish(
            model=self.model,
            wanted=proposal.wanted if lineup is None else self._places(lineup, proposal),
            min_replicas=self.spec.scaling.min_replicas,
            max_replicas=self.spec.scaling.max_replicas,
            held=standing.there if lineup is None else lineup.there,
            asleep=standing.asleep if lineup is None else lineup.asleep,
            size=self.size,
            can_start=self.variants.block(now_s) is None,
            is_owed=standing.is_owed,
            sizes=() if lineup is None else tuple(self.size_as(part.variant) for part in lineup.parts),
        )

    def _places(self, lineup: Lineup, proposal: Proposal) -> int:
        """How many of the line-up: as many as the need asks for, or as a hand says."""
        if self.hand is None or proposal.held_by != BY_HAND:
            return lineup.asked
        return max(lineup.asked, proposal.wanted) if self.hand.at_least else proposal.wanted

    def settle(
        self, demand: Demand, proposal: Proposal, grant: Grant, standing: Standing, now_s: float
    ) -> Decision | None:
        """Put the granted number in force. A Decision when there is something new to say: the first, a
        changed number, one held back in another way than was told last, or a remark."""
        self._basis = _Basis(demand, proposal, grant, standing, now_s)
        self._before, self.desired = self.desired, grant.desired
        held_by = grant.held_by or proposal.held_by
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
        if self._basis is None or self._basis.demand.forecast is None:
            return None
        told = self._basis.demand.forecast.told
        if told is None:
            return None
        sets_floor = told.is_believed and SETS_FLOOR in self._basis.proposal.inputs
        return replace(told, sets_floor=sets_floor)

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
            variants=None if self.lineup is None else _named(self.lineup.counts(desired)),
            needed=None if self.lineup is None else self.lineup.need,
        )

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

    def _is_short(self, basis: _Basis) -> bool:
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
    def kept_at_none(self) -> tuple[str, float] | None:
        """Why none is to serve though it may be asked for, and until when; None: somebody may be started."""
        hand = self.hand
        if hand is None or hand.at_least or hand.replicas or self.spec.scaling.min_replicas:
            return None
        return f"it is {hand.said(self.spec.scaling.schedule)}", hand.until_s

    @property
    def due_s(self) -> float | None:
        """When the number may change without news."""
        if self._basis is None or self.lineup is None or self.need.due_s is None:
            return self._basis.proposal.due_at_s if self._basis else None
        return min(self.need.due_s, self._basis.proposal.due_at_s or inf)

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
        if self.lineup is not None:
            counts = _named(self.lineup.counts(self.desired))
            mix = ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"
            need, exact = self.lineup.need, basis.proposal.needed
            is_held = exact is not None and need > exact + HELD_LEAST
            when = f" within the last {self.need.delay_s:g} s" if is_held else ""
            why.append(f"{need:.2f} needed{when}, in replicas of {DEFAULT}: {mix}")
        if self._remark:
            why.append(self._remark)
        return "; ".join(why)

    @property
    def _remark(self) -> str:
        return "; ".join(filter(None, (self.remark or self.choice, self.mismatch)))

    def _prediction(self, replicas: int, demand: Demand, traffic: Traffic | None) -> Prediction:
        counts: Mapping[str, int] = {OWN: replicas} if self.lineup is None else self.lineup.counts(replicas)
        those = counted(self.variants, counts)
        slots = sum(self.spec_as(name).slots * number for name, number in counts.items())
        queued = max(0, round(demand.peak) - slots)
        crew = None if traffic is None else crew_of(those, self.spec, demand)
        kept = None
        if traffic is not None and crew is not None:
            kept = attainment(crew, traffic, self.spec.scaling.promise)
        return Prediction(replicas, slots, queued, price_per_h(those), kept)


def _named(counts: dict[str, int]) -> dict[str, int]:
    return {name or DEFAULT: count for name, count in counts.items()}


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
    foresees = basis.demand.forecast
    told = None if foresees is None else foresees.told
    if told is not None:
        inputs["expected_per_s"] = told.requests_per_s
        inputs["expected_within_s"] = told.ahead_s
        inputs["forecast_is_believed"] = float(told.is_believed)
        if told.lengths is not None:
            inputs["expected_prompt_tokens"], inputs["expected_output_tokens"] = told.lengths
    if traffic is not None:
        inputs["arrivals_per_s"] = traffic.arrivals_per_s
        inputs["mean_prompt_tokens"] = traffic.prompt_tokens
        inputs["mean_output_tokens"] = traffic.output_tokens
    return inputs
