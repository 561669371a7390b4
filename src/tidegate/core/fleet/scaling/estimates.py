"""How many replicas the demand of this moment needs, from four sources that do not know of each other.

1. *ledger*: what the gateways have counted, requests that come and requests that are there. It is the authority.
2. *backlog*: the prompts that wait, in seconds of prefill, against the promised first token.
3. *memory*: the engines' own word on how full their KV cache is.
4. *latency*: first tokens and token times against what was promised.

Each says how many, how much of the fleet it has seen, and how old that is. One that has spoken and is silent now does not
ask for anything, and forbids to shrink while anybody is there; one that has never spoken is no source here.
"""

from __future__ import annotations

from tidegate.core.fleet.scaling.fullest import Full
from tidegate.core.fleet.scaling.policies.base import ENGINE_GOOD_FOR_S, Demand, Situation
from tidegate.core.scaling_settings import Promise
from tidegate.core.types import ReplicaId
from tidegate.core.values import value

COVERAGE_LEAST = 0.8
"""Of the serving replicas, those whose pages must be fresh for their answer to allow a step down."""
USED_SHARE = 0.9
"""Of the engines' memory, as in planning."""
DRAIN_SHARE, DRAIN_LEAST_S, DRAIN_MOST_S = 0.35, 2.0, 45.0
"""A backlog is to be gone within this share of a lead time: whoever comes meanwhile waits as well, and sooner costs replicas
that are idle afterwards."""
DISAGREE_RATIO, DISAGREE_LEAST = 1.5, 8.0
"""Engines that count so much more than the gateways have given them count what nobody waits for any more."""
OF_LAST_S = 60.0
"""Latencies are of so long."""
CALM_RATIO = 0.7
"""First tokens within this share of the promise say nothing against a step down."""


@value
class Estimate:
    """One source's answer."""

    name: str
    replicas: float | None
    """Needed now; None while it does not know."""
    coverage: float = 1.0
    age_s: float = 0.0
    silent: bool = False
    """It has spoken before, and should now."""


@value
class Load:
    """The demand as the ledgers have it, in the units that plans are made in."""

    rate_per_s: float | None
    """Requests a second; None when not known."""
    excess: float
    """Requests beyond what full replicas hold, by when one more could serve; 0 when that is how clients are."""
    drain_s: float
    """In which they are to be gone."""


def drain_time_s(lead_s: float) -> float:
    """How long a backlog may take to be gone."""
    return max(DRAIN_LEAST_S, min(DRAIN_MOST_S, DRAIN_SHARE * lead_s))


def by_ledger(demand: Demand, full: Full, load: Load) -> Estimate:
    """From what the gateways have counted. Nobody there for a whole window needs nothing, whatever the last minute's
    rate says: how long that must have been so is the scale-down delay's affair."""
    if not demand.peak:
        return Estimate("ledger", 0.0)
    if full.requests_per_s is None or load.rate_per_s is None:
        return Estimate("ledger", demand.peak / full.batch)
    needed = load.rate_per_s / full.requests_per_s
    if load.excess > 0:
        # All at once in slots of their own, or one after the other in time: whichever takes fewer.
        needed += min(load.excess / full.batch, load.excess / (full.requests_per_s * load.drain_s))
    return Estimate("ledger", needed)


def by_backlog(demand: Demand, prompt_s: float | None, promise: Promise, load: Load) -> Estimate:
    """From the prompts that wait at the gateways; ``prompt_s`` is what one takes from a replica."""
    if prompt_s is None:
        return Estimate("backlog", None)
    waiting = demand.queued if load.excess > 0 else 0
    return Estimate("backlog", waiting * prompt_s / max(promise.ttft_s, load.drain_s))


