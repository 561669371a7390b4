"""How many replicas each slot of a trace needs, for the oracle.

Fluid: a request's work is the time it takes from one replica that is as full as the promise allows. With
``B`` sequences decoding, a step takes ``s(B)``; prompts take ``pf`` of extra time a request, so at a rate
``r`` the share ``r * pf`` of the time goes to them and a token takes ``s(B) / (1 - r * pf)``. The largest
batch whose tokens still come in time gives ``r = B / (s(B) * output + B * pf)``, and a request's work is
``pf + output * s(B) / B``. Chance is left out: the oracle knows the trace, and its needs are a lower bound.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from tidegate.engine.latency import StepLaw
from tidegate.sim.oracle import SLOT_S, Oracle, schedule
from tidegate.sim.run import Run
from tidegate.sim.scenario import ModelSetup, Slo
from tidegate.workload.traces import Trace


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


def work_by_slot(trace: Trace, setup: ModelSetup, slo: Slo, slot_s: float, fresh: float) -> array[float]:
    """Replica-seconds of work that arrive in each slot. ``fresh`` is the share of prompts not cached."""
    rows = max(1, len(trace))
    prompt, output = fresh * sum(trace.prompt_tokens) / rows, sum(trace.output_tokens) / rows
    full = full_replica(setup, slo, prompt, output)
    cached = round(full.batch * (prompt + output / 2))
    unit_s = prefill_s(setup.law, full.batch, cached, 1000) / 1000
    work = array("d", bytes(8 * (int((trace.arrived_s[-1] if rows else 0) // slot_s) + 1)))
    for at_s, asked, tokens in zip(trace.arrived_s, trace.prompt_tokens, trace.output_tokens, strict=True):
        work[int(at_s // slot_s)] += fresh * asked * unit_s + tokens * full.token_share_s
    return work


def oracle_of(run: Run, slot_s: float = SLOT_S) -> tuple[Oracle, int]:
    """The cheapest schedule for a run's trace, and the number that a fixed fleet would need.

    Raises:
        ValueError: the run has several models.
    """
    if len(run.scenario.models) != 1:
        raise ValueError("the oracle is for one model; this run has several")
    setup = next(iter(run.scenario.models.values()))
    hit = run.tally.cached_tokens / run.tally.prompt_tokens if run.tally.prompt_tokens else 0.0
    work = work_by_slot(run.trace, setup, run.scenario.slo, slot_s, 1.0 - hit)
    needs = _ceiled(work, slot_s)
    lead = ceil(setup.cold_start.total_s() / slot_s - 1e-9)
    return schedule(needs, lead, slot_s), max(needs, default=0)


def _ceiled(work_s: Sequence[float], slot_s: float) -> list[int]:
    return [ceil(work / slot_s - 1e-9) for work in work_s]
