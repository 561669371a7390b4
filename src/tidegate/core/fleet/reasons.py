"""What there is to say of a number in force: why it is what it is, what it was decided from, and what one replica fewer
or more would mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.core.effects import Decision, Prediction
from tidegate.core.fleet.answering import Traffic
from tidegate.core.fleet.crews import counted, crew_of, price_per_h
from tidegate.core.fleet.lineup import Lineup
from tidegate.core.fleet.predicting import attainment, traffic_of
from tidegate.core.fleet.scaling.autoscaler import Standing
from tidegate.core.fleet.scaling.forecast import SETS_FLOOR, Expected
from tidegate.core.fleet.scaling.policies import Demand, Proposal
from tidegate.core.fleet.scaling.wishes import Grant
from tidegate.core.fleet.variants import DEFAULT, OWN, Variants
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId
from tidegate.core.values import value

HELD_LEAST = 0.005
"""A need that is so little above what is asked for now is not called held."""


@value
class Basis:
    """What the number in force was decided on."""

    demand: Demand
    proposal: Proposal
    grant: Grant
    standing: Standing
    now_s: float

    @property
    def held_by(self) -> str | None:
        """What keeps the number from being what is asked for; a limit before what the law or a hand says."""
        return self.grant.held_by or self.proposal.held_by

    @property
    def forecast(self) -> Expected | None:
        """What was expected, and what came of it; None while those hours have never been seen, and where no law asked."""
        told = None if self.demand.forecast is None else self.demand.forecast.told
        if told is None:
            return None
        return replace(told, sets_floor=told.is_believed and SETS_FLOOR in self.proposal.inputs)


@value
class Reason:
    """One model's number in force, with all that is said of it."""

    model: ModelId
    spec: FleetModel
    variants: Variants
    lineup: Lineup | None
    hold_s: float
    """For so long the greatest need of a line-up counts."""
    basis: Basis
    before: int
    desired: int
    remark: str
    """What there is to say beside the number; empty: nothing."""
    spent: float
    """Since the decision before."""

    @property
    def because(self) -> str:
        """In words. Cheaper than the whole decision."""
        why = [self.basis.proposal.because]
        match self.basis.grant.held_by:
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
            need, exact = self.lineup.need, self.basis.proposal.needed
            is_held = exact is not None and need > exact + HELD_LEAST
            when = f" within the last {self.hold_s:g} s" if is_held else ""
            why.append(f"{need:.2f} needed{when}, in replicas of {DEFAULT}: {mix}")
        if self.remark:
            why.append(self.remark)
        return "; ".join(why)

    def decision(self) -> Decision:
        """With the inputs, and what is predicted for it and its two neighbours."""
        basis, desired = self.basis, self.desired
        traffic = traffic_of(basis.demand, basis.now_s)
        return Decision(
            model=self.model,
            desired=desired,
            before=self.before,
            because=self.because,
            held_by=basis.held_by,
            inputs=_inputs(basis, traffic),
            fewer=self._prediction(max(0, desired - 1), traffic),
            chosen=self._prediction(desired, traffic),
            more=self._prediction(desired + 1, traffic),
            spent=self.spent,
            variants=None if self.lineup is None else _named(self.lineup.counts(desired)),
            needed=None if self.lineup is None else self.lineup.need,
        )

    def _prediction(self, replicas: int, traffic: Traffic | None) -> Prediction:
        demand = self.basis.demand
        counts: Mapping[str, int] = {OWN: replicas} if self.lineup is None else self.lineup.counts(replicas)
        those = counted(self.variants, counts)
        slots = sum((self.variants.spec(name) or self.spec).slots * number for name, number in counts.items())
        queued = max(0, round(demand.peak) - slots)
        crew = None if traffic is None else crew_of(those, self.spec, demand)
        kept = None
        if traffic is not None and crew is not None:
            kept = attainment(crew, traffic, self.spec.scaling.promise)
        return Prediction(replicas, slots, queued, price_per_h(those), kept)


def _named(counts: dict[str, int]) -> dict[str, int]:
    return {name or DEFAULT: count for name, count in counts.items()}


def _inputs(basis: Basis, traffic: Traffic | None) -> dict[str, float]:
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
