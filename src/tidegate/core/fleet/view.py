"""The fleet as a frozen picture, for the admin page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidegate.core.effects import Decision, Shadowed
from tidegate.core.fleet.budget import Spent
from tidegate.core.fleet.byhand import HandNumber
from tidegate.core.fleet.coldstart import StartsView
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.forecast import Expected
from tidegate.core.fleet.variants import DEFAULT
from tidegate.core.lifecycle import State
from tidegate.core.nodes import Place
from tidegate.core.types import Address, ModelId, ModelRoute, ReplicaId


@dataclass(frozen=True, slots=True)
class Failure:
    """A replica that did not end because it was told to."""

    at_s: float
    model: ModelId
    replica_id: ReplicaId
    state: State
    """Where it was in its life."""
    detail: str


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """One replica. None: not known."""

    replica_id: ReplicaId
    model: ModelId
    state: State
    since_s: float
    launched_s: float
    ready_s: float | None
    address: Address | None
    in_flight: int | None
    tokens: int | None
    detail: str
    running: int | None
    waiting: int | None
    kv_usage_ratio: float | None
    variant: str = ""
    """``default``, or the name of another one; empty where its model has none."""
    slots: int = 0
    """Requests it takes at once."""
    adapters: tuple[str, ...] | None = None
    """LoRA adapters that it can be asked for."""
    troubles: dict[str, str] = field(default_factory=dict)
    """Adapters that it could not be given, and why."""
    place: Place | None = None
    """Its GPUs; None where it has none, or nobody knows the nodes. While it sleeps others may have them."""
    leaves_at_s: float | None = None
    """It serves, and has been announced to go then; None: it has not been."""
    batch: int | None = None
    """Requests that its engine runs at once at most, as its own page has shown."""


@dataclass(frozen=True, slots=True)
class ModelView:
    """One configured model."""

    model: ModelId
    desired: int
    decision: Decision | None
    """The number in force with its reason as of the last turn."""
    queued: int
    in_flight: int
    can_serve: bool
    because: str | None
    expected_ready_s: float | None
    failures: int
    """Failed starts in a row."""
    last_failure: Failure | None
    replicas: tuple[ReplicaView, ...]
    starts: StartsView
    """What is known of its cold starts."""
    shadow: Shadowed | None = None
    """How a second policy would do; None without one."""
    forecast: Expected | None = None
    """What is expected; None while nothing is, and where no law asks."""
    hand: HandNumber | None = None
    """The number that somebody set; None: the law's counts."""
    is_by_hand: bool = False
    """That number is the one in force, as far as limits leave it, and its decision says so."""
    variants: tuple[str, ...] = ("",)
    """Their names, ``default`` first; a nameless one where there are none."""
    adapters: tuple[str, ...] = ()
    """LoRA adapters that it is to have."""
    mismatch: str = ""
    """Which engines run fewer requests at once than they are counted on for."""


@dataclass(frozen=True, slots=True)
class SpendingView:
    """Money: what runs now costs, what the last 24 hours have cost, and what each decision has."""

    per_h: float
    last_day: float
    ledger: tuple[Spent, ...]
    """The most recent decisions that are not in force any more, oldest first."""
    minutes: tuple[tuple[float, float], ...] = ()
    """How long ago each minute of the last day began in which something was spent, and how much."""
    starts: tuple[float, ...] = ()
    """How long ago each start of the last hour was."""


@dataclass(frozen=True, slots=True)
class FleetView:
    """Everything at one moment. ``leftover`` are replicas of models that are no longer configured."""

    at_s: float
    route_version: int
    starts_last_hour: int
    spending: SpendingView
    models: tuple[ModelView, ...]
    leftover: tuple[ReplicaView, ...]
    failures: tuple[Failure, ...]
    """The most recent ones, oldest first."""


def model_view(
    plan: Plan,
    route: ModelRoute,
    replicas: Sequence[Replica],
    demand: DemandBook,
    last_failure: Failure | None,
    starts: StartsView,
) -> ModelView:
    """One model's picture."""
    heard = plan.demand
    return ModelView(
        model=plan.model,
        desired=plan.desired,
        decision=plan.decision(),
        queued=heard.queued,
        in_flight=heard.in_flight,
        can_serve=route.can_serve,
        because=route.because,
        expected_ready_s=route.expected_ready_s,
        failures=plan.variants.failures,
        last_failure=last_failure,
        starts=starts,
        shadow=plan.shadowed,
        forecast=plan.forecast,
        hand=plan.by_hand.number,
        is_by_hand=plan.is_by_hand,
        replicas=replica_views(replicas, demand, is_mixed=plan.variants.is_mixed),
        variants=tuple(plan.variants.named(name) for name in plan.variants.specs),
        adapters=tuple(name for name, _ in plan.spec.adapters or ()),
        mismatch=plan.batches.mismatch,
    )


def replica_views(
    replicas: Iterable[Replica], demand: DemandBook, *, is_mixed: bool = False
) -> tuple[ReplicaView, ...]:
    """The replicas' pictures, in the order given."""
    return tuple(_replica_view(replica, demand, DEFAULT if is_mixed else "") for replica in replicas)


def _replica_view(replica: Replica, demand: DemandBook, own: str) -> ReplicaView:
    load = demand.load(replica.replica_id)
    engine = replica.engine
    return ReplicaView(
        replica_id=replica.replica_id,
        model=replica.model,
        state=replica.state,
        since_s=replica.since_s,
        launched_s=replica.launched_s,
        ready_s=replica.ready_s,
        address=replica.address,
        in_flight=load.in_flight if load else None,
        tokens=load.tokens if load else None,
        detail=replica.detail,
        running=engine.running if engine else None,
        waiting=engine.waiting if engine else None,
        kv_usage_ratio=engine.kv_usage_ratio if engine else None,
        variant=replica.variant or own,
        slots=replica.spec.slots,
        adapters=replica.knows,
        troubles=replica.aboard.told if replica.aboard is not None else {},
        place=replica.place if replica.place.gpus else None,
        leaves_at_s=replica.leaves_at_s,
        batch=replica.batch.size,
    )
