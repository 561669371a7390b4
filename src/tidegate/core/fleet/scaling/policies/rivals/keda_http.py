"""KEDA's HTTP add-on: concurrency and request rate at the interceptors, the larger answer wins.

Source: kedacore/http-add-on, scaler/config.go, operator/apis/http/v1beta1; KEDA's documented defaults (2026-06).
Concurrency / 100, and, when a target for it is set, requests/s over 1 minute / its target. KEDA hands both to a
Kubernetes autoscaler as external metrics of type AverageValue (sync 15 s, default behaviour), which keeps at
least one replica. The first one is KEDA's own, as soon as anything is pending; the last one goes 300 s after
the last activity (cooldownPeriod). What the interceptors hold counts as concurrency.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.behaviour import (
    SYNC_S,
    Behaviour,
    Rates,
    external_average,
    keda_sleeps,
)
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class KedaHttpConstants:
    """The add-on's defaults."""

    target: float = 100.0
    """Concurrent requests of one replica."""
    rate_target: float | None = None
    """Requests each second of one replica; None: the rate is not looked at."""
    rate_window_s: float = 60.0
    cooldown_delay_s: float = 300.0
    every_s: float = SYNC_S


class KedaHttp:
    """The law for one model."""

    def __init__(self, constants: KedaHttpConstants) -> None:
        self._law = constants
        self._behaviour = Behaviour(Rates())

    def __repr__(self) -> str:
        return f"<KedaHttp {self._behaviour!r}>"

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """Zero and one are KEDA's, the rest is the autoscaler's."""
        demand, law = seen.demand, self._law
        if demand.concurrency > 0 and seen.standing == 0:
            return Answer(1, 1, f"{demand.concurrency:g} pending at no replica")
        asked = external_average(demand.concurrency, law.target, seen.live)
        because = f"{demand.concurrency:g} concurrent at {law.target:g} a replica ask for {asked}"
        rate = demand.past.arrivals_per_s(law.rate_window_s, now_s)
        if law.rate_target is not None and rate is not None:
            by_rate = external_average(rate, law.rate_target, seen.live)
            asked = max(asked, by_rate)
            because = f"{because}, {rate:.2f} requests/s ask for {by_rate}"
        if keda_sleeps(seen, law.cooldown_delay_s, now_s):
            return Answer(0, 0, f"nothing for {law.cooldown_delay_s:g} s")
        asked = max(1, asked)
        wanted = self._behaviour.settle(asked, seen, now_s)
        held_by = None if wanted == seen.within(asked) else "behaviour"
        return Answer(wanted, asked, because, held_by)


def keda_http(scaling: Scaling, standing: int, now_s: float) -> tuple[KedaHttp, float]:
    """The law with this model's settings, and how often it is evaluated."""
    del standing, now_s
    constants = with_changes(KedaHttpConstants(), scaling.law)
    return KedaHttp(constants), constants.every_s
