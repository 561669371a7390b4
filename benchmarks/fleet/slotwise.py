"""The world of the published setting: slots of ten minutes in which the rate is level, and starts that take one slot.

A replica that is ordered when a slot's rate is known serves when the next one begins: its start takes a slot, less the minute
in which a ledger tells a rate from chance. It carries so many requests a second, each of them
well, and what comes beyond that is lost at once: so there is no line and no promise, only capacity and what exceeds it. Its
answers take the longer the fuller it is, as an engine's do: twice as long in a full one as for one request alone. The
``FleetController`` hears a gateway's ledger every ten seconds and is obeyed, as everywhere; it is told nothing of slots.

What is paid is counted in replica-slots, to the second, in two ways: *served*, from the first moment of service on, as the
published figures have it; and *charged*, from the order on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.fleet.engines import MODEL
from tidegate.core.effects import Launch, PublishRoutes, Stop
from tidegate.core.events import DemandReported, FleetConfigured, ReplicaAdopted, ReplicaSeen, Tick
from tidegate.core.fleet import FleetController
from tidegate.core.lifecycle import Seen, State
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel
from tidegate.core.types import (
    Address,
    CapacityFigures,
    DemandReport,
    ModelDemand,
    ReplicaId,
    ReplicaLoad,
)

SLOT_S = 600.0
START_S = SLOT_S - 60.0
EVERY_S = 10.0
"""Between two reports: a gateway is taken for silent after more."""
TICK_EVERY_S = 60.0
SLOTS = 64
"""Requests that a replica holds when it carries all that it can."""
PROMPT, OUTPUT = 100, 50
"""Tokens of a request: any would do."""
ADDRESS = Address("fluid", 1)


@dataclass(slots=True)
class Course:
    """What became of each slot."""

    served: list[float] = field(default_factory=list)
    """Replica-slots of service."""
    charged: list[float] = field(default_factory=list)
    """The same with starts."""
    lost: list[float] = field(default_factory=list)
    """Of the slot's requests a second, those beyond what could be carried: the mean."""


def follow(rates: Sequence[float], each_per_s: float, scaling: Scaling, running: int) -> Course:
    """Let the controller decide through all slots. ``each_per_s`` is what one replica carries; ``running`` serve at first."""
    world = _World(each_per_s, scaling, running)
    for rate in rates:
        world.slot(rate)
    return world.course


class _World:
    """The controller's gateway and backend. Owns the clock."""

    def __init__(self, each_per_s: float, scaling: Scaling, running: int) -> None:
        self._each_per_s = each_per_s
        self._alone_s = 0.5 * SLOTS / each_per_s
        self.course = Course()
        self._now_s = 0.0
        self._version = 0
        self._arrived = self._refused = self._in_flight = 0.0
        self._starting: dict[ReplicaId, float] = {}
        """Those that come up, and when they serve."""
        self._there: dict[ReplicaId, None] = {}
        """Those that serve or drain, until they are stopped."""
        self._routed: dict[ReplicaId, State] = {}
        self._serving: list[ReplicaId] = []
        self._idle: list[ReplicaId] = []
        self._brain = FleetController()
        for number in range(running):
            replica_id = ReplicaId(f"first-{number}")
            self._there[replica_id] = None
            self._on(ReplicaAdopted(replica_id, MODEL, ADDRESS))
        token_s = self._alone_s / OUTPUT
        spec = FleetModel(
            "emulated",
            slots=SLOTS,
            scaling=scaling,
            gpus=1,
            price_per_h=1.0,
            expected_start_s=START_S,
            start_deadline_s=2 * START_S,
        )
        self._learned = CapacityFigures(
            MODEL, spec.engine, "", (1e-3, 0.0, 0.0), (token_s, token_s / SLOTS, 0.0), 10_000, 10_000
        )
        self._on(FleetConfigured({MODEL: spec}, FleetLimits(max_starts_per_hour=1_000_000)))

    def slot(self, rate: float) -> None:
        """Ten minutes at this rate."""
        began_s = self._now_s
        served = charged = lost = 0.0
        for step in range(round(SLOT_S / EVERY_S)):
            self._now_s = began_s + step * EVERY_S
            self._begin_service()
            self._on(DemandReported(self._report()))
            if step % round(TICK_EVERY_S / EVERY_S) == 0:
                self._on(Tick())
            serving = len(self._serving)
            carried = min(rate, self._each_per_s * serving)
            self._in_flight = self._held(carried, serving)
            self._arrived += rate * EVERY_S
            self._refused += (rate - carried) * EVERY_S
            share = EVERY_S / SLOT_S
            served += share * len(self._there)
            charged += share * (len(self._there) + len(self._starting))
            lost += share * (rate - carried)
        self._now_s = began_s + SLOT_S
        self.course.served.append(served)
        self.course.charged.append(charged)
        self.course.lost.append(lost)

    def _begin_service(self) -> None:
        for replica_id in [one for one, due_s in self._starting.items() if due_s <= self._now_s]:
            del self._starting[replica_id]
            self._there[replica_id] = None
            self._on(ReplicaSeen(replica_id, Seen.READY, ADDRESS))

    def _held(self, carried_per_s: float, serving: int) -> float:
        """Requests that so many replicas hold, by Little's law: each ``alone_s * (1 + held / SLOTS)``."""
        if not serving:
            return 0.0
        alone = carried_per_s / serving * self._alone_s
        return serving * alone / (1.0 - alone / SLOTS)

    def _count(self) -> None:
        """Who serves, after orders and events."""
        self._serving = [one for one in self._there if self._routed.get(one) is State.SERVING]
        self._idle = [one for one in self._there if self._routed.get(one) is not State.SERVING]

    def _report(self) -> DemandReport:
        each = round(self._in_flight / len(self._serving)) if self._serving else 0
        loads = [ReplicaLoad(one, each, 0) for one in self._serving]
        loads += [ReplicaLoad(one, 0, 0) for one in self._idle]
        there, arrived, refused = round(self._in_flight), round(self._arrived), round(self._refused)
        ended = max(0, arrived - there)
        demand = ModelDemand(
            model=MODEL,
            queued=0,
            in_flight=there,
            peak=there,
            queued_tokens=0,
            in_flight_tokens=there * (PROMPT + OUTPUT),
            arrivals_total=arrived,
            ended_total=ended,
            output_tokens_total=max(0, ended - refused) * OUTPUT,
            oldest_wait_s=0.0,
            last_active_s=self._now_s,
            prompt_tokens_total=arrived * PROMPT,
            refused_total=refused,
        )
        return DemandReport("gateway", self._version, (demand,), tuple(loads), (self._learned,))

    def _on(self, event: object) -> None:
        """One turn; its orders are carried out, and what follows from that is told."""
        ended: list[ReplicaId] = []
        for effect in self._brain.on(event, self._now_s):  # type: ignore[arg-type]
            match effect:
                case Launch():
                    self._starting[effect.replica_id] = self._now_s + START_S
                case Stop():
                    ended.append(effect.replica_id)
                case PublishRoutes():
                    self._version = effect.table.version
                    self._routed = {route.replica_id: route.state for route in effect.table.routes}
                    self._count()
                case _:
                    pass
        for replica_id in ended:
            self._there.pop(replica_id, None)
            self._count()
            self._starting.pop(replica_id, None)
            self._on(ReplicaSeen(replica_id, Seen.EXITED))
