"""A run's figures under the names that scripts may rely on."""

from __future__ import annotations

from tidegate.core.effects import Shadowed
from tidegate.sim.oracle import Oracle, regret
from tidegate.sim.summary import Spread, Summary


def as_json(
    summary: Summary, *, policy: str, trace: str, cpu_s: float, oracle: Oracle | None = None
) -> dict[str, object]:
    """One object, its keys in this order. A percentile that falls among requests without an answer is null. ``nodes`` is
    there where the controller knows them, ``shadows`` where a second policy looked on."""
    found: dict[str, object] = {
        "policy": policy,
        "trace": trace,
        "seed": summary.seed,
        "requests": summary.requests,
        "completed": summary.completed,
        "rejected": summary.rejected,
        "expired": summary.expired,
        "failed": summary.failed,
        "ttft_s": _spread(summary.ttft_s),
        "tpot_s": _spread(summary.tpot_s),
        "e2e_s": _spread(summary.e2e_s),
        "queue_wait_s": _spread(summary.queue_wait_s),
        "slo": {
            "ttft_s": summary.slo.ttft_s,
            "tpot_s": summary.slo.tpot_s,
            "attainment": summary.attainment,
        },
        "goodput_per_s": summary.goodput_per_s,
        "replicas": {
            "mean_provisioned": summary.mean_provisioned,
            "mean_serving": summary.mean_serving,
            "max": summary.max_provisioned,
        },
        "replica_hours": summary.replica_hours,
        "gpu_hours": summary.gpu_hours,
        "cost": summary.cost,
        "spilt": {"requests": summary.spilt, "cost": summary.spilt_cost},
        "scale_ups": summary.scale_ups,
        "scale_downs": summary.scale_downs,
        "reversals": summary.reversals,
        "cold_starts": summary.cold_starts,
        "prefix_hit_ratio": summary.prefix_hit_ratio,
        "oracle": None
        if oracle is None
        else {
            "replica_hours": oracle.replica_hours,
            "cost": oracle.cost,
            "regret": regret(summary.replica_hours, oracle, summary.cost),
        },
        "cpu_s": cpu_s,
        "simulated_s": summary.simulated_s,
    }
    if summary.shadows:
        found["shadows"] = {shadow.model: _shadow(shadow) for shadow in summary.shadows}
    if summary.nodes:
        found["nodes"] = {
            node.name: {"gpu_hours_used": node.used, "gpu_hours": node.there, "cost": node.cost}
            for node in summary.nodes
        }
    return found


def _shadow(shadow: Shadowed) -> dict[str, object]:
    """Both courses as predicted by one model; the acting one was measured too, and that is above."""
    return {
        "policy": shadow.policy,
        "judged_s": shadow.judged_s,
        "attainment": shadow.attainment,
        "replica_hours": shadow.replica_hours,
        "cost": shadow.cost,
        "acting": {
            "attainment": shadow.acting_attainment,
            "replica_hours": shadow.acting_replica_hours,
            "cost": shadow.acting_cost,
        },
        "regret": shadow.regret,
    }


def _spread(found: Spread) -> dict[str, float | None]:
    return {
        "mean": found.mean,
        "p50": found.p50,
        "p90": found.p90,
        "p95": found.p95,
        "p99": found.p99,
    }
