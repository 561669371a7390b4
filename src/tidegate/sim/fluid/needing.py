"""The oracle of ``sim.oracle`` for a load: the same law of work as ``sim.needs``, without a trace's rows."""

from __future__ import annotations

from math import ceil, log1p

from tidegate.core.fleet.mixing import Offer, cheapest
from tidegate.core.fleet.variants import DEFAULT
from tidegate.sim.fluid.load import Load
from tidegate.sim.mixed_oracle import Kind, MixedDuties, cheapest_mix, most_of_each
from tidegate.sim.needs import MIXED_SLOTS, full_replica
from tidegate.sim.oracle import SLOT_S, Oracle, schedule
from tidegate.sim.scenario import ModelSetup, Slo

LENGTH_STEP = 0.02
"""Lengths within 2 % of each other are taken for the same."""


def needs_of_load(
    load: Load, setup: ModelSetup, slo: Slo, slot_s: float = SLOT_S, full: float = 1.0
) -> list[int]:
    """Replicas that each slot needs, with requests of that slot's own mean lengths.

    ``full`` is how full replicas are planned to be, as a share of what they can do on the mean.
    """
    return [ceil(work / full - 1e-9) for work in work_of_load(load, setup, slo, slot_s)]


def work_of_load(load: Load, setup: ModelSetup, slo: Slo, slot_s: float = SLOT_S) -> list[float]:
    """The same in parts of a replica that is as full as the promise allows."""
    coarse = load.coarser(slot_s)
    rates = _full_per_s(coarse, setup, slo)
    return [
        count / (rate * coarse.slot_s) if count > 0 else 0.0
        for count, rate in zip(coarse.requests, rates, strict=True)
    ]


def _full_per_s(coarse: Load, setup: ModelSetup, slo: Slo) -> list[float]:
    """What one replica answers a second, slot by slot, with requests of that slot's own mean lengths; 0 without any."""
    found: list[float] = []
    rates: dict[tuple[int, int], float] = {}
    for count, prompts, outputs in zip(
        coarse.requests, coarse.prompt_tokens, coarse.output_tokens, strict=True
    ):
        if count <= 0:
            found.append(0.0)
            continue
        prompt, output = prompts / count, max(1.0, outputs / count)
        key = (round(log1p(prompt) / LENGTH_STEP), round(log1p(output) / LENGTH_STEP))
        if key not in rates:
            rates[key] = full_replica(setup, slo, prompt, output).requests_per_s
        found.append(rates[key])
    return found


def oracle_of_load(load: Load, setup: ModelSetup, slo: Slo, slot_s: float = SLOT_S) -> Oracle:
    """The cheapest schedule that serves the load, started in time for each slot; in money where the model has variants."""
    if setup.variants:
        duties = mixed_duties_of_load(load, setup, slo, max(slot_s, load.span_s / MIXED_SLOTS))
        return cheapest_mix(duties, most_of_each(duties, 1))
    needs = needs_of_load(load, setup, slo, slot_s)
    lead = ceil(setup.cold_start.total_s() / slot_s - 1e-9)
    return schedule(needs, lead, slot_s)


def mixed_duties_of_load(load: Load, setup: ModelSetup, slo: Slo, slot_s: float = SLOT_S) -> MixedDuties:
    """Each slot's work in money, at the variant that does it for least. It is done in its slot, and starts take whole
    slots."""
    coarse = load.coarser(slot_s)
    rates = {name: _full_per_s(coarse, way, slo) for name, way in setup.ways.items()}
    prices = {name: way.fleet.price_per_h / 3600.0 for name, way in setup.ways.items()}
    least = [
        min(prices[name] / rate for name, rate in zip(rates, each, strict=True)) if all(each) else 0.0
        for each in zip(*rates.values(), strict=True)
    ]
    kinds = [
        Kind(
            name=name or DEFAULT,
            price_per_s=prices[name],
            does_per_s=max((cost * rate for cost, rate in zip(least, its, strict=True)), default=0.0),
            start_s=coarse.slot_s * ceil(setup.ways[name].cold_start.total_s() / coarse.slot_s - 1e-9),
            edge_s=0.0,
        )
        for name, its in rates.items()
    ]
    work = [count * cost for count, cost in zip(coarse.requests, least, strict=True)]
    return MixedDuties(slot_s=coarse.slot_s, work=work, may_wait=[0.0] * len(work), kinds=kinds)


def fleet_for(load: Load, setup: ModelSetup, slo: Slo, least: int, most: int) -> dict[str, int]:
    """So many of each variant that the load needs all the time, the cheapest such fleet of so many at least and at most."""
    if not setup.variants:
        needs = needs_of_load(load, setup, slo)
        return {"": min(max([*needs, least]), most)}
    duties = mixed_duties_of_load(load, setup, slo)
    busiest = max(duties.work, default=0.0) / duties.slot_s
    own = duties.kinds[0].does_per_s
    offers = [
        Offer(name, kind.does_per_s / own if own else 1.0, kind.price_per_s, most=way.fleet.own_max_replicas)
        for (name, way), kind in zip(setup.ways.items(), duties.kinds, strict=True)
    ]
    counts = cheapest(busiest / own if own else 0.0, offers, least, most)
    return dict(zip(setup.ways, counts, strict=True))
