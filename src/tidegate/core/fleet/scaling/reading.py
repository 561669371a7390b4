"""All that the default law looks at, put together: how much is asked for, how much a replica carries, what may come.

It owns what is learned and decides nothing. Each look takes in the situation once.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tidegate.core.fleet.scaling.carrying import KEPT_FOR_S, Carrying
from tidegate.core.fleet.scaling.clients import Clients
from tidegate.core.fleet.scaling.estimates import (
    Estimate,
    Latency,
    Load,
    Memory,
    by_backlog,
    by_ledger,
    drain_time_s,
)
from tidegate.core.fleet.scaling.forecast import Expected
from tidegate.core.fleet.scaling.fullest import Full
from tidegate.core.fleet.scaling.growth import RISK, Growth
from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.rates import Arrivals
from tidegate.core.fleet.scaling.shortfall import growth_per_s, line_then
from tidegate.core.knowledge import KnownTidal
from tidegate.core.scaling_settings import Scaling
from tidegate.core.values import value

LEAD_UNKNOWN_S = 60.0
"""Taken for a start before anything is known of it."""
LEAD_RATIO = 0.9
"""Of all starts, those that are over within what is called the lead time."""
NOTICED_S = 10.0
"""From a change in demand until it is certain."""
GROWTH_LEADS = 2.0
RESERVE_RATIO = 0.5
"""What is held for growth is at most so much of the demand, and one replica as soon as it is known how that grows: a flash
crowd is not held for."""
RATE_S = 30.0


@dataclass(frozen=True, slots=True)
class TidalConstants:
    """What may be changed."""

    risk: float = RISK
    """Of lead times, those in which demand may grow by more than what is held for it."""


@value
class Reading:
    """One look."""

    full: Full
    load: Load
    estimates: tuple[Estimate, ...]
    lead_s: float
    reserve: float
    """Replicas for what demand may grow by within the lead time."""
    clients_wait: bool
    broken_s: float
    """For how long the promise has been broken."""
    calm_s: float
    """For how long nobody has waited: latencies of the last minute are of no backlog, if this is longer."""
    knows_growth: bool
    """It has been seen for a few lead times how demand grows."""
    foreseen: Expected | None = None
    """What is expected, where it is the forecast that sets the reserve."""

    @property
    def ledger(self) -> float:
        """The authority's answer."""
        return self.estimates[0].replicas or 0.0

    @property
    def silent(self) -> str | None:
        """The first source of which too little is heard."""
        return next((one.name for one in self.estimates if one.is_silent), None)


