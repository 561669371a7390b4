"""The route table: what the gateways are told, whole each time, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.core.effects import PublishRoutes
from tidegate.core.fleet.adapting import troubles_of
from tidegate.core.fleet.coldstart import PROMOTION_S, ColdStarts
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, route_gpu, size_in
from tidegate.core.lifecycle import State
from tidegate.core.types import ModelRoute, Route, RouteTable

PUBLISH_EVERY_S = 5.0
"""The table is sent again at this rate even when nothing has changed: the same work on a quiet day as on
a bad one, and a gateway that missed one has it soon."""


class RouteBook:
    """The table in force and its version."""

    def __init__(self) -> None:
        self._table = RouteTable(0, (), ())
        self._is_new = True
        self._published_s: float | None = None

    def __repr__(self) -> str:
        return f"<RouteBook version={self._table.version} routes={len(self._table.routes)}>"

    @property
    def version(self) -> int:
        """Of the table published last."""
        return self._table.version

    def hear_version(self, version: int) -> bool:
        """A gateway names a table. True when it is from before this controller's time: ours must be
        newer than that one, and what was said of ours so far may have been said of that one."""
        if version <= self._table.version:
            return False
        self._table = RouteTable(version, self._table.models, self._table.routes)
        self._is_new = True
        return True

    def publish(
        self, models: tuple[ModelRoute, ...], routes: tuple[Route, ...], now_s: float, *, on_tick: bool
    ) -> list[PublishRoutes]:
        """A new version when something has changed; the same again when it is time for that."""
        last = self._table
        if self._is_new or models != last.models or routes != last.routes:
            self._table = RouteTable(last.version + 1, models, routes)
        elif not (on_tick and self._published_s is not None and now_s >= self._published_s + PUBLISH_EVERY_S):
            return []
        self._is_new = False
        self._published_s = now_s
        return [PublishRoutes(self._table)]


def routes_of(replicas: Iterable[Replica], cold: ColdStarts) -> tuple[Route, ...]:
    """A route for each replica that has not ended, in order of id."""
    routes: list[Route] = []
    for replica in replicas:
        last = replica.route
        if (
            last is not None
            and last.state is State.SERVING is replica.state
            and last.address is replica.address
            and last.leaves_at_s == replica.leaves_at_s
            and (replica.aboard is None or last.knows is replica.aboard.names)
            and (replica.engine is None or last.adapters == replica.engine.adapters)
        ):
            routes.append(last)  # what it was started for does not change, and nearly always it is so
        elif not replica.is_ended:
            routes.append(_route(replica, cold))
    return tuple(routes)


def _route(replica: Replica, cold: ColdStarts) -> Route:
    """The replica's route; the very one of the last time when nothing about it has changed.

    While it serves it takes as many requests at once as it was started for, whatever its model's settings
    say by now.
    """
    last, state = replica.route, replica.state
    free = replica.spec.slots if state is State.SERVING else 0
    ready_s = cold.ready_s(replica) if replica.is_coming_up else None
    on_gpu = replica.engine.adapters if replica.engine is not None else None
    if (
        last is not None
        and last.state is state
        and last.slots == free
        and last.expected_ready_s == ready_s
        and last.address == replica.address
        and last.leaves_at_s == replica.leaves_at_s
        and last.knows == replica.knows
        and last.adapters == on_gpu
    ):
        return last
    replica.route = Route(
        replica_id=replica.replica_id,
        model=replica.model,
        state=state,
        address=replica.address,
        slots=free,
        engine=replica.spec.engine,
        expected_ready_s=ready_s,
        gpu=route_gpu(replica.variant, replica.spec),
        adapters=on_gpu,
        knows=replica.knows,
        leaves_at_s=replica.leaves_at_s,
    )
    return replica.route


def model_route(
    plan: Plan, replicas: Sequence[Replica], launching: Launching, cold: ColdStarts, now_s: float
) -> ModelRoute:
    """Whether waiting for this model makes sense, and until when.

    1. Somebody serves.
    2. Somebody has set its number to none.
    3. Somebody comes up, or drains and would be kept: the earliest expected moment among those on time.
    4. Somebody sleeps: it can be woken, unless somebody else has its GPU. Then another may be started:
    5. A start is possible: after the back-off and a cold start, if one is to be started.
    6. Nothing can be started: no use in waiting, for this reason.
    """
    for replica in replicas:
        if replica.state is State.SERVING:  # 1
            troubles = troubles_of(plan, replicas)
            slots, took_s = _growth(plan, replicas, cold, now_s)
            return ModelRoute(
                plan.model,
                can_serve=True,
                sheds=plan.sheds,
                troubles=troubles,
                growth_slots=slots,
                growth_s=took_s,
            )
    kept = plan.by_hand.kept_at_none(plan.spec.scaling)
    if kept is not None:  # 2
        return ModelRoute(plan.model, False, *kept)
    if any(replica.is_live or replica.can_be_kept for replica in replicas):  # 3
        expected = [cold.ready_s(replica) for replica in replicas if replica.is_coming_up]
        on_time = [ready_s for ready_s in expected if ready_s is not None and ready_s > now_s]
        return ModelRoute(plan.model, can_serve=True, expected_ready_s=min(on_time, default=None))
    sleepers = [replica for replica in replicas if replica.state is State.SLEEPING]
    taken = [
        launching.obstacle_to_waking(each.size, size_in(each.spec, State.WAKING), each.place)
        for each in sleepers
    ]
    if None in taken:  # 4
        took_s = _wakes_in_s(
            [each for each, block in zip(sleepers, taken, strict=True) if block is None], cold
        )
        return ModelRoute(
            plan.model, can_serve=True, expected_ready_s=_sum(now_s if plan.desired else None, took_s)
        )
    took_s = _start_takes_s(plan, cold)
    obstacle = launching.obstacle(plan)
    if obstacle is None:  # 5
        wait = plan.variants.block(now_s)
        until_s = wait.until_s if wait and plan.desired else None
        return ModelRoute(plan.model, can_serve=True, expected_ready_s=_sum(until_s, took_s))
    if taken:
        obstacle, took_s = taken[0] or obstacle, 0.0
    # Not before the obstacle is gone, though nobody may know how long a start will take then.
    return ModelRoute(plan.model, False, obstacle.because, _sum(obstacle.until_s, took_s or 0.0))  # 6


def _growth(
    plan: Plan, replicas: Sequence[Replica], cold: ColdStarts, now_s: float
) -> tuple[int, float | None]:
    """Slots beyond those that serve, and how long it takes until one more serves.

    Nobody promises that they will come. They may be, if it comes to that: up to the model's maximum; where
    something keeps the number down or starts fail, only what comes up already.
    """
    serving = sum(replica.state is State.SERVING for replica in replicas)
    most = plan.spec.scaling.max_replicas
    if plan.sheds or plan.variants.block(now_s) is not None:
        most = serving + sum(replica.is_coming_up for replica in replicas)
    if most <= serving:
        return 0, None
    return (most - serving) * plan.spec.slots, _next_takes_s(plan, replicas, cold)


def _next_takes_s(plan: Plan, replicas: Sequence[Replica], cold: ColdStarts) -> float | None:
    """How long it takes until one more serves, from the nearest tier that holds one."""
    if any(replica.can_be_kept for replica in replicas):
        return 0.0
    if any(replica.is_warm for replica in replicas):
        return PROMOTION_S
    sleepers = [replica for replica in replicas if replica.state is State.SLEEPING]
    if sleepers:
        return _wakes_in_s(sleepers, cold)
    return _start_takes_s(plan, cold)


def _wakes_in_s(sleepers: Sequence[Replica], cold: ColdStarts) -> float | None:
    """From the order to wake the soonest of these until it serves."""
    return min((took_s for each in sleepers if (took_s := cold.wakes_in_s(each)) is not None), default=None)


def _start_takes_s(plan: Plan, cold: ColdStarts) -> float | None:
    kind = cold.kinds.of_next(plan.model, plan.following)
    return cold.start_s(plan.model, plan.spec_as(plan.following).expected_start_s, kind)


def _sum(moment_s: float | None, span_s: float | None) -> float | None:
    return None if moment_s is None or span_s is None else moment_s + span_s