class Memory:
    """From the engines' pages: how full they are, and how many requests they have room for."""

    def __init__(self) -> None:
        self._spoken: set[ReplicaId] = set()
        """Of the engines that are there, those that have said how full they are."""
        self._share: float | None = None
        """Of one engine's memory, what one running request holds, the mean."""

    def __repr__(self) -> str:
        return f"<Memory share={self._share}>"

    @property
    def room(self) -> float | None:
        """Requests that fit into one replica; None while no page has said."""
        return 1.0 / self._share if self._share else None

    def look(self, seen: Situation) -> Estimate:
        """The answer now; learns the share on the way.

        Whoever has gone is not waited for: replicas of a later version may not say at all. And with nobody there for a
        whole window it could say nothing that the ledger does not know.
        """
        self._spoken = {
            e.replica_id for e in seen.engines if e.kv_usage_ratio is not None or e.replica_id in self._spoken
        }
        is_asked = bool(self._spoken) and seen.demand.peak > 0
        fresh = [
            (e.running, e.share * e.kv_usage_ratio, e.waiting or 0, e.age_s, e.share)
            for e in seen.engines
            if e.is_fresh and e.running is not None and e.kv_usage_ratio is not None
        ]
        if not fresh or not seen.strength:
            return Estimate("memory", None, 0.0, ENGINE_GOOD_FOR_S, silent=is_asked and seen.strength > 0)
        running, used = sum(one[0] for one in fresh), sum(one[1] for one in fresh)
        waiting = sum(one[2] for one in fresh)
        if running >= 4 and used > 0.02:
            share = used / running
            self._share = share if self._share is None else self._share + 0.1 * (share - self._share)
        scale = seen.strength / sum(one[4] for one in fresh)
        coverage, age_s = min(1.0, 1.0 / scale), max(one[3] for one in fresh)
        if scale * (running + waiting) > DISAGREE_RATIO * seen.demand.in_flight + DISAGREE_LEAST:
            return Estimate("memory", None, coverage, age_s)  # the ledger is the authority
        needed = scale * (used + waiting * (self._share or 0.0)) / USED_SHARE
        return Estimate("memory", needed, coverage, age_s, silent=is_asked and coverage < COVERAGE_LEAST)


class Latency:
    """From first tokens and token times against the promise."""

    def __init__(self) -> None:
        self._has_spoken = False
        self._broken_since_s: float | None = None

    def __repr__(self) -> str:
        return f"<Latency broken_since_s={self._broken_since_s}>"

    def broken_s(self, now_s: float) -> float:
        """For how long the promise has been broken without a pause."""
        return 0.0 if self._broken_since_s is None else now_s - self._broken_since_s

    def look(self, seen: Situation, full: Full, now_s: float) -> Estimate:
        """The answer now. A promise that is kept says how few would do at least, and never asks for more; what can be kept
        at no number asks for none.
        """
        demand, promise = seen.demand, seen.promise
        first = None if demand.ttft_p90_s is None else demand.ttft_p90_s / promise.ttft_s
        token = None if demand.tpot_p90_s is None else demand.tpot_p90_s / promise.tpot_s
        if demand.signals_at_s is None or (first is None and token is None):
            # Where only long answers run and none has ended within the minute, there is nothing that could be said.
            has_ended = demand.past.ended_per_s(OF_LAST_S, now_s) != 0.0
            is_silent = self._has_spoken and demand.in_flight > 0 and seen.strength > 0 and has_ended
            return Estimate("latency", None, 0.0, ENGINE_GOOD_FOR_S, silent=is_silent)
        self._has_spoken = True
        age_s = max(0.0, now_s - demand.signals_at_s)
        # With nobody there it speaks of what is over: of the one who waited for the first replica, say.
        if not demand.peak:
            self._broken_since_s = None
            return Estimate("latency", 0.0, 1.0, age_s)
        first = first if full.first_alone_s is None else None
        token = token if full.token_alone_s is None else None
        if max(first or 0.0, token or 0.0) > 1.0 and demand.concurrency > 0:
            if self._broken_since_s is None:
                self._broken_since_s = now_s
            return Estimate("latency", seen.strength * max(first or 0.0, token or 0.0), 1.0, age_s)
        self._broken_since_s = None
        # Token times grow no faster than the batch; first tokens stay short until there is no more room, and
        # are asked only to be well within.
        ratio = max(token or 0.0, (first or 0.0) if (first or 0.0) > CALM_RATIO else 0.0)
        return Estimate("latency", min(float(seen.strength), seen.strength * ratio), 1.0, age_s)
