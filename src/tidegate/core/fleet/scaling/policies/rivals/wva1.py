"""llm-d's Workload Variant Autoscaler, percentage model (V1), every 60 s, for one variant.

Source: llm-d/llm-d-workload-variant-autoscaler, saturation analyzer (2026-02; v0.9.0 is its last release). Of each
replica the largest KV use and queue of the last minute count. With those that are not saturated (KV < 0.80 and
queue < 5) and spare = threshold - value:

    up by 1 when their mean spare KV < 0.10 or their mean spare queue < 3, and none is pending
    down by 1 when at least 2 are not saturated, and their load on one fewer leaves both spares
    a wish stands until it has come true

What waits at the gateway counts as queued at the engines, evenly: there they would have it. The choice among variants
by cost is not modelled: a model has one here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.policies.paced import Answer
from tidegate.core.fleet.scaling.policies.rivals.constants import with_changes
from tidegate.core.fleet.scaling.policies.rivals.minute import Minute
from tidegate.core.scaling_settings import Scaling


@dataclass(frozen=True, slots=True)
class Wva1Constants:
    """WVA's defaults."""

    kv_limit: float = 0.80
    queue_limit: float = 5
    kv_spare: float = 0.10
    queue_spare: float = 3
    period_s: float = 60.0


class Wva1:
    """The law for one model."""

    reads_engines = True

    def __init__(self, constants: Wva1Constants) -> None:
        self._law = constants
        self._minute = Minute()

    def __repr__(self) -> str:
        return f"<Wva1 {self._minute!r}>"

    def look(self, seen: Situation, now_s: float) -> None:
        """Take the pages."""
        self._minute.add(seen.engines, now_s)

    def evaluate(self, seen: Situation, now_s: float) -> Answer:
        """One step up or down, or none."""
        del now_s
        standing = seen.standing
        if seen.live != seen.serving or seen.live != standing:
            return Answer(standing, standing, "the last wish has not come true yet", "transition")
        pages = self._minute.largest(engine.replica_id for engine in seen.engines)
        if not pages:
            return Answer(standing, standing, "no engine says how full it is", "no data")
        held = seen.demand.queued / len(pages)
        return self._decided(standing, [(kv, queue + held) for kv, queue in pages])

    def _decided(self, standing: int, pages: Sequence[tuple[float, float]]) -> Answer:
        law = self._law
        open_ = [(kv, queue) for kv, queue in pages if kv < law.kv_limit and queue < law.queue_limit]
        if not open_:
            return Answer(standing + 1, standing + 1, f"all {len(pages)} are saturated")
        kv_load, queue_load = sum(kv for kv, _ in open_), sum(queue for _, queue in open_)
        kv_spare = law.kv_limit - kv_load / len(open_)
        queue_spare = law.queue_limit - queue_load / len(open_)
        said = f"spare {kv_spare:.2f} of the cache and {queue_spare:.1f} of the queue"
        if kv_spare < law.kv_spare or queue_spare < law.queue_spare:
            return Answer(standing + 1, standing + 1, said)
        fewer = len(open_) - 1
        if fewer >= 1:
            kv_left, queue_left = law.kv_limit - kv_load / fewer, law.queue_limit - queue_load / fewer
            if kv_left >= law.kv_spare and queue_left >= law.queue_spare:
                because = (
                    f"one fewer would leave {kv_left:.2f} of the cache and {queue_left:.1f} of the queue"
                )
                return Answer(standing - 1, standing - 1, because)
        return Answer(standing, standing, said)


def wva1(scaling: Scaling, standing: int, now_s: float) -> tuple[Wva1, float]:
    """The law with this model's settings, and how often it decides."""
    del standing, now_s
    constants = with_changes(Wva1Constants(), scaling.law)
    return Wva1(constants), constants.period_s
