"""A fixed fleet of simulated replicas and one router before it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.routing import rivals
from tidegate.core.dispatch.routing.pick import Picker
from tidegate.core.dispatch.routing.rivals.books import Watched
from tidegate.core.dispatch.routing.rivals.spread import least_loaded
from tidegate.core.dispatch.seats import Seat
from tidegate.core.effects import Record
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import DispatchConfig, FleetLimits, FleetModel, QueueLimits, Routing
from tidegate.core.types import Dice, ModelId
from tidegate.core.windows import percentile
from tidegate.engine.catalogue import profile
from tidegate.sim.scenario import ModelSetup, Scenario
from tidegate.sim.world import World
from tidegate.workload.traces import Trace

MODEL = ModelId("m")
OURS = Routing.LEAST_SECONDS
OTHERS = tuple(routing for routing in Routing if routing is not OURS)
PLENTY = QueueLimits(max_requests=1_000_000, max_tokens=10**12, max_wait_busy_s=3_600.0)


@dataclass(frozen=True, slots=True)
class Fleet:
    """Replicas alike, always there. Slots are the engine's own batch size, so no router waits for one."""

    replicas: int = 8
    profile: str = "llama-3.1-8b-h100x1"
    slots: int = 256
    adapter_load_s: float = 0.05

    def scenario(self, routing: Routing, block_tokens: int) -> Scenario:
        """The fleet behind this router, with cache blocks as large as the trace's."""
        limits = profile(self.profile).limits
        blocks = limits.kv_blocks * limits.block_tokens // block_tokens
        limits = replace(
            limits,
            max_sequences=self.slots,
            kv_blocks=blocks,
            block_tokens=block_tokens,
            adapter_load_s=self.adapter_load_s,
        )
        scaling = Scaling(min_replicas=self.replicas, max_replicas=self.replicas)
        setup = ModelSetup(
            dispatch=DispatchConfig(routing, PLENTY, kv_tokens=blocks * block_tokens),
            fleet=FleetModel(engine="emulated", slots=self.slots, scaling=scaling),
            limits=limits,
            law=profile(self.profile).law,
        )
        return Scenario(
            models={MODEL: setup}, fleet=FleetLimits(max_starts_per_hour=1_000), request_timeout_s=3_600.0
        )


class Seen(NamedTuple):
    """What a run was like. Requests without an answer waited for ever."""

    p50_s: float
    p90_s: float
    p99_s: float
    e2e_p90_s: float
    hit_ratio: float
    max_to_mean: float
    """Of the tokens of the requests that replicas were given, prompts and answers, cached or not."""
    busy_max_to_mean: float
    """Of the time that engines worked."""
    computed_max_to_mean: float
    """Of the tokens that they computed: those that were not cached, and the answers'."""
    adapter_loads: int


class Given:
    """A journal that keeps one sum for each replica: the tokens of what it answered."""

    def __init__(self) -> None:
        self.tokens: Counter[str] = Counter()

    def turn(self, brain: str, now_s: float, event: object, effects: Iterable[object]) -> None:
        """One turn of a brain."""
        for effect in effects:
            if isinstance(effect, Record) and effect.replica_id is not None:
                self.tokens[effect.replica_id] += effect.prompt_tokens + (effect.output_tokens or 0)


def play(trace: Trace, fleet: Fleet, routing: Routing, seed: int) -> Seen:
    """One run."""
    given = Given()
    world = World(trace, fleet.scenario(routing, trace.block_tokens), seed, given, None)
    with _without_collector():
        run = world.run()
    engines = [engine.engine for engine in world._fleet.engines.values()]
    ttft_s, e2e_s = sorted(run.tally.ttft_s), sorted(run.tally.e2e_s)
    return Seen(
        *(percentile(ttft_s, ratio) or inf for ratio in (0.5, 0.9, 0.99)),
        e2e_p90_s=percentile(e2e_s, 0.9) or inf,
        hit_ratio=run.tally.cached_tokens / max(1, run.tally.prompt_tokens),
        max_to_mean=_max_to_mean(given.tokens.values(), len(engines)),
        busy_max_to_mean=_max_to_mean([engine.busy_s for engine in engines], len(engines)),
        computed_max_to_mean=_max_to_mean([engine.step_tokens for engine in engines], len(engines)),
        adapter_loads=sum(engine.adapter_loads for engine in engines),
    )


def _max_to_mean(loads: Collection[float], replicas: int) -> float:
    return max(loads) * replicas / max(1e-9, sum(loads))


def means(seen: list[Seen]) -> Seen:
    """The mean of each figure over seeds."""
    columns = zip(*seen, strict=True)
    return Seen(*(sum(column) / len(seen) for column in columns))  # type: ignore[arg-type]  # a mean of counts


class Sticky(Watched):
    """Whoever has the longest match, for ever; among those without one, the fewest requests in flight.

    ``shared_tokens`` that all prompts have in common are no match. 0: they are, which sends everything to one.
    """

    shared_tokens = 0

    def __init__(self, dice: Dice, _kv_tokens: int) -> None:
        super().__init__(dice, None)

    def pick(self, entry: Entry, candidates: list[Seat], now_s: float) -> Seat:
        """Never leave."""
        matched = self.books.matched(entry, candidates)
        longest = max(matched)
        if longest <= self.shared_tokens:
            return least_loaded(candidates, self.dice)
        return next(seat for seat, tokens in zip(candidates, matched, strict=True) if tokens == longest)


def play_sticky(trace: Trace, fleet: Fleet, seed: int, shared_tokens: int) -> Seen:
    """A run with the sticky one, in the place of one that is registered."""
    stood_for = Routing.PREBLE
    known: Any = rivals.RIVALS[stood_for.value]

    class Kept(Sticky):
        pass

    Kept.shared_tokens = shared_tokens

    def made(dice: Dice, kv_tokens: int) -> Picker:
        return Kept(dice, kv_tokens)

    rivals.RIVALS[stood_for.value] = made
    try:
        return play(trace, fleet, stood_for, seed)
    finally:
        rivals.RIVALS[stood_for.value] = known


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
