"""What a FleetController has learned, gathered from those who learned it, and given back to them after a restart."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.reserves import Reserves
from tidegate.core.knowledge import GOOD_FOR_S, FleetKnowledge, KnownModel
from tidegate.core.types import ModelId


class Learners:
    """All that learns in one controller. Owns what was restored until its models are configured."""

    def __init__(self, demand: DemandBook, reserves: Reserves, cold: ColdStarts) -> None:
        self._demand = demand
        self._reserves = reserves
        self._cold = cold
        self._restored: dict[ModelId, KnownModel] = {}

    def __repr__(self) -> str:
        return f"<Learners, {len(self._restored)} models restored>"

    def remember(self, plans: Iterable[Plan], now_s: float) -> FleetKnowledge:
        """What outlives this process, of the configured models. Looking changes nothing."""
        configured = list(plans)
        models = tuple(
            KnownModel(
                plan.model,
                self._demand.remember(plan.model, now_s),
                plan.autoscaler.remember(now_s),
                self._reserves.remember(plan.model),
            )
            for plan in configured
        )
        kept = {plan.model for plan in configured}
        starts = tuple(known for known in self._cold.remember() if known.model in kept)
        return FleetKnowledge(now_s, models, starts)

    def restore(self, known: FleetKnowledge, now_s: float) -> None:
        """Go on from what a former controller knew, unless that was too long ago. What is about one model waits for its
        configuration."""
        if now_s - known.at_s <= GOOD_FOR_S:
            self._cold.restore(known.starts)
            self._restored = {one.model: one for one in known.models}

    def give(self, plans: Iterable[Plan], now_s: float) -> None:
        """These are configured. What was restored of others is forgotten with the first configuration."""
        for plan in plans:
            known = self._restored.get(plan.model)
            if known is None:
                continue
            if known.rates is not None:
                self._demand.forecast(plan.model).restore(known.rates, now_s)
            plan.autoscaler.restore(known.tidal, now_s)
            self._reserves.restore(plan.model, known.rises, now_s)
        self._restored.clear()
