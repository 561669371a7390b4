"""The figures of a run.

Percentiles are over all requests: whoever was turned away, ran out of time or failed waited for ever, so a
percentile is None when it falls among those. Means are over the answers that came. A request keeps the
promise when it is complete and keeps both its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from tidegate.core.effects import Decision, Shadowed
from tidegate.core.nodes import Node
from tidegate.core.outcomes import Outcome
from tidegate.core.windows import percentile
from tidegate.sim.provision import ORDER, PROVISIONED, Phase
from tidegate.sim.run import Run
from tidegate.sim.scenario import Slo
from tidegate.sim.tally import COMPLETED

HOUR_S = 3600.0
REVERSAL_WITHIN_S = 600.0
"""A step against the one before it is a reversal when it comes so soon."""

_KIND = {
    Outcome.COMPLETED: "completed",
    Outcome.EXPIRED_QUEUED: "expired",
    Outcome.EXPIRED_NOBODY: "expired",
    Outcome.EXPIRED_RUNNING: "expired",
    Outcome.FAILED_ENGINE: "failed",
    Outcome.FAILED_MIDSTREAM: "failed",
    Outcome.CUT_STOPPING: "failed",
    Outcome.CLIENT_GONE: "failed",
}
"""All others are rejections."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds; None where the answer never came, or there was none."""

    mean: float | None
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Tenant:
    """One tenant's share."""

    name: str
    requests: int
    attainment: float
    ttft_p95_s: float | None
    output_tokens: int


@dataclass(frozen=True, slots=True)
class NodeHours:
    """One node's GPUs."""

    name: str
    used: float
    """GPU-hours in which they carried anything."""
    there: float
    """GPU-hours of the whole run."""
    cost: float | None
    """Of the machine for the whole run; None without a price."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Everything that the reports show."""

    seed: int
    requests: int
    completed: int
    rejected: int
    expired: int
    failed: int
    outcomes: dict[str, int]
    retries: int
    ttft_s: Spread
    tpot_s: Spread
    itl_s: Spread
    e2e_s: Spread
    queue_wait_s: Spread
    slo: Slo
    ttft_attainment: float
    tpot_attainment: float
    attainment: float
    """Share of all requests that kept both parts of the promise."""
    goodput_per_s: float
    mean_provisioned: float
    mean_serving: float
    max_provisioned: int
    replica_hours: float
    hours_by_phase: dict[str, float]
    gpu_hours: float
    cost: float
    """Of replicas, and of what was spilt."""
    spilt: int
    """Requests that went to a pay-per-token upstream."""
    spilt_cost: float
    scale_ups: int
    scale_downs: int
    reversals: int
    cold_starts: int
    cold_start_s: Spread
    prefix_hit_ratio: float
    tenants: tuple[Tenant, ...]
    """The largest first; empty when the trace names none."""
    simulated_s: float
    turns: int
    nodes: tuple[NodeHours, ...] = ()
    """Where the controller knows them."""
    shadows: tuple[Shadowed, ...] = ()
    """Second policies beside those that acted, both as predicted."""


