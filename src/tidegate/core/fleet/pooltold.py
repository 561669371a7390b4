"""What is said of a pool: how many it is to hold, for what, and what one more or less would have meant.

So many as are held cover as many of those that may be needed; a warm one covers any of them. What is left is uncovered.
"""

from __future__ import annotations

from tidegate.core.effects import Pooled, PoolPrediction
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import size_in
from tidegate.core.fleet.scaling.limits import PoolGrant
from tidegate.core.fleet.warmpool import Upkeep
from tidegate.core.lifecycle import State

CAPS = "the fleet's caps"


def pooled(
    plan: Plan, todo: Upkeep, grant: PoolGrant, inputs: dict[str, float], before: Pooled | None
) -> Pooled | None:
    """None while what is to be held, and what keeps it from being more, is as it was ``before``. ``inputs``: what the mix
    was worked out from."""
    mix, held_by = todo.mix, _held_by(plan, todo, grant)
    if before is not None:
        was = (before.warm, before.sleeping, before.cached, before.variant, before.held_by)
        if was == (todo.warm, todo.asleep, mix.cached, plan.reserve, held_by):
            return None
    spec = plan.spec_as(plan.reserve)
    warm, asleep = size_in(spec, State.WARM).price_per_h, size_in(spec, State.SLEEPING).price_per_h
    disk = plan.spec.pool.cached_price_per_h if mix.cached else 0.0
    needed = mix.warm + mix.sleeping + mix.uncovered
    held, cost = todo.warm + todo.asleep, todo.warm * warm + todo.asleep * asleep + disk

    def predicted(number: int, cost_per_h: float) -> PoolPrediction:
        return PoolPrediction(number, max(0, needed - number), cost_per_h)

    last = 0.0 if not held else asleep if todo.asleep else warm
    return Pooled(
        model=plan.model,
        warm=todo.warm,
        sleeping=todo.asleep,
        cached=mix.cached,
        because=_because(inputs, needed) if plan.spec.pool.is_used else "the model has no pool any more",
        held_by=held_by,
        inputs=inputs
        | {"desired": float(plan.desired), "warm_price_per_h": warm, "sleeping_price_per_h": asleep},
        fewer=predicted(max(0, held - 1), cost - last),
        chosen=predicted(held, cost),
        more=predicted(held + 1, cost + warm),
        variant=plan.reserve,
    )


def _held_by(plan: Plan, todo: Upkeep, grant: PoolGrant) -> str | None:
    pool, mix = plan.spec.pool, todo.mix
    asked = min(pool.max_warm, max(pool.min_warm, mix.warm)), min(pool.max_sleeping, mix.sleeping)
    if grant.warm < asked[0] or grant.sleeping < asked[1]:
        return CAPS
    if todo.warm > mix.warm and todo.warm == pool.min_warm:
        return "min_warm"
    return "max_warm" if mix.uncovered else None


def _because(inputs: dict[str, float], needed: int) -> str:
    if not any(name.startswith("rise_in_") for name in inputs):
        return "how fast its demand rises is not known yet"
    if "start_s" not in inputs:
        start = "how long a start takes is not known"
    else:
        start = f"a start takes up to {inputs['start_s']:.3g} s"
        if "cached_start_s" in inputs and inputs["cached_start_s"] < inputs["start_s"]:
            start += f", {inputs['cached_start_s']:.3g} s with its weights on the disk"
    more = f"up to {needed} more {'are' if needed > 1 else 'is'}" if needed else "nobody more is"
    return f"{more} needed before a start is over, but in {inputs['risk']:.0%} of all moments; {start}"
