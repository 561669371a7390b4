"""What one replica can do, and the least that a trace asks for, for the oracles.

``full_replica`` is fluid: a request's work is the time it takes from one replica that is as full as the promise allows. With
``B`` sequences decoding, a step takes ``s(B)``; prompts take ``pf`` of extra time a request, so at a rate
``r`` the share ``r * pf`` of the time goes to them and a token takes ``s(B) / (1 - r * pf)``. The largest
batch whose tokens still come in time gives ``r = B / (s(B) * output + B * pf)``, and a request's work is
``pf + output * s(B) / B``. Chance is left out.

``least_work_s`` is a bound: no engine works for less time on a request, whoever is in the batch with it. A step that
decodes ``n`` sequences lasts ``a + b*n + c*K`` or longer and ``n`` is at most the largest batch ``B``, so a token takes
``a/B + b + c*k`` of it; the prompt's own terms come on top.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, takewhile

from tidegate.core.fleet.replicas import size_in
from tidegate.core.fleet.variants import DEFAULT
from tidegate.core.lifecycle import State
from tidegate.core.settings import FleetModel
from tidegate.core.tiers import Tier
from tidegate.engine.latency import LinearLaw, StepLaw
from tidegate.sim.mixed_oracle import Kind, MixedDuties, cheapest_fixed, cheapest_mix, most_of_each
from tidegate.sim.oracle import Duties, Oracle, cheapest_in_time, fewest_at_all_times
from tidegate.sim.run import Run
from tidegate.sim.scenario import ModelSetup, Slo
from tidegate.workload.traces import Trace

MOST_SLOTS = 20_000
MIXED_SLOTS = 2_000
"""Of several kinds there are many fleets to look at in each."""


@dataclass(frozen=True, slots=True)
class Full:
    """One replica as full as the promise allows, with requests of the trace's mean lengths."""

    batch: int
    token_share_s: float
    """Time that one token of an answer takes from the replica."""
    requests_per_s: float


def full_replica(setup: ModelSetup, slo: Slo, prompt_tokens: float, output_tokens: float) -> Full:
    """The largest batch whose tokens come in time; one sequence when even that is too slow."""
    law, limits = setup.law, setup.limits
    longest = max(1.0, prompt_tokens + output_tokens)
    room = int(limits.kv_blocks * limits.block_tokens / longest)
    found = Full(1, law.decode_s(1, round(longest), 1), 0.0)
    for batch in range(1, max(1, min(limits.max_sequences, setup.fleet.slots, room)) + 1):
        cached = round(batch * (prompt_tokens + output_tokens / 2))
        step_s = law.decode_s(batch, cached, 1)
        prompt_s = prefill_s(law, batch, cached, round(prompt_tokens))
        rate = batch / (step_s * max(1.0, output_tokens) + batch * prompt_s)
        if batch > 1 and step_s > slo.tpot_s * (1 - rate * prompt_s):
            break
        found = Full(batch, step_s / batch, rate)
    return found


