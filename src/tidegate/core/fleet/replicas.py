"""The records of all replicas. Their states change by the lifecycle table only.

Two writers would undo each other: a backend says what it saw (a stage, ready, exited), the controller
says what it wants (promoted, unwanted, wanted again). Reports that cannot happen in a replica's state
are late or doubled, and change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from math import inf

from tidegate.core.events import EngineReported, ReplicaSeen
from tidegate.core.fleet.aboard import Aboard
from tidegate.core.fleet.batchsize import BatchSize
from tidegate.core.fleet.sizes import Size
from tidegate.core.lifecycle import COMING_UP, ENDED, LIVE, IllegalTransition, Seen, State, advance
from tidegate.core.nodes import NOWHERE, Place
from tidegate.core.settings import FleetModel
from tidegate.core.types import Address, ModelId, ReplicaId, Route

FORGET_AFTER_S = 300.0
"""How long the record of an ended replica can still be looked at."""

_BACKEND_SEES = frozenset(
    {
        Seen.PROCURING,
        Seen.PULLING,
        Seen.LOADING,
        Seen.STARTING,
        Seen.READY,
        Seen.SLEPT,
        Seen.WOKEN,
        Seen.EXITED,
        Seen.GAVE_UP,
        Seen.UNRESPONSIVE,
    }
)


@dataclass(slots=True)
class Replica:
    """One replica, from its launch until it is forgotten."""

    replica_id: ReplicaId
    model: ModelId
    number: int
    spec: FleetModel
    """The settings it was launched with: its engine and its size do not change any more."""
    state: State
    since_s: float
    launched_s: float
    address: Address | None = None
    detail: str = ""
    fetch_s: float | None = 0.0
    """What fetching its weights is expected to take; once that is over, what it took. None: not known."""
    pulled_s: float | None = None
    """When it was last heard that its weights are still on their way, or had come."""
    ready_s: float | None = None
    is_forgiven: bool = False
    """It has served long enough for its model's failures to be forgotten."""
    drain_version: int | None = None
    """The first table that showed it draining; None until that is published."""
    drain_due_s: float | None = None
    leaves_at_s: float | None = None
    """It serves, and is to be put away at this moment unless it is wanted again."""
    stopped_s: float | None = None
    """When Stop was last ordered."""
    stop_because: str = ""
    is_replaced: bool = False
    """Another one is to take its place: it drains and is not wanted again."""
    is_gone: bool = False
    """Its processes are known to have ended. Until then it takes its room."""
    engine: EngineReported | None = None
    engine_s: float = 0.0
    """When that page came."""
    batch: BatchSize = field(default_factory=BatchSize)
    """What its pages have told of how many requests it runs at once."""
    size: Size = Size(0, 0.0)
    """What it takes in its state, from its launch to its end."""
    place: Place = NOWHERE
    """Its GPUs, from its launch to its end; while it sleeps others may have them."""
    route: Route | None = None
    """As the gateways were told last."""
    home: ModelId = ModelId("")
    """The model it was launched for; it may serve another one of the same group."""
    has_served: bool = False
    """Some gateway may have sent it requests: it is not ended, and not put to sleep, before they say it is empty."""
    wake_again_s: float = -inf
    """It could not wake where it sleeps; not tried again before this."""
    sleep_ordered_s: float | None = None
    """When it was last told to sleep, until it does."""
    is_beside: bool = False
    """Another one began to come up on its node at about the same time."""
    stages_s: dict[State, float] = field(default_factory=dict)
    """How long it was in each state on its way up."""
    variant: str = ""
    """In which way of its model it was started; empty: as the model's own settings say."""
    aboard: Aboard | None = None
    """Its LoRA adapters; None: nothing is known of any."""

    # What follows from the state, kept beside it: a turn asks each replica for these again and again.
    is_coming_up: bool = field(init=False)
    is_live: bool = field(init=False)
    """It serves or is on its way to: it counts as one of those desired."""
    is_ended: bool = field(init=False)

    def __post_init__(self) -> None:
        self.home = self.home or self.model
        if self.aboard is None and self.spec.adapters is not None:
            self.aboard = Aboard(dict(self.spec.adapters) if self.spec.adapters_at_start else {})
        self._enter(self.state)

    @property
    def knows(self) -> tuple[str, ...] | None:
        """LoRA adapters that it can be asked for; None: any."""
        return None if self.aboard is None else self.aboard.names

    @property
    def is_emptying(self) -> bool:
        """It drains, and nobody has ordered its end yet."""
        return self.state is State.DRAINING and self.stopped_s is None

    @property
    def can_be_kept(self) -> bool:
        """It drains and would be as good as a new one."""
        return self.is_emptying and not self.is_replaced

    @property
    def holds_place(self) -> bool:
        """Nobody else may have its GPUs."""
        return bool(self.place.gpus and self.size.gpus) and not self.is_gone

    @property
    def is_warm(self) -> bool:
        """It could be given traffic in this moment."""
        return self.state is State.WARM and self.address is not None and self.sleep_ordered_s is None

    @property
    def is_pooled(self) -> bool:
        """Warm or asleep."""
        return self.state in (State.WARM, State.SLEEPING)

    @property
    def is_nearly_up(self) -> bool:
        """Coming up, or ready without an address."""
        return self.is_coming_up or (self.state is State.WARM and self.address is None)

    def shares_machine(self, other: Replica) -> bool:
        """Both are on one node, as far as is known. Engines that need no GPUs run where nobody asks for nodes: here."""
        if self.spec.is_elsewhere or other.spec.is_elsewhere or self.place.node != other.place.node:
            return False
        return bool(self.place.gpus) or not (self.spec.gpus or other.spec.gpus)

    def note_pulling(self, seen: Seen, now_s: float) -> None:
        """Weights are fetched, or have been: a start is measured, and given up, without the time for that."""
        if seen is Seen.PULLING and self.state in (State.REQUESTED, State.PROCURING, State.PULLING):
            self.pulled_s = now_s
        elif seen in (Seen.LOADING, Seen.STARTING, Seen.READY):
            if self.state is State.PULLING:
                self.fetch_s = now_s - self.since_s
                self.pulled_s = now_s
                # How far it was is no longer of interest.
                self.detail = ""
            elif self.state in (State.REQUESTED, State.PROCURING):
                self.fetch_s = 0.0

    @property
    def weights_here_s(self) -> float | None:
        """When they were, or are expected to be, on its disk; None when that is not known."""
        return None if self.fetch_s is None else self.launched_s + self.fetch_s

    @property
    def start_counts_from_s(self) -> float:
        """From here on its start may take what is allowed for one."""
        return self.launched_s if self.pulled_s is None else self.pulled_s

    def move(self, seen: Seen, now_s: float) -> bool:
        """Advance by the table. False, and nothing changed, when it cannot happen now."""
        before, was_coming_up = self.state, self.is_coming_up
        try:
            self._enter(advance(before, seen))
        except IllegalTransition:
            return False
        if was_coming_up:
            self.stages_s[before] = now_s - self.since_s
        self.since_s = now_s
        return True

    def _enter(self, state: State) -> None:
        self.state = state
        self.is_coming_up = state in COMING_UP
        self.is_live = state in LIVE
        self.is_ended = state in ENDED
        self.leaves_at_s = None
        if state is State.SERVING:
            self.has_served = True
            self.drain_version = None
        if state is not State.WARM:
            self.sleep_ordered_s = None
        # On its way out, from wherever, it takes what it took there.
        if not (self.is_ended or state is State.DRAINING):
            self.size = size_in(self.spec, state)


