"""A second policy beside the one that acts: it sees the live traffic, decides, and nothing comes of it.

Its fleet is imagined: what it asks for beyond what it has is ready after the median start of the variant, what it gives up
is gone at once. Where the model has variants its number is made of them as the acting one's is (``lineup``). Both courses,
the imagined and the real one, are judged by the same closed estimate (``judging``), so what is told is a comparison and no
measurement; and traffic is open loop, it came while the other policy acted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from tidegate.core.effects import Shadowed
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.crews import (
    Counted,
    counted,
    counted_as_started,
    crew_of,
    number_of,
    price_per_h,
)
from tidegate.core.fleet.judging import Judged
from tidegate.core.fleet.lineup import Lineup, Member, Need, Reach, lineup
from tidegate.core.fleet.mixing import Offer
from tidegate.core.fleet.predicting import traffic_of
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.autoscaler import Autoscaler, Standing
from tidegate.core.fleet.scaling.forecast import Aside, Forecast
from tidegate.core.fleet.scaling.policies import Coming, Demand, Proposal
from tidegate.core.fleet.variants import OWN, Variants
from tidegate.core.lifecycle import State
from tidegate.core.scaling_settings import LawSettings
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId, ReplicaId

JUDGED_EVERY_S = 5.0
TOLD_EVERY_S = 300.0
"""And whenever its number changes."""


@dataclass(frozen=True, slots=True)
class _Imagined:
    """A replica in thought."""

    variant: str
    launched_s: float
    ready_s: float
    """It serves from then on."""


_Course = tuple[list[Counted], list[Counted]]


class Shadow:
    """One model's second policy, its imagined fleet, and how both have done so far."""

    def __init__(
        self, model: ModelId, laws: tuple[LawSettings, ...], variants: Variants, now_s: float
    ) -> None:
        """``laws``: the first is the policy, the others have a say too. ``variants`` are those of the model's plan, as they
        are at each moment."""
        self.laws = laws
        self._model = model
        self._variants = variants
        self._autoscaler = Autoscaler(self._spec.scaling.under(laws), now_s)
        self._need = Need(self._spec.scaling.scale_down_delay_s)
        self._fleet: list[_Imagined] = []
        """In order of readiness."""
        self._own = Judged()
        self._acting = Judged()
        self._judged_s = now_s
        self._were: tuple[_Course, _Course] | None = None
        """Since it was judged last, of its own and of the acting policy's: who serves, and who is there."""
        self._told_s: float | None = None
        self._said: Shadowed | None = None

    def __repr__(self) -> str:
        return f"<Shadow {self.name} fleet={len(self._fleet)}>"

    @property
    def name(self) -> str:
        """Of its laws, as they are told."""
        return " + ".join(law.policy.value for law in self.laws)

    @property
    def said(self) -> Shadowed | None:
        """How it stood at the last turn; None before the first."""
        return self._said

    @property
    def _spec(self) -> FleetModel:
        return self._variants.specs[OWN]

    def begin(self, standing: Standing, replicas: Sequence[Replica], now_s: float) -> None:
        """It begins with what there is, as if all of it served."""
        live = [replica.variant for replica in replicas if replica.is_live]
        if not self._variants.is_mixed:
            live = [OWN] * ceil(standing.live)  # without what comes up for the pool
        self._fleet = [_Imagined(variant, now_s, now_s) for variant in live]
        self._autoscaler.adopt(ceil(standing.live), now_s)
        self._need.adopt(standing.live)

    def configure(self, now_s: float) -> None:
        """The model's settings have changed."""
        scaling = self._spec.scaling
        self._autoscaler.configure(scaling.under(self.laws), now_s)
        if self._need.delay_s != scaling.scale_down_delay_s:
            self._need = self._need.under(scaling.scale_down_delay_s)

    def look(
        self,
        demand: Demand,
        standing: Standing,
        replicas: Sequence[Replica],
        acting: int,
        cold: ColdStarts,
        now_s: float,
    ) -> Shadowed | None:
        """One turn beside the real one, in which the acting policy's number is ``acting``. Something to tell when its
        own number has changed, and every five minutes."""
        self._judge(demand, standing, replicas, now_s)
        if isinstance(demand.forecast, Forecast):
            demand = replace(demand, forecast=Aside(demand.forecast))
        proposal = self._autoscaler.propose(demand, self._imagined(standing, now_s), now_s)
        self._go_to(proposal, standing, cold, now_s)
        number = len(self._fleet)
        before = self._said
        self._said = Shadowed(
            model=self._model,
            policy=self.name,
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

    # ---- both courses, judged ----

    def _judge(self, demand: Demand, standing: Standing, replicas: Sequence[Replica], now_s: float) -> None:
        span_s = now_s - self._judged_s
        serving = self._counted([one for one in self._fleet if one.ready_s <= now_s])
        if self._variants.is_mixed:
            serves = [replica for replica in replicas if replica.state is State.SERVING]
            there = [replica for replica in replicas if replica.is_live or replica.can_be_kept]
            serve, are = (counted_as_started(self._variants, some) for some in (serves, there))
        else:
            serve = counted(self._variants, {OWN: standing.serving})
            are = counted(self._variants, {OWN: standing.live + standing.kept})
        courses = (serving, self._counted(self._fleet)), (serve, are)
        if span_s < JUDGED_EVERY_S and courses == self._were:
            return
        self._judged_s = now_s
        # Who becomes ready in this turn has not served before it.
        if self._were is not None:
            for judged, (served, there_were) in zip((self._own, self._acting), self._were, strict=True):
                self._go_on(judged, span_s, demand, served, there_were, now_s)
        self._were = courses

    def _go_on(
        self,
        judged: Judged,
        span_s: float,
        demand: Demand,
        serving: Sequence[Counted],
        there: Sequence[Counted],
        now_s: float,
    ) -> None:
        judged.go_on(
            span_s,
            demand.past.arrivals,
            traffic_of(demand, now_s),
            crew_of(serving, self._spec, demand),
            self._spec.scaling.promise,
            there=number_of(there),
            price_per_h=price_per_h(there),
        )

    def _counted(self, those: Sequence[_Imagined]) -> list[Counted]:
        return counted(self._variants, Counter(one.variant for one in those))

    # ---- the imagined fleet ----

    def _imagined(self, standing: Standing, now_s: float) -> Standing:
        """What the policy is told of its fleet."""
        share = self._variants.share
        serving = [one for one in self._fleet if one.ready_s <= now_s]
        coming = [one for one in self._fleet if one.ready_s > now_s]
        first_ready_s = None
        if serving:
            first_ready_s = now_s if standing.first_ready_s is None else standing.first_ready_s
        return replace(
            standing,
            coming_up=sum(share(one.variant) for one in coming),
            serving=sum(share(one.variant) for one in serving),
            serving_slots=sum(self._variants.specs.get(one.variant, self._spec).slots for one in serving),
            first_ready_s=first_ready_s,
            live=sum(share(one.variant) for one in self._fleet),
            kept=0,
            there=len(self._fleet),
            coming=tuple(Coming(one.launched_s, one.ready_s) for one in coming),
            has_others=any(one.variant for one in serving),
        )

    def _go_to(self, proposal: Proposal, standing: Standing, cold: ColdStarts, now_s: float) -> None:
        """Bring the fleet to what the policy wants."""
        scaling = self._spec.scaling
        if self._variants.is_mixed:
            wanted = self._lineup(proposal, now_s)
            parts = wanted.first(max(scaling.min_replicas, min(wanted.asked, scaling.max_replicas)))
            stay = {part.replica_id for part in parts}
            kept = [one for place, one in enumerate(self._fleet) if _named(place) in stay]
            starts = [part.variant for part in parts if part.replica_id is None]
        else:
            number = max(scaling.min_replicas, min(proposal.wanted, scaling.max_replicas))
            kept = self._fleet[:number]  # the one that would be ready last goes
            starts = [OWN] * (number - len(kept))
        ready_s = {name: now_s + self._start_s(name, standing, cold) for name in set(starts)}
        kept += [_Imagined(name, now_s, ready_s[name]) for name in starts]
        self._fleet = sorted(kept, key=lambda one: one.ready_s)

    def _lineup(self, proposal: Proposal, now_s: float) -> Lineup:
        scaling, variants = self._spec.scaling, self._variants
        need = self._need.ask(proposal, now_s)
        there = Counter(one.variant for one in self._fleet)
        offers = [
            Offer(
                name,
                variants.share(name),
                spec.price_per_h,
                there[name],
                most=spec.own_max_replicas,
            )
            for name, spec in variants.specs.items()
        ]
        members = [
            Member(
                _named(place),
                one.variant,
                variants.share(one.variant),
                variants.specs.get(one.variant, self._spec).price_per_h,
                Reach.SERVES if one.ready_s <= now_s else Reach.STARTS,
                can_stay=one.variant in variants.specs,
            )
            for place, one in enumerate(self._fleet)
        ]
        return lineup(need, offers, members, scaling.min_replicas, scaling.max_replicas)

    def _start_s(self, variant: str, standing: Standing, cold: ColdStarts) -> float:
        if not self._variants.is_mixed:
            return standing.readiness.median_s or 0.0  # of the nearest tier that holds one
        expected_s = self._variants.specs[variant].expected_start_s
        kind = cold.kinds.of_next(self._model, variant)
        return cold.readiness(self._model, expected_s, kind=kind).median_s or 0.0


def _named(place: int) -> ReplicaId:
    return ReplicaId(str(place))


def _regret(acting: Judged, own: Judged) -> float | None:
    """How much more the acting policy has cost, as a share, in money or, without prices, in hours."""
    paid, would_pay = (acting.cost, own.cost) if own.cost > 0 else (acting.replica_s, own.replica_s)
    return paid / would_pay - 1.0 if would_pay > 0 else None
