"""One model's line, and what runs at its replicas of each variant.

Who is let in where: as the router would have it (``core.spreading``), each slot anew. A request costs at a replica what its
prompt takes there and what the batch adds to the first words of its answer; the slot's requests go to the cheapest, until
all that are used cost the same. What finds no room at the cheap ones goes to the dear ones. Left out is chance: of the
requests that come while a fast replica is busy with prompts a few go to a slow one, also where nobody would on the mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

from tidegate.core.spreading import level_s
from tidegate.core.types import Dice
from tidegate.sim.fluid.amounts import Flowed, Parcel
from tidegate.sim.fluid.line import Line
from tidegate.sim.fluid.pool import Pool
from tidegate.sim.fluid.spilling import Spilling
from tidegate.sim.scenario import ModelSetup, Slo


@dataclass(frozen=True, slots=True)
class Hands:
    """Replicas of one variant that are at work."""

    serving: float = 0.0
    """They take new requests."""
    draining: float = 0.0
    """These don't: so many whole ones' worth ..."""
    draining_requests: float = 0.0
    """... which hold so much of what runs."""


NOBODY = Hands()


@dataclass(frozen=True, slots=True)
class _Offer:
    """What the replicas of one variant would take in this slot."""

    variant: str
    alone_s: float
    each_more_s: float
    serving: float
    stays: float
    """Of those that run there, how many still will at the end."""
    turned_over: float
    """Of one that comes within the slot, how much is still there at the end."""
    room: float
    """Of one replica."""

    def takes(self, level_s: float) -> float:
        """Requests let in until one more costs so much."""
        batch = min(self.room, max(0.0, level_s - self.alone_s) / max(1e-12, self.each_more_s))
        return max(0.0, self.serving * batch - self.stays) / self.turned_over


class Floor:
    """One model's, of all its variants; one that has none is the variant without a name."""

    def __init__(self, setup: ModelSetup, slo: Slo, request_timeout_s: float, dice: Dice) -> None:
        self.flowed = Flowed()
        spilling = None if setup.dispatch.spill is None else Spilling(setup.dispatch.spill, slo)
        self.line = Line(setup.dispatch.queue, request_timeout_s, spilling, self.flowed)
        self.pools: Mapping[str, Pool] = {
            name: Pool(way, slo, self.line, self.flowed, dice) for name, way in setup.ways.items()
        }

    def __repr__(self) -> str:
        return f"<Floor waiting={self.line.requests:.1f} running={self.running:.1f}>"

    @property
    def running(self) -> float:
        """At all replicas."""
        return sum([pool.running for pool in self.pools.values()])

    @property
    def prefilling(self) -> float:
        """Beside what runs: those whose prompts are computed or wait for that at an engine."""
        return sum([pool.prefilling for pool in self.pools.values()])

    @property
    def owed_tokens(self) -> float:
        """Prompt and answer tokens of what runs."""
        return sum([pool.owed_tokens for pool in self.pools.values()])

    @property
    def swing(self) -> float:
        """How far above its ends the number of those that run is expected to come within a slot."""
        return sqrt(sum([pool.swing**2 for pool in self.pools.values()]))

    @property
    def is_empty(self) -> bool:
        """Nothing waits and nothing runs."""
        return self.line.first is None and not any(pool.running for pool in self.pools.values())

    def step(self, now_s: float, span_s: float, arrived: Parcel | None, hands: Mapping[str, Hands]) -> None:
        """From ``now_s`` on for ``span_s``; ``arrived`` comes evenly over it, and these are at work."""
        line = self.line
        if arrived is not None and arrived.requests > 0:
            line.arrive(arrived, now_s, span_s)
        line.expire(now_s, span_s, can_serve=any(one.serving > 0 for one in hands.values()))
        shares = self._shares(span_s, hands)
        # The last one has what the others had no room for, however much it was to be.
        last = next(reversed(shares), "")
        for variant in [*(name for name in self.pools if name not in shares), *shares]:
            at_work = hands.get(variant, NOBODY)
            self.pools[variant].step(
                now_s,
                span_s,
                inf if variant == last else shares.get(variant, inf),
                serving=at_work.serving,
                draining=at_work.draining,
                draining_requests=at_work.draining_requests,
            )

    def _shares(self, span_s: float, hands: Mapping[str, Hands]) -> dict[str, float]:
        """How many of those in line go where, the cheap ones first; empty where there is nothing to choose."""
        serving = [name for name, one in hands.items() if one.serving > 0]
        first = self.line.first
        if len(serving) < 2 or first is None:
            return {}
        prompt, output = first.prompt_tokens / first.requests, first.output_tokens / first.requests
        offers = sorted(
            (self._offer(name, hands[name], prompt, output, span_s) for name in serving),
            key=lambda offer: offer.alone_s,
        )
        found_s = level_s(
            offers[0].alone_s,
            max(offer.alone_s + offer.each_more_s * offer.room for offer in offers),
            lambda at_s: sum(offer.takes(at_s) for offer in offers),
            self.line.requests,
        )
        return {offer.variant: offer.takes(found_s) for offer in offers}

    def _offer(self, variant: str, hands: Hands, prompt: float, output: float, span_s: float) -> _Offer:
        pool = self.pools[variant]
        alone_s, each_more_s = pool.prices(prompt, output)
        left, turned_over = pool.kept_up(span_s)
        stays = max(0.0, pool.running - hands.draining_requests) * left
        room = pool.room(prompt, output)
        return _Offer(variant, alone_s, each_more_s, hands.serving, stays, turned_over, room)

    # ---- what is measured ----

    @property
    def ttft_s(self) -> tuple[float, float, float] | None:
        """Median, 90th and 95th percentile of the first tokens of the last slot, about; None without any."""
        told = [(pool.let_in, pool.ttft_s) for pool in self.pools.values() if pool.ttft_s is not None]
        let_in = sum(count for count, _ in told)
        if len(told) < 2 or let_in <= 0.0:
            return told[0][1] if told else None
        p50, p90, p95 = (sum(count * each[at] for count, each in told) / let_in for at in range(3))
        return p50, p90, p95

    def tpot_seen_s(self, ratio: float) -> float:
        """The pace that this share of the answers does not exceed: those of one variant have one pace."""
        paces = sorted((pool.tpot_seen_s, pool.running) for pool in self.pools.values())
        running, passed = self.running, 0.0
        if running <= 0.0:
            return self.pools[""].tpot_seen_s
        for pace_s, count in paces:
            passed += count
            if passed >= ratio * running:
                return pace_s
        return paces[-1][0]

    @property
    def stay_s(self) -> float:
        """For how long an answer is there, on the mean of those that run."""
        running = self.running
        if running <= 0.0:
            return self.pools[""].stay_s
        return sum([pool.running * pool.stay_s for pool in self.pools.values()]) / running
