"""Facts that the shells report to the brains. A name is past tense; a value never changes.

The first group goes to the Dispatcher, the second to the FleetController. ``Tick`` goes to both.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum

from tidegate.core.knowledge import FleetKnowledge, KnownCapacity
from tidegate.core.lifecycle import Part, Seen
from tidegate.core.nodes import Node, Place
from tidegate.core.settings import (
    ALL_QUEUES,
    PREFIX_INDEX_BYTES,
    DispatchConfig,
    FleetLimits,
    FleetModel,
    QueueLimits,
    TrafficShift,
)
from tidegate.core.tiers import Tier
from tidegate.core.types import (
    DEFAULT_FLOW,
    Address,
    DemandReport,
    FlowId,
    LatencySummary,
    ModelId,
    ReplicaId,
    RequestId,
    RouteTable,
)
from tidegate.core.values import value


@value
class Tick:
    """Time has passed. Sent at a steady rate, and at each moment asked for by ``WakeAt``."""


# ---- to the Dispatcher ----


@value
class RequestArrived:
    """A well-formed, authenticated request for some model."""

    request_id: RequestId
    model: ModelId
    prompt_tokens: int
    """An estimate until the engine says better."""
    max_output_tokens: int | None
    body_bytes: int
    deadline_s: float
    flow: FlowId = DEFAULT_FLOW
    priority: int = 0
    adapter: str | None = None
    """The LoRA adapter asked for; ``model`` is then its base."""
    streams: bool = True
    """False: the answer comes in one piece, so its first byte says nothing of its first token."""
    prefix: tuple[int, ...] = ()
    """Hashes of the prompt's blocks, each of all text up to its block's end, salted by tenant, model, adapter and
    the client's own salt. Empty where the model's routing has no use for them."""
    block_tokens: int = 0
    """Prompt tokens behind one of these hashes, estimated as ``prompt_tokens`` is."""
    weight: float = 1.0
    """Of its tenant: twice the weight, twice the share."""
    session: str | None = None
    """What a client's requests of one conversation have in common, as a hash; None when it does not say."""
    again: int | None = None
    """What a request has in common with itself when the client sends it again."""
    may_spill: bool = True
    """False: its client does not want it to leave the house, or it is of a kind that cannot."""


@value
class FirstByte:
    """The engine's answer has begun and passed on to the client: no retry from here on."""

    request_id: RequestId
    replica_id: ReplicaId | None = None
    """Whose answer; may be left out while only one replica works on the request."""


@value
class TokensSent:
    """So many tokens of a stream have been passed on in all; sent now and then."""

    request_id: RequestId
    tokens: int


@value
class UpstreamEnded:
    """The engine's answer is complete and was passed on.

    ``status`` is the engine's own, 2xx or a 4xx that is the client's fault. Token counts are what
    the engine said; None when it did not.
    """

    request_id: RequestId
    status: int
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    replica_id: ReplicaId | None = None
    """As with ``FirstByte``."""


@value
class CacheTold:
    """A replica's engine says what of its cache is gone (vLLM's stream of KV events)."""

    replica_id: ReplicaId
    gone_before_s: float
    """Whatever was last used before this moment."""


@value
class CapacitiesRestored:
    """What a former gateway process had learned of its replicas' engines. Told before the first table."""

    capacities: tuple[KnownCapacity, ...]


class Failure(Enum):
    """How an attempt at a replica went wrong."""

    REFUSED = "connection refused"
    CUT = "connection cut"
    SILENT = "no byte in time"
    BUSY = "engine says busy"
    ERROR = "engine error"
    ABORTED = "engine ended the answer early"
    MALFORMED = "answer is not HTTP"


@value
class UpstreamFailed:
    """An attempt failed. Whether a byte had been passed on is in the ledger (``FirstByte``)."""

    request_id: RequestId
    failure: Failure
    status: int | None = None
    replica_id: ReplicaId | None = None
    """As with ``FirstByte``."""
    resumable_tokens: int | None = None
    """Tokens passed on, when another replica could take the answer up from there; else None."""


@value
class ClientGone:
    """The client closed its connection, in whatever phase."""

    request_id: RequestId


@value
class RouteTableChanged:
    """The controller published a new table."""

    table: RouteTable


@value
class ModelsConfigured:
    """Which models exist and how each is dispatched. Models left out are no longer served."""

    models: dict[ModelId, DispatchConfig]
    queues: QueueLimits = ALL_QUEUES
    """Bounds of all queues together."""
    shifts: dict[ModelId, TrafficShift] = field(default_factory=dict)
    """Names behind which several of these models stand."""
    prefix_index_bytes: int = PREFIX_INDEX_BYTES
    """For what is remembered of prompts' beginnings, all models together."""