class Reader:
    """One model's sources."""

    def __init__(self, scaling: Scaling) -> None:
        self._arrivals, self._clients, self._carrying = Arrivals(), Clients(), Carrying(scaling)
        self._memory, self._latency, self._growth = Memory(), Latency(), Growth(_risk(scaling))
        self._excess_since_s: float | None = None
        self._waited_s = -inf
        """When somebody last waited."""
        self._full_since_s = inf
        """Since when there has been more than full replicas hold; now, if there is not."""
        self._foreseen: Expected | None = None

    def __repr__(self) -> str:
        return f"<Reader {self._carrying!r} {self._growth!r} {self._clients!r}>"

    def under(self, scaling: Scaling) -> Reader:
        """The same with other settings."""
        self._carrying.under(scaling)
        self._growth.risk = _risk(scaling)
        return self

    def remember(self, bursts_s: tuple[float, ...], now_s: float) -> KnownTidal:
        """What outlives this process, with what the law has learned beside."""
        pace, trust = self._carrying.remember()
        return KnownTidal(pace, self._growth.remember(now_s), trust, bursts_s)

    def restore(self, known: KnownTidal, now_s: float) -> None:
        """Go on from what a former process knew."""
        self._carrying.restore(known.pace, known.trust, now_s)
        self._growth.restore(known.growth, now_s)

    def look(self, seen: Situation, now_s: float) -> Reading:
        """Take in the situation."""
        demand, past = seen.demand, seen.demand.past
        lead_s = (seen.readiness.quantile_s(LEAD_RATIO) or LEAD_UNKNOWN_S) + NOTICED_S
        self._arrivals.look(past, now_s)
        self._clients.look(past, now_s)
        memory = self._memory.look(seen, now_s)
        full = self._carrying.look(seen, self._memory.room, now_s)
        latency = self._latency.look(seen, full, now_s)
        load = self._load(seen, full, lead_s, now_s)
        ledger = by_ledger(demand, full, load, now_s)
        backlog = by_backlog(demand, demand.capacity, seen.promise, load, now_s)
        self._carrying.doubt(
            latency.replicas, ledger.replicas or 0.0, seen.strength, self._latency.broken_s(now_s), now_s
        )
        return Reading(
            full,
            load,
            (ledger, backlog, memory, latency),
            lead_s,
            self._reserve(seen, full, load, lead_s, now_s),
            self._clients.wait,
            self._latency.broken_s(now_s),
            now_s - self._waited_s,
            self._knows_growth(lead_s),
            self._foreseen,
        )

    # ---- what is asked for ----

    def _load(self, seen: Situation, full: Full, lead_s: float, now_s: float) -> Load:
        demand = seen.demand
        there = float(demand.queued + demand.in_flight)
        excess, is_how_they_are = max(0.0, there - full.batch * seen.strength), False
        if excess > 0.0 or demand.queued:
            self._waited_s = now_s
        if excess <= 0.0:
            self._full_since_s = now_s
        if excess <= 0.0 or self._latency.broken_s(now_s) > 0.0 or not seen.strength:
            self._excess_since_s = None
        elif self._excess_since_s is None:
            self._excess_since_s = now_s
        elif now_s > self._excess_since_s + KEPT_FOR_S and demand.signals_at_s is not None:
            # It is no backlog but how clients are, and they get what they were promised.
            excess, is_how_they_are = 0.0, True
        rate = self._arrivals.per_s(demand.past, now_s)
        if self._clients.wait and full.requests_per_s is not None and rate is not None:
            # Their rate is what the fleet makes it; what is there is not.
            rate, excess = min(rate, there / full.batch * full.requests_per_s), 0.0
        elif rate is not None and full.requests_per_s is not None and not is_how_they_are:
            most = full.brim_per_s or full.requests_per_s
            lasting = min(rate, self._arrivals.lasting_per_s(demand.past, now_s))
            short = lasting - seen.strength * most
            grows = growth_per_s(demand.past, short, now_s)
            excess = line_then(excess, grows, most, now_s - self._full_since_s, seen, now_s)
        is_backlog = not (is_how_they_are or self._clients.wait)
        return Load(rate, excess, drain_time_s(lead_s), is_backlog)

    def _knows_growth(self, lead_s: float) -> bool:
        return self._growth.seen_s >= GROWTH_LEADS * lead_s

    def _reserve(self, seen: Situation, full: Full, load: Load, lead_s: float, now_s: float) -> float:
        """Replicas beyond what is needed now: for growth as it has been lately, or for what is expected if that is more."""
        past, self._foreseen = seen.demand.past, None
        smooth = past.arrivals_per_s(RATE_S, now_s)
        if smooth is None:
            return 0.0
        self._growth.add(smooth, lead_s, now_s)
        if full.requests_per_s is None or load.rate_per_s is None:
            return 0.0
        if not seen.demand.peak or self._clients.wait:
            return 0.0
        steady, brim = load.rate_per_s / full.requests_per_s, full.brim_per_s or full.requests_per_s
        reserve = self._for_growth(seen, full, load.rate_per_s, lead_s, now_s)
        forecast = seen.demand.forecast
        expected = None if forecast is None else forecast.floor(lead_s, now_s, brim * (steady + reserve))
        if expected is None:
            return reserve
        if expected.lengths is not None:
            then = self._carrying.look_at(seen, expected.lengths, self._memory.room, now_s)
            brim = then.brim_per_s or brim
        foreseen = expected.requests_per_s / brim - steady
        if foreseen <= reserve:
            return reserve
        self._foreseen = expected
        return foreseen

    def _for_growth(
        self, seen: Situation, full: Full, rate_per_s: float, lead_s: float, now_s: float
    ) -> float:
        """What may come within the lead time is to be carried; that all of it is in time as well costs more than the short
        time is worth."""
        past, each = seen.demand.past, full.requests_per_s or 1.0
        steady, brim = rate_per_s / each, full.brim_per_s or each
        most, grown = RESERVE_RATIO * steady + 1.0, self._growth.quantile(1.0 - self._growth.risk)
        if not self._knows_growth(lead_s):
            # The first surge would wait a whole start: what rises now is taken to go on.
            grown = max(grown, lead_s * self._arrivals.rise_per_s(past, now_s))
            most = max(1.0, RESERVE_RATIO * steady)
        reserve = max(0.0, min((rate_per_s + grown) / brim - steady, most))
        # What is there grows by no more than what comes too much; as long as that finds room, nothing is late.
        there = past.mean_concurrency(RATE_S, now_s) or 0.0
        return min(reserve, max(0.0, (there + grown * lead_s) / full.batch - steady))


def _risk(scaling: Scaling) -> float:
    return TidalConstants(**dict(scaling.law)).risk