def prefill_s(law: StepLaw, batch: int, cached: int, prompt_tokens: int) -> float:
    """What a prompt adds to the step that computes it."""
    if prompt_tokens < 1:
        return 0.0
    return law.mixed_s(batch, cached, [(prompt_tokens, 0)]) - law.decode_s(batch, cached, 1)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as the oracle sees it."""

    arrived_s: float
    due_s: float
    """Its last token, when both parts of the promise are just kept."""
    work_s: float


def least_work_s(
    law: StepLaw, batch: int, prompt_tokens: int, cached_tokens: int, output_tokens: int
) -> float:
    """The least time that an engine can work for one request."""
    work_s = _least_prompt_s(law, prompt_tokens - cached_tokens, cached_tokens)
    decoded = output_tokens - 1  # the prompt's last step gives the first token
    if decoded > 0:
        mean_cached = prompt_tokens + (decoded - 1) / 2
        work_s += decoded * law.decode_s(batch, int(batch * mean_cached), 1) / batch
    return work_s


def _least_prompt_s(law: StepLaw, new: int, cached: int) -> float:
    """What a prompt adds to steps, in whatever chunks it is computed."""
    if isinstance(law, LinearLaw):
        per_pair = 2 * law.f if law.g is None else law.g
        x, y = new / 1000, cached / 1000
        return (law.e * x + min(law.f, per_pair / 2) * x * x + per_pair * x * y) / 1000
    return max(0.0, law.mixed_s(0, 0, [(new, cached)]) - law.mixed_s(0, 0, [(1, 0)]))


def asked_of(trace: Trace, setup: ModelSetup, slo: Slo) -> Iterator[Asked]:
    """Row by row. A block of a prompt is computed once and found in a cache ever after, wherever it is asked for."""
    batch = setup.limits.max_sequences
    seen: set[int] = set()
    rows = zip(trace.arrived_s, trace.prompt_tokens, trace.output_tokens, strict=True)
    for row, (at_s, prompt, output) in enumerate(rows):
        cached = 0
        if trace.prefixes is not None and setup.limits.prefix_caching:
            names = trace.prefixes[row]
            hits = sum(1 for _ in takewhile(seen.__contains__, names))
            cached = max(0, min(hits * trace.block_tokens, prompt - 1))
            seen.update(names)
        work_s = least_work_s(setup.law, batch, max(1, prompt), cached, max(1, output))
        yield Asked(at_s, _due_s(slo, at_s, output), work_s)


def _due_s(slo: Slo, arrived_s: float, output_tokens: int) -> float:
    return arrived_s + slo.ttft_s + slo.tpot_s * max(0, output_tokens - 1)


def duties_of(trace: Trace, setup: ModelSetup, slo: Slo, start_s: float) -> Duties:
    """By slots of a tenth of a start, or longer ones when there would be too many."""
    rows = zip(trace.arrived_s, trace.output_tokens, strict=True)
    last_s = max((_due_s(slo, at_s, output) for at_s, output in rows), default=0.0)
    slot_s = max(start_s / 10, last_s / MOST_SLOTS, 1.0)
    came, waits = _by_slots(((one, one.work_s) for one in asked_of(trace, setup, slo)), slot_s, last_s)
    return Duties(slot_s=slot_s, work_s=came, may_wait_s=waits, start_s=start_s)


def mixed_duties_of(trace: Trace, ways: Mapping[str, ModelSetup], slo: Slo) -> MixedDuties:
    """The same for replicas of several kinds, in money: slots of a tenth of the shortest start, or longer ones of half a
    start at most, when there would be too many."""
    prices = [setup.fleet.price_per_h / 3600.0 for setup in ways.values()]
    asked = [list(asked_of(trace, setup, slo)) for setup in ways.values()]
    costs = [
        min(price * one.work_s for price, one in zip(prices, same, strict=True))
        for same in zip(*asked, strict=True)
    ]
    starts_s = [_start_s(setup) for setup in ways.values()]
    last_s = max((one.due_s for one in asked[0]), default=0.0)
    shortest_s = min(starts_s)
    slot_s = max(shortest_s / 10, min(last_s / MIXED_SLOTS, shortest_s / 2), last_s / MOST_SLOTS, 1.0)
    kinds = [
        Kind(
            name=name,
            price_per_s=price,
            does_per_s=max(
                (cost / one.work_s for cost, one in zip(costs, its, strict=True) if one.work_s), default=0.0
            ),
            start_s=start_s,
            edge_s=min(slot_s, start_s / 2),
        )
        for name, price, its, start_s in zip(ways, prices, asked, starts_s, strict=True)
    ]
    came, may_wait = _by_slots(zip(asked[0], costs, strict=True), slot_s, last_s)
    return MixedDuties(slot_s=slot_s, work=came, may_wait=may_wait, kinds=kinds)


def _by_slots(
    asked: Iterable[tuple[Asked, float]], slot_s: float, last_s: float
) -> tuple[array[float], array[float]]:
    """What comes in each slot, and of all that has come by its end what need not be done by then."""
    slots = int(last_s // slot_s) + 1
    came, due = array("d", bytes(8 * slots)), array("d", bytes(8 * slots))
    for one, work in asked:
        came[int(one.arrived_s // slot_s)] += work
        due[int(one.due_s // slot_s)] += work
    return came, array("d", accumulate(arrived - done for arrived, done in zip(came, due, strict=True)))


@dataclass(frozen=True, slots=True)
class Fixed:
    """A fleet that is always there."""

    counts: dict[str, int]
    """By variant, where there are several."""
    price_per_h: float

    @property
    def replicas(self) -> int:
        """All of them."""
        return sum(self.counts.values())


def oracle_of(run: Run) -> tuple[Oracle, Fixed]:
    """The least that a fleet can cost that keeps the promise to all of a run's requests, and the fixed fleet that would
    do: where the model has variants, in money, and of as many of each as would do alone or as the run had.

    Starts are of the shortest kind that the policy has, from disk or from sleep, and take the median time.

    Raises:
        ValueError: the run has several models, or variants of which warm replicas cost less than serving ones, or too
            many of them.
    """
    if len(run.scenario.models) != 1:
        raise ValueError("the oracle is for one model; this run has several")
    setup = next(iter(run.scenario.models.values()))
    if setup.variants:
        ways = setup.ways.values()
        if setup.fleet.pool.max_warm and any(_is_cheaper_warm(way.fleet) for way in ways):
            raise ValueError("of variants it has no bound where warm replicas cost less than serving ones")
        mixed = mixed_duties_of(run.trace, {DEFAULT: setup, **setup.variants}, run.scenario.slo)
        most = most_of_each(mixed, run.provision.most)
        oracle = cheapest_mix(mixed, most)
        counts = cheapest_fixed(mixed, most) or most
        names = [kind.name for kind in mixed.kinds]
        fixed = Fixed(dict(zip(names, counts, strict=True)), 3600.0 * mixed.price_per_s(counts))
        return oracle, fixed
    duties = duties_of(run.trace, setup, run.scenario.slo, _start_s(setup))
    fewest = fewest_at_all_times(duties)
    fixed = Fixed({DEFAULT: fewest}, fewest * setup.fleet.price_per_h)
    return cheapest_in_time(duties, max(fewest, run.provision.most)), fixed


def _is_cheaper_warm(fleet: FleetModel) -> bool:
    """Then it may be cheaper to be put aside than to be stopped and started, which the schedule does not know."""
    return size_in(fleet, State.WARM).price_per_h < size_in(fleet, State.SERVING).price_per_h


def _start_s(setup: ModelSetup) -> float:
    start = setup.cold_start
    start_s = start.total_s(Tier.CACHED, () if start.build is None else (start.build,))
    return min(start_s, start.total_s(Tier.SLEEPING)) if setup.fleet.pool.max_sleeping else start_s
