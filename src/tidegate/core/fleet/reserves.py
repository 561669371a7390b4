"""What each model's cheapest mix of tiers asks for beside those that serve, from what was learned of its growth.

A rise is learned in what laws count in: replicas, or reference replicas where the model has variants. There the mix is made
of the variant that would be started for the pool (``Plan.reserve``). Whoever is in the pool counts as what it carries,
whatever its variant, so nobody is started to hold in another way what is held already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, inf

from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.growth import Growth
from tidegate.core.fleet.mixing import EPS, enough
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import size_in
from tidegate.core.fleet.tiers import PUBLISHED_WAKE_S, Disk, Held, Offer, mix_with_disk
from tidegate.core.fleet.warmpool import Beside
from tidegate.core.knowledge import KnownSpan
from tidegate.core.lifecycle import State
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.core.values import value

MIX_EVERY_S = 10.0
"""How often a mix is worked out anew: what it rests on changes over minutes."""

NOTHING = Held()


@value
class _Mix:
    held: Held
    variant: str
    """What it is made of."""
    desired: int
    """The number for which it was: what a sleeping model needs beside it is another thing than what a busy one does."""
    due_s: float
    """When it is to be worked out anew."""
    inputs: dict[str, float]
    """The numbers that it was worked out from."""


class Reserves:
    """Every model's mix."""

    def __init__(self, cold: ColdStarts) -> None:
        self._cold = cold
        self._growth: dict[ModelId, Growth] = {}
        self._mixes: dict[ModelId, _Mix] = {}

    def __repr__(self) -> str:
        return f"<Reserves of {len(self._growth)} models>"

    def keep_only(self, models: Iterable[ModelId]) -> None:
        """Drop what is known of models that are no longer configured. Changed prices make new mixes."""
        kept = set(models)
        self._growth = {model: growth for model, growth in self._growth.items() if model in kept}
        self._mixes.clear()

    def mix(self, model: ModelId) -> Held:
        """What the cheapest mix holds of this model, as worked out last."""
        found = self._mixes.get(model)
        return found.held if found else NOTHING

    def asked(self, plan: Plan, pool: Beside) -> Held:
        """The mix in replicas: as many of those in the pool as carry it, and what is missing."""
        found = self._mixes.get(plan.model)
        if found is None or not plan.variants.is_mixed:
            return self.mix(plan.model)
        share_of, share = plan.variants.share_of, plan.variants.share(found.variant)
        line = [share_of(replica) for replica in (*reversed(pool.warm), *pool.coming)]
        warm = _enough(found.held.warm * share, line, share)
        beds = [share_of(replica) for replica in (*reversed(pool.asleep), *pool.dozing)]
        sleeping = _enough(found.held.sleeping * share, [*beds, *line[warm:]], share)
        return Held(warm, sleeping, found.held.uncovered, found.held.price_per_h, found.held.cached)

    def inputs(self, model: ModelId) -> dict[str, float]:
        """What its mix was worked out from."""
        found = self._mixes.get(model)
        return found.inputs if found else {}

    def remember(self, model: ModelId) -> tuple[KnownSpan, ...]:
        """Of this model's growth, what outlives this process."""
        growth = self._growth.get(model)
        return growth.remember() if growth else ()

    def restore(self, model: ModelId, known: Iterable[KnownSpan], now_s: float) -> None:
        """Go on from what a former process knew of its growth."""
        self._growth[model] = growth = Growth()
        growth.restore(known, now_s)

    def note(self, plan: Plan, need: int, standing: int, now_s: float) -> None:
        """So many replicas are needed now, and so many stand for it."""
        if not plan.spec.pool.is_used:
            return
        growth = self._growth.get(plan.model)
        if growth is None:
            growth = self._growth[plan.model] = Growth()
        if plan.demand.complete_since_s is not None:  # what is not known teaches nothing
            most = plan.bounds[1] if plan.bounds else plan.spec.scaling.max_replicas
            growth.note(min(need, most), standing, now_s)
        mix = self._mixes.get(plan.model)
        is_for = (plan.desired, plan.reserve)
        if mix is None or now_s >= mix.due_s or is_for != (mix.desired, mix.variant):
            held, inputs = self._worked_out(plan, growth)
            due_s = now_s + MIX_EVERY_S
            self._mixes[plan.model] = _Mix(held, plan.reserve, plan.desired, due_s, inputs)

    def _worked_out(self, plan: Plan, growth: Growth) -> tuple[Held, dict[str, float]]:
        variant, cold = plan.reserve, self._cold
        spec, pool = plan.spec_as(variant), plan.spec.pool
        kind = cold.kinds.of_next(plan.model, variant)
        sure = 1.0 - pool.risk
        wake_s = cold.readiness(plan.model, pool.expected_wake_s, Tier.SLEEPING, kind).quantile_s(sure)
        away_s = cold.readiness(plan.model, spec.expected_start_s, kind=kind).quantile_s(sure)
        # Nobody ever serves more than the most.
        spare = max(0, spec.scaling.max_replicas - plan.desired)
        share = plan.variants.share(variant)
        rise = [
            (at_s, min(spare, ceil(more / share - EPS)))
            for at_s, more in growth.staircase(pool.risk, plan.desired)
        ]
        warm = size_in(spec, State.WARM)
        asleep = size_in(spec, State.SLEEPING)
        offers = (
            Offer(Tier.WARM, 0.0, warm.price_per_h, pool.max_warm),
            Offer(
                Tier.SLEEPING,
                PUBLISHED_WAKE_S if wake_s is None else wake_s,
                asleep.price_per_h,
                pool.max_sleeping,
            ),
        )
        here_s = cold.readiness(plan.model, spec.expected_start_s, Tier.CACHED, kind).quantile_s(sure)
        disk = None if here_s is None else Disk(here_s, pool.cached_price_per_h)
        held = mix_with_disk(rise, offers, inf if away_s is None else away_s, pool.slack_s, disk)
        told = {"start_s": away_s, "cached_start_s": here_s, "wake_s": offers[1].wake_s}
        inputs = {name: span_s for name, span_s in told.items() if span_s is not None}
        inputs |= {f"rise_in_{at_s:g}s": float(more) for at_s, more in rise}
        return held, {"risk": pool.risk, "slack_s": pool.slack_s, **inputs}


def _enough(asked: float, there: Sequence[float], share: float) -> int:
    """How many carry what is asked for: the first of those that are there, then such as have this share."""
    number = enough(asked, there)
    return number + max(0, ceil((asked - sum(there[:number])) / share - EPS))
