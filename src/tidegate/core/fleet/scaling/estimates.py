"""How many replicas the demand of this moment needs, from four sources that do not know of each other.

1. *ledger*: what the gateways have counted, requests that come and requests that are there. It is the authority.
2. *backlog*: the tokens of the prompts that wait, in seconds of prefill, against the promised first token.
3. *memory*: the engines' own word on how full their KV cache is.
4. *latency*: first tokens and token times against what was promised.

Each says how many, how much it has seen of what there is to see (gateways, or the fleet's engines), and how old that is. One
that has spoken and has seen less than four fifths now forbids to shrink while anybody is there; one that has never spoken is
no source here.
"""

from __future__ import annotations

from tidegate.core.capacity import Capacity
from tidegate.core.fleet.scaling.fullest import Full
from tidegate.core.fleet.scaling.policies.base import (
    ENGINE_GOOD_FOR_S,
    Demand,
    EngineSeen,
    Situation,
)
from tidegate.core.scaling_settings import Promise
from tidegate.core.types import ReplicaId
from tidegate.core.values import value

COVERAGE_LEAST = 0.8
"""Of the gateways, or the serving replicas' pages, those that must be heard for a source to allow a step down."""
LEARN_RUNNING, LEARN_USED = 4, 0.02
"""Of fewer requests, and of less memory in all, nothing is learned of what one holds."""
FADE = 0.9
"""What is left in the mean of what was known a second ago."""
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
    coverage: float
    """Of all that it could be told by, the share that it has been told by lately."""
    age_s: float | None
    """Of the oldest of that; None before anything was heard."""
    is_expected: bool = True
    """It has spoken before, and should now."""

    @property
    def is_silent(self) -> bool:
        """Too little of what it should say now is known to go down by."""
        return self.is_expected and self.coverage < COVERAGE_LEAST


@value
class Load:
    """The demand as the ledgers have it, in the units that plans are made in."""

    rate_per_s: float | None
    """Requests a second; None when not known."""
    excess: float
    """Requests beyond what full replicas hold, by when one more could serve; 0 when that is how clients are."""
    drain_s: float
    """In which they are to be gone."""
    is_backlog: bool = True
    """Whoever waits is to be served sooner; False where clients wait for their answers, or get what they were promised."""


def drain_time_s(lead_s: float) -> float:
    """How long a backlog may take to be gone."""
    return max(DRAIN_LEAST_S, min(DRAIN_MOST_S, DRAIN_SHARE * lead_s))


def by_ledger(demand: Demand, full: Full, load: Load, now_s: float) -> Estimate:
    """From what the gateways have counted; the last word of one that is silent counts on."""
    return Estimate("ledger", _counted(demand, full, load), *_heard(demand, now_s))


def _counted(demand: Demand, full: Full, load: Load) -> float:
    """Nobody there for a whole window needs nothing, whatever the last minute's rate says: how long that must have been so
    is the scale-down delay's affair."""
    if not demand.peak:
        return 0.0
    if full.requests_per_s is None or load.rate_per_s is None:
        return demand.peak / full.batch
    needed = load.rate_per_s / full.requests_per_s
    if load.excess > 0:
        # All at once in slots of their own, or one after the other in time: whichever takes fewer.
        needed += min(load.excess / full.batch, load.excess / (full.requests_per_s * load.drain_s))
    return needed


def _heard(demand: Demand, now_s: float) -> tuple[float, float | None]:
    """Coverage and age of what the gateways say."""
    return demand.coverage, None if demand.heard_at_s is None else max(0.0, now_s - demand.heard_at_s)


def by_backlog(
    demand: Demand, capacity: Capacity | None, promise: Promise, load: Load, now_s: float
) -> Estimate:
    """From the prompts that wait at the gateways, by their tokens: a few large ones are as many seconds of prefill as many
    small ones. Together they take so many replicas to have their first tokens as soon as promised; or within the time in
    which a backlog is to be gone, as whoever starts for them is not there any sooner."""
    tokens, seen = demand.queued_prompt_tokens, _heard(demand, now_s)
    if capacity is None or tokens is None:
        return Estimate("backlog", None, *seen, is_expected=False)
    if not load.is_backlog or not demand.queued:
        return Estimate("backlog", 0.0, *seen)
    prefill_s = demand.queued * capacity.prefill_s(tokens / demand.queued, 0.0)
    return Estimate("backlog", prefill_s / max(promise.ttft_s, load.drain_s), *seen)