class Replicas:
    """All records by id, in order of id, and the numbers for new ids."""

    def __init__(self) -> None:
        self._by_id: dict[ReplicaId, Replica] = {}
        self._is_in_order = True
        """Put in order when somebody looks: a turn may launch many."""
        self._highest: dict[str, int] = {}
        self._by_model: dict[ModelId, list[Replica]] | None = None

    def __repr__(self) -> str:
        return f"<Replicas {len(self._by_id)}>"

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all())

    def get(self, replica_id: ReplicaId) -> Replica | None:
        """The record; None when the id is not known."""
        return self._by_id.get(replica_id)

    def not_serving(self) -> list[Replica]:
        """Those for which time or a report may bring something to do: nearly always the fewest."""
        return [replica for replica in self._all() if replica.state is not State.SERVING]

    def coming_up(self) -> list[Replica]:
        """Those on their way up, in no order: a launch asks for them, and puts nobody in order."""
        return [replica for replica in self._by_id.values() if replica.is_coming_up]

    def by_model(self) -> dict[ModelId, list[Replica]]:
        """All records by model as of now, each list in order of id. Later ones are not put into it."""
        if self._by_model is None:
            found: dict[ModelId, list[Replica]] = {}
            for replica in self:
                found.setdefault(replica.model, []).append(replica)
            self._by_model = found
        return self._by_model

    def prices(self) -> dict[ModelId, float]:
        """What each model's replicas cost an hour; those that end cost until they are gone."""
        prices: dict[ModelId, float] = {}
        for replica in self._all():
            if not replica.is_gone and replica.size.price_per_h:
                prices[replica.model] = prices.get(replica.model, 0.0) + replica.size.price_per_h
        return prices

    def places(self) -> list[Place]:
        """The GPUs that are taken: from a launch until the process is known to be gone, but not while it sleeps."""
        return [replica.place for replica in self._all() if replica.holds_place]

    def highest(self, model: ModelId) -> int:
        """The largest number that an id of this model has had."""
        return self._highest.get(slug(model), 0)

    def launch(
        self, model: ModelId, spec: FleetModel, place: Place, now_s: float, variant: str = ""
    ) -> Replica:
        """A record for a replica that is about to be requested, under a number never used before."""
        number = self.highest(model) + 1
        replica_id = ReplicaId(f"{slug(model)}-{number}")
        requested = State.REQUESTED
        return self._add(
            Replica(replica_id, model, number, spec, requested, now_s, now_s, place=place, variant=variant)
        )

    def adopt(
        self,
        replica_id: ReplicaId,
        model: ModelId,
        spec: FleetModel,
        address: Address,
        now_s: float,
        state: State = State.SERVING,
        variant: str = "",
        place: Place = NOWHERE,
        aboard: Aboard | None = None,
    ) -> Replica:
        """A record for a replica that serves already, or sleeps."""
        number = _number_in(replica_id)[1]
        return self._add(
            Replica(
                replica_id,
                model,
                number,
                spec,
                state,
                now_s,
                now_s,
                address,
                "adopted",
                place=place,
                ready_s=now_s,
                has_served=True,
                variant=variant,
                aboard=aboard,
            )
        )

    def since_s(self, replica_id: ReplicaId) -> float:
        """When a known replica came into the state it is in."""
        return self._by_id[replica_id].since_s

    def lend(self, replica: Replica, model: ModelId) -> None:
        """It is one of this model's from now on."""
        replica.model = model
        self._by_model = None

    def see(self, event: ReplicaSeen, now_s: float) -> tuple[Replica, State] | None:
        """Take in what a backend saw. The record and its state before; None when nothing changed."""
        replica = self._by_id[event.replica_id]
        if event.seen not in _BACKEND_SEES:
            return None
        replica.note_pulling(event.seen, now_s)
        if event.address is not None:
            replica.address = event.address
        if event.detail:
            replica.detail = event.detail
        before = replica.state
        replica.is_gone |= event.seen is Seen.EXITED
        return (replica, before) if replica.move(event.seen, now_s) else None

    def note_id(self, replica_id: ReplicaId) -> None:
        """An id exists somewhere; new ones will be above it."""
        prefix, number = _number_in(replica_id)
        self._highest[prefix] = max(number, self._highest.get(prefix, 0))

    def forget_ended(self, now_s: float) -> None:
        """Drop records of replicas that have been gone for a while."""
        old = [r for r in self if r.is_ended and r.is_gone and now_s >= r.since_s + FORGET_AFTER_S]
        for replica in old:
            del self._by_id[replica.replica_id]
            self._by_model = None

    def _all(self) -> Collection[Replica]:
        if not self._is_in_order:
            self._by_id = dict(sorted(self._by_id.items()))
            self._is_in_order = True
        return self._by_id.values()

    def _add(self, replica: Replica) -> Replica:
        self.note_id(replica.replica_id)
        self._by_id[replica.replica_id] = replica
        self._is_in_order = False
        self._by_model = None
        return replica


def size_in(spec: FleetModel, state: State) -> Size:
    """What a replica takes in a state."""
    if state is State.SLEEPING:
        return Size(0, spec.pool.sleeping_price_per_h)
    price_per_h = spec.price_per_h
    if state is State.WARM and spec.pool.warm_price_per_h is not None:
        price_per_h = spec.pool.warm_price_per_h
    return Size(spec.gpus, price_per_h, spec.kind, spec.memory_bytes, spec.is_elsewhere)


def route_gpu(variant: str, spec: FleetModel) -> str:
    """What ``Route.gpu`` says: replicas of one model with the same word here can be expected to be equally fast. Empty
    for the model's own settings."""
    return f"{variant}/{spec.kind or 'gpu'}x{spec.gpus}" if variant else ""


def slug(model: ModelId) -> str:
    """The model's id with only letters, digits, dots, dashes and underscores: good for a file or a label."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "-" for c in model)


def _number_in(replica_id: ReplicaId) -> tuple[str, int]:
    prefix, _, digits = replica_id.rpartition("-")
    # Ids of our own making have few digits; anything longer is no number of ours.
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= 9
    return (prefix, int(digits)) if is_number else (replica_id, 0)
