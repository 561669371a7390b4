"""The values that both brains and all shells share.

Times are float seconds on one clock whose zero the shell chooses; every ``now_s`` handed to a brain
is on that clock. ``None`` always means "not known" and never zero.
"""

from __future__ import annotations

from typing import NewType, Protocol

from tidegate.core.lifecycle import State
from tidegate.core.values import value

ModelId = NewType("ModelId", str)
"""What a client asks for by name."""

ReplicaId = NewType("ReplicaId", str)
"""One running copy of a model. Never reused within one fleet."""

RequestId = NewType("RequestId", str)
"""One client call, from arrival to outcome."""

FlowId = NewType("FlowId", str)
"""Requests that share fairness: a tenant, by the name of its API key."""

DEFAULT_FLOW = FlowId("default")


class Dice(Protocol):
    """The injected source of randomness; the same seed gives the same run."""

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1``."""

    def uniform(self) -> float:
        """A float in [0, 1)."""


@value
class Address:
    """Where a replica's engine listens."""

    host: str
    port: int

    @property
    def url_host(self) -> str:
        """The host as URLs and ``Host`` fields have it: an IPv6 address in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host


@value
class Route:
    """What a gateway may know and do about one replica."""

    replica_id: ReplicaId
    model: ModelId
    state: State
    address: Address | None
    """None until the replica listens."""
    slots: int
    """Requests that this gateway may have in flight there at once; 0 takes nothing new."""
    engine: str
    """Name of the adapter that knows this engine's manners."""
    expected_ready_s: float | None = None
    """When a starting replica is expected to serve; None when that is not known."""
    gpu: str = ""
    """Kind and number of its GPUs, where replicas of one model differ in that."""
    adapters: tuple[str, ...] | None = None
    """LoRA adapters that its engine says are on the GPU; None: it does not say."""
    knows: tuple[str, ...] | None = None
    """LoRA adapters that it can be asked for, on the GPU or not; None: any, or none was ever asked for."""
    leaves_at_s: float | None = None
    """It serves, and is to drain at this moment unless it is called back: others take over what its cache holds."""


@value
class AdapterTrouble:
    """A LoRA adapter that no replica of its model has, because it could not be loaded."""

    adapter: str
    because: str
    """In words a client may read."""
    until_s: float | None = None
    """When it is tried again; None when that is not known."""


@value
class ModelRoute:
    """What a gateway may know about one configured model, replicas or none."""

    model: ModelId
    can_serve: bool
    """False when nothing serves and nothing can be started; waiting would be in vain."""
    because: str | None = None
    """Why not, in words a client may read."""
    expected_ready_s: float | None = None
    sheds: bool = False
    """A cap keeps it from what its demand asks for: whoever is of a lower class than somebody who waits is
    refused at once."""
    may_spill: bool = True
    """False: the money of the day is spent."""
    troubles: tuple[AdapterTrouble, ...] = ()
    growth_slots: int = 0
    """Slots that replicas which come up, or which may still be started, would add to those that serve."""
    growth_s: float | None = None
    """How long it takes until one more serves, asleep or not there yet; None when that is not known."""


@value
class RouteTable:
    """Controller to gateway, always whole. Replicas in order of id."""

    version: int
    models: tuple[ModelRoute, ...]
    routes: tuple[Route, ...]


@value
class LatencySummary:
    """Percentiles over the last reporting span; None without a sample."""

    samples: int = 0
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    e2e_p50_s: float | None = None
    e2e_p95_s: float | None = None
    ttft_p90_s: float | None = None
    """This and the next over the last minute, which is what laws of latency look at; of streams only."""
    tpot_p90_s: float | None = None


@value
class ModelDemand:
    """One model's demand as one gateway's ledger knows it."""

    model: ModelId
    queued: int
    in_flight: int
    peak: int
    """Largest queued + in_flight since the report before; a burst between two reports is seen."""
    queued_tokens: int
    in_flight_tokens: int
    arrivals_total: int
    """Monotonic: a wake-up cannot be missed between two reports."""
    ended_total: int
    output_tokens_total: int
    oldest_wait_s: float
    """How long the first in the queue has waited; 0 when the queue is empty."""
    last_active_s: float | None
    """When a request last arrived or ended; None before the first."""
    latency: LatencySummary = LatencySummary()
    prompt_tokens_total: int = 0
    """Of requests that arrived, as estimated then. Monotonic, as the next one is."""
    refused_total: int = 0
    """Turned away, given up while they waited, or spilt: demand that was not served here."""
    spilt_total: int = 0
    """Passed to a pay-per-token upstream. Monotonic, as their cost is."""
    spilt_in_flight: int = 0
    spilt_cost_total: float = 0.0
    spilt_cost_last_h: float = 0.0
    """With what is reserved for those in flight."""
    adapters_awaited: tuple[str, ...] = ()
    """LoRA adapters that requests wait for and no replica that serves has."""
    queued_prompt_tokens: int | None = None
    """Of ``queued_tokens`` those of the prompts. None: nobody counts them."""


@value
class CapacityFigures:
    """What a gateway has learned of one kind of replica: the two laws of ``core.capacity``, in its units."""

    model: ModelId
    engine: str
    gpu: str
    prefill: tuple[float, float, float]
    decode: tuple[float, float, float]
    prefill_samples: int
    decode_samples: int
    kv_tokens: float | None = None


@value
class ReplicaLoad:
    """What one gateway has in flight on one replica."""

    replica_id: ReplicaId
    in_flight: int
    tokens: int
    failures_in_row: int = 0
    """Attempts there that have failed since the last one that did not."""
    alone_s: float = 0.0
    """Seconds of work that other replicas would do again if it went: prompts' beginnings that it alone has cached and that
    were lately asked for, adapters that it alone has loaded."""


@value
class DemandReport:
    """Gateway to controller: demand of every configured model, load of every routed replica."""

    gateway: str
    route_version: int
    """The table that was in force when these numbers were read. A drain may be called complete
    only by a report at least as new as the table that began it."""
    models: tuple[ModelDemand, ...]
    replicas: tuple[ReplicaLoad, ...]
    capacities: tuple[CapacityFigures, ...] = ()
    """Of those kinds of which anything has been learned."""
