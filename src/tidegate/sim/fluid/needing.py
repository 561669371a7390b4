"""The oracle of ``sim.oracle`` for a load: the same law of work as ``sim.needs``, without a trace's rows."""

from __future__ import annotations

from math import ceil, log1p

from tidegate.sim.fluid.load import Load
from tidegate.sim.needs import full_replica
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
    found: list[float] = []
    coarse = load.coarser(slot_s)
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
        found.append(count / (rates[key] * coarse.slot_s))
    return found


def oracle_of_load(load: Load, setup: ModelSetup, slo: Slo, slot_s: float = SLOT_S) -> Oracle:
    """The cheapest schedule that serves the load, started in time for each slot."""
    needs = needs_of_load(load, setup, slo, slot_s)
    lead = ceil(setup.cold_start.total_s() / slot_s - 1e-9)
    return schedule(needs, lead, slot_s)