def summarize(run: Run) -> Summary:
    """The figures of a run."""
    tally, provision = run.tally, run.provision
    tpot_s = tally.tpot_s(run.trace.output_tokens)
    kept = kept_rows(run, tpot_s)
    requests, span_s = len(run.trace), run.simulated_s or 1.0
    counts = tally.counts()
    kinds = dict.fromkeys(("completed", "rejected", "expired", "failed"), 0)
    for outcome, count in counts.items():
        kinds[_KIND.get(outcome, "rejected")] += count
    ups, downs, reversals = scale_steps(run.decisions)
    seconds = provision.seconds
    return Summary(
        seed=run.seed,
        requests=requests,
        **kinds,
        outcomes={outcome.value: count for outcome, count in counts.items()},
        retries=tally.retries,
        ttft_s=spread(tally.ttft_s),
        tpot_s=spread(tpot_s),
        itl_s=Spread(None, *(run.pace.percentile(ratio) for ratio in (0.50, 0.90, 0.95, 0.99))),
        e2e_s=spread(tally.e2e_s),
        queue_wait_s=spread(tally.queue_wait_s),
        slo=run.scenario.slo,
        ttft_attainment=_share(sum(t <= run.scenario.slo.ttft_s for t in tally.ttft_s), requests),
        tpot_attainment=_share(sum(t <= run.scenario.slo.tpot_s for t in tpot_s), requests),
        attainment=_share(sum(kept), requests),
        goodput_per_s=sum(kept) / span_s,
        mean_provisioned=(sum(seconds.values()) - seconds[Phase.SLEEPING]) / span_s,
        mean_serving=seconds[Phase.SERVING] / span_s,
        max_provisioned=provision.most,
        replica_hours=sum(seconds[phase] for phase in PROVISIONED) / HOUR_S,
        hours_by_phase={phase.value: seconds[phase] / HOUR_S for phase in ORDER},
        gpu_hours=provision.gpu_seconds / HOUR_S,
        cost=provision.money + tally.spilt_cost,
        spilt=tally.spilt,
        spilt_cost=tally.spilt_cost,
        scale_ups=ups,
        scale_downs=downs,
        reversals=reversals,
        cold_starts=run.launches,
        cold_start_s=spread(run.cold_starts_s),
        prefix_hit_ratio=_share(tally.cached_tokens, tally.prompt_tokens),
        tenants=_tenants(run, kept),
        simulated_s=run.simulated_s,
        turns=run.turns,
        nodes=tuple(_node_hours(run, node) for node in run.scenario.nodes),
        shadows=run.shadows,
    )


def _node_hours(run: Run, node: Node) -> NodeHours:
    hours = run.simulated_s / HOUR_S
    cost = None if node.price_per_h is None else node.price_per_h * hours
    return NodeHours(node.name, run.gpu_seconds[node.name] / HOUR_S, len(node.gpus) * hours, cost)


def kept_rows(run: Run, tpot_s: Sequence[float]) -> bytearray:
    """1 for each request that kept both parts of the promise."""
    slo = run.scenario.slo
    rows = zip(run.tally.outcomes, run.tally.ttft_s, tpot_s, strict=True)
    return bytearray(
        outcome == COMPLETED and ttft_s <= slo.ttft_s and pace_s <= slo.tpot_s
        for outcome, ttft_s, pace_s in rows
    )


def spread(values: Sequence[float]) -> Spread:
    """Mean of those that are finite, percentiles of all."""
    ordered = sorted(values)
    finite = len(ordered)
    while finite and ordered[finite - 1] == inf:
        finite -= 1
    mean = sum(ordered[:finite]) / finite if finite else None
    return Spread(mean, *(_finite(percentile(ordered, ratio)) for ratio in (0.50, 0.90, 0.95, 0.99)))


def scale_steps(decisions: Sequence[tuple[float, Decision]]) -> tuple[int, int, int]:
    """Steps up, steps down, and how many of them went against the one before within ten minutes.

    A model's first decision is no step: it says what it began with.
    """
    ups = downs = reversals = 0
    last: dict[str, tuple[float, bool]] = {}
    known: set[str] = set()
    for at_s, decision in decisions:
        is_first = decision.model not in known
        known.add(decision.model)
        if is_first or decision.desired == decision.before:
            continue
        is_up = decision.desired > decision.before
        ups += is_up
        downs += not is_up
        before = last.get(decision.model)
        if before is not None and before[1] is not is_up and at_s - before[0] <= REVERSAL_WITHIN_S:
            reversals += 1
        last[decision.model] = at_s, is_up
    return ups, downs, reversals


def _tenants(run: Run, kept: bytearray) -> tuple[Tenant, ...]:
    if run.trace.tenants is None:
        return ()
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(run.trace.tenants):
        rows.setdefault(name or "", []).append(row)
    found = [_tenant(run, kept, name, own) for name, own in rows.items()]
    return tuple(sorted(found, key=lambda tenant: (-tenant.requests, tenant.name)))


def _tenant(run: Run, kept: bytearray, name: str, rows: list[int]) -> Tenant:
    ttft_s = sorted(run.tally.ttft_s[row] for row in rows)
    done = (row for row in rows if run.tally.outcomes[row] == COMPLETED)
    return Tenant(
        name=name,
        requests=len(rows),
        attainment=_share(sum(kept[row] for row in rows), len(rows)),
        ttft_p95_s=_finite(percentile(ttft_s, 0.95)),
        output_tokens=sum(run.trace.output_tokens[row] for row in done),
    )


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