@value
class SpillsRestored:
    """What a former gateway of these models has spent at pay-per-token upstreams in the last hour."""

    minutes: dict[ModelId, tuple[tuple[float, float], ...]]
    """How long ago in s each minute began, and the money spent in it."""


@value
class StopBegun:
    """The gateway is going down: nothing new is accepted, the rest has until ``deadline_s``."""

    deadline_s: float


@value
class ReportDue:
    """It is time to tell the controller about demand; answered with one ``Report``."""


# ---- to the FleetController ----


@value
class FleetConfigured:
    """Which models exist, how each is scaled, and what the fleet as a whole may use.

    A model left out is drained and stopped. Live demand and running replicas are kept.
    """

    models: dict[ModelId, FleetModel]
    limits: FleetLimits
    nodes: tuple[Node, ...] = ()
    """On which replicas are placed; empty: not known, and their GPUs are only counted."""


@value
class DemandReported:
    """A gateway's ledger, as of now."""

    report: DemandReport


@value
class ReplicaSeen:
    """Something happened to a replica, as its backend saw it."""

    replica_id: ReplicaId
    seen: Seen
    address: Address | None = None
    detail: str = ""
    """For a failure: the reason, in our words. It goes to clients and into the journal, so nothing that an
    engine wrote may be in it: that may be a secret or a prompt."""
    by_hand: bool = False
    """It ended in good order and nobody here had asked it to: somebody else has."""
    compiled: bool | None = None
    """When it is ready: whether what its engine compiles was on its disk before. None: not known."""
    parts: tuple[tuple[Part, float], ...] = ()
    """When it is ready: how many seconds its engine says that parts of its start took."""


@value
class ReplicaAdopted:
    """A replica that a former controller started was found alive."""

    replica_id: ReplicaId
    model: ModelId
    address: Address
    tier: Tier = Tier.SERVING
    """It sleeps, or waits warm: then no gateway had been told to send it requests when that controller ended."""
    variant: str = ""
    """In which of the model's ways it was started; empty: as its own settings say."""
    place: Place | None = None
    """Its GPUs; None: it has none, or nobody knows."""
    adapters: dict[str, str] | None = None
    """LoRA adapters that it can be asked for, each with the mark of its source; None: not known."""
    adapters_before: dict[str, str] | None = None
    """The same of all that it ever had."""


@value
class AdapterSeen:
    """An order about a LoRA adapter was carried out, or failed."""

    replica_id: ReplicaId
    adapter: str
    is_there: bool
    """Afterwards, as far as the engine says."""
    failed: str = ""
    """Why the order failed, in our words: it goes to clients and into the journal. Empty: it was carried out."""


@value
class ScaledByHand:
    """Somebody set a model's number, or lets the law have it again; or a former controller had such a number."""

    model: ModelId
    replicas: int | None
    """None: the law's number counts again."""
    for_s: float = 0.0
    """How long it counts."""
    at_least: bool = False
    """A floor; else the number itself."""
    asked: int | None = None
    """Set where a replica was ended by hand: more demand than this ends the number."""


@value
class SpendingRestored:
    """What a former controller of this fleet spent in the last day and started in the last hour."""

    minutes: tuple[tuple[float, float], ...]
    """How long ago in s each minute began, and the money spent in it."""
    starts: tuple[float, ...]
    """How long ago in s each start was."""


@value
class KnowledgeRestored:
    """What a former controller of this fleet had learned. Told before the first configuration; later it changes nothing."""

    knowledge: FleetKnowledge


@value
class EngineReported:
    """One scrape of an engine's own metrics. None: the page did not say."""

    replica_id: ReplicaId
    running: int | None
    waiting: int | None
    kv_usage_ratio: float | None
    adapters: tuple[str, ...] | None = None
    """LoRA adapters on its GPU."""


@value
class WeightsSeen:
    """What of a model's weights is on a node's disk; and how they came, when some have just been fetched.

    Figures of a fetch that was slowed on purpose are left out: they say nothing of the source."""

    model: ModelId
    node: str
    host: str
    """Where they come from; empty when nobody has asked there yet."""
    total_bytes: int | None
    missing_bytes: int | None
    """None: they were never here, so nobody knows how much there is."""
    fetched_bytes: int = 0
    fetched_in_s: float = 0.0


@value
class SignalsReported:
    """Signals for the threshold law, from wherever the shell gets them. None: not known."""

    model: ModelId
    gpu_utilization: float | None = None
    latency: LatencySummary = LatencySummary()