class Memory:
    """From the engines' pages: how full they are, and how many requests they have room for."""

    def __init__(self) -> None:
        self._paged_s: dict[ReplicaId, float] = {}
        """Of the engines that are there, those that have said how full they are, and when they last did."""
        self._share: float | None = None
        """Of one engine's memory, what one running request holds, the mean."""

    def __repr__(self) -> str:
        return f"<Memory share={self._share}>"

    @property
    def room(self) -> float | None:
        """Requests that fit into one replica; None while no page has said."""
        return 1.0 / self._share if self._share else None

    def look(self, seen: Situation, now_s: float) -> Estimate:
        """The answer now; learns the share on the way.

        Whoever has gone is not waited for: replicas of a later version may not say at all. And with nobody there for a
        whole window it could say nothing that the ledger does not know.
        """
        before = self._paged_s
        self._paged_s = {
            e.replica_id: before.get(e.replica_id, 0.0) if e.kv_usage_ratio is None else now_s - e.age_s
            for e in seen.engines
            if e.kv_usage_ratio is not None or e.replica_id in before
        }
        is_asked = bool(self._paged_s) and seen.demand.peak > 0
        fresh = [
            e for e in seen.engines if e.is_fresh and e.running is not None and e.kv_usage_ratio is not None
        ]
        if not fresh or not seen.strength:
            is_expected = is_asked and seen.strength > 0
            return Estimate("memory", None, 0.0, ENGINE_GOOD_FOR_S, is_expected=is_expected)
        running, used = sum(e.running or 0 for e in fresh), sum(map(_used, fresh))
        waiting = sum(e.waiting or 0 for e in fresh)
        if running >= LEARN_RUNNING and used > LEARN_USED:
            self._learn(fresh, running, before)
        scale = seen.strength / sum(e.share for e in fresh)
        coverage, age_s = min(1.0, 1.0 / scale), max(e.age_s for e in fresh)
        needed: float | None = scale * (used + waiting * (self._share or 0.0)) / USED_SHARE
        if scale * (running + waiting) > DISAGREE_RATIO * seen.demand.in_flight + DISAGREE_LEAST:
            needed = None  # the ledger is the authority
        return Estimate("memory", needed, coverage, age_s, is_expected=is_asked)

    def _learn(self, fresh: list[EngineSeen], running: int, before: dict[ReplicaId, float]) -> None:
        """A page moves the mean by the time since the one before it, and by how many run there of all: however often a
        page is looked at, it teaches once."""
        used = sum(map(_used, fresh))
        if self._share is None:
            self._share = used / running
            return
        for engine in fresh:
            paged_s = self._paged_s[engine.replica_id]
            took_s = max(0.0, paged_s - before.get(engine.replica_id, paged_s))
            if engine.running:
                step = (1.0 - FADE ** min(took_s, ENGINE_GOOD_FOR_S)) * engine.running / running
                self._share += step * (_used(engine) / engine.running - self._share)


def _used(engine: EngineSeen) -> float:
    """Of the memory of a replica of the first variant, what is in use there."""
    return engine.share * (engine.kv_usage_ratio or 0.0)


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
            is_expected = self._has_spoken and demand.in_flight > 0 and seen.strength > 0 and has_ended
            return Estimate("latency", None, 0.0, ENGINE_GOOD_FOR_S, is_expected=is_expected)
        self._has_spoken = True
        heard = demand.signals_coverage, max(0.0, now_s - demand.signals_at_s)
        # With nobody there it speaks of what is over: of the one who waited for the first replica, say.
        if not demand.peak:
            self._broken_since_s = None
            return Estimate("latency", 0.0, *heard)
        first = first if full.first_alone_s is None else None
        token = token if full.token_alone_s is None else None
        if max(first or 0.0, token or 0.0) > 1.0 and demand.concurrency > 0:
            if self._broken_since_s is None:
                self._broken_since_s = now_s
            return Estimate("latency", seen.strength * max(first or 0.0, token or 0.0), *heard)
        self._broken_since_s = None
        # Token times grow no faster than the batch; first tokens stay short until there is no more room, and
        # are asked only to be well within.
        ratio = max(token or 0.0, (first or 0.0) if (first or 0.0) > CALM_RATIO else 0.0)
        return Estimate("latency", min(float(seen.strength), seen.strength * ratio), *heard)
