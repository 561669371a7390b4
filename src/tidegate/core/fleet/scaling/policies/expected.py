"""The forecast alone: as many replicas as what is expected within a lead time keeps busy, and none while nothing is.

It is a floor, to stand beside a law that follows demand (``also: [forecast]``), as a schedule does that learns its own
hours. ``tidal`` has it built in, from the same forecaster (``scaling.forecast``), which has to prove itself first.

How long requests will be is expected too. Where nobody has said that of earlier days, what one takes is as it was when
requests last ended: before a rise from nothing nobody asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidegate.core.fleet.scaling.forecast import SETS_FLOOR
from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.fleet.scaling.policies.tokens import LENGTHS_S, busy_s
from tidegate.core.fleet.scaling.reading import LEAD_RATIO, LEAD_UNKNOWN_S, NOTICED_S
from tidegate.core.scaling_settings import Scaling

EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class ForecastConstants:
    """What may be set."""

    utilization: float = 0.7
    """Of a replica's time, what is planned for; the rest is for chance."""
    lead_s: float | None = None
    """How far to look ahead; None: as long as a start takes, and what passes until demand is noticed."""


class Floor:
    """The law for one model, with what one request took when it was last seen."""

    def __init__(self, constants: ForecastConstants) -> None:
        self._law = constants
        self._one_s: float | None = None

    def __repr__(self) -> str:
        return f"<Floor busy_s={self._one_s}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Replicas kept busy by what is expected."""
        law, past, foresees = self._law, seen.demand.past, seen.demand.forecast
        prompt, output = past.mean_prompt_tokens(LENGTHS_S, now_s), past.mean_output_tokens(LENGTHS_S, now_s)
        if prompt is not None and output is not None:
            self._one_s = busy_s(seen, prompt, output)
        lead_s = law.lead_s or (seen.readiness.quantile_s(LEAD_RATIO) or LEAD_UNKNOWN_S) + NOTICED_S
        expected = None if foresees is None else foresees.floor(lead_s, now_s)
        if expected is None:
            return _none(seen, "no forecast has proven itself")
        one_s = self._one_s if expected.lengths is None else busy_s(seen, *expected.lengths)
        if one_s is None:
            return _none(seen, "how long its requests are is not known")
        busy = expected.requests_per_s * one_s / law.utilization
        asked = ceil(busy - 1e-9)
        because = (
            f"{expected.said} are expected within {lead_s:.0f} s, from earlier days, and keep {busy:.2f} replicas "
            f"{100 * law.utilization:.0f} % busy"
        )
        inputs = {"busy_s": one_s, "lead_s": lead_s, SETS_FLOOR: 1.0}
        return Answer(seen.within(asked), asked, because, None, inputs)


def _none(seen: Situation, because: str) -> Answer:
    return Answer(seen.min_replicas, 0, because)


def forecast(scaling: Scaling, standing: int, now_s: float) -> tuple[Floor, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    return Floor(with_changes(ForecastConstants(), scaling.law)), EVERY_S
