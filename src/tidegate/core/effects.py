"""Orders that the brains give to the shells. A name is an imperative; a value never changes."""

from __future__ import annotations

from dataclasses import field

from tidegate.core.nodes import Place
from tidegate.core.outcomes import Outcome
from tidegate.core.types import DemandReport, FlowId, ModelId, ReplicaId, RequestId, RouteTable
from tidegate.core.values import value


@value
class WakeAt:
    """Send a Tick at this moment, or sooner."""

    at_s: float


# ---- of the Dispatcher ----


@value
class Send:
    """Pass the request to this replica. Its slot is already taken."""

    request_id: RequestId
    replica_id: ReplicaId
    attempt: int
    """1 for the first."""


@value
class Hedge:
    """Pass the request to this replica too. Whoever answers first is heard; the other is cancelled then."""

    request_id: RequestId
    replica_id: ReplicaId
    attempt: int


@value
class Resume:
    """Let this replica take the answer up where it broke off, and join the two for the client."""

    request_id: RequestId
    replica_id: ReplicaId
    attempt: int
    tokens: int
    """Passed on so far."""


@value
class Spill:
    """Pass the request to the model's pay-per-token upstream. Its money is already reserved."""

    request_id: RequestId
    replica_id: ReplicaId
    """What the upstream is called where replicas are."""
    attempt: int
    because: str
    """Why it is not served here."""
    max_cost: float


@value
class Reject:
    """End the request with this outcome.

    Before the first byte the client gets the outcome's HTTP status; after it, one error event and
    the end of the stream.
    """

    request_id: RequestId
    outcome: Outcome
    because: str
    retry_after_s: float | None = None


@value
class CancelUpstream:
    """Nobody waits for this answer any more: make the engine stop."""

    request_id: RequestId
    replica_id: ReplicaId


@value
class Report:
    """Hand this to the controller: it is due, or somebody waits and nobody serves."""

    report: DemandReport


@value
class RolledBack:
    """A version gets nothing more of the traffic that is shifted, until it is configured anew."""

    name: ModelId
    """What clients ask for."""
    version: ModelId
    because: str


@value
class Record:
    """A request has ended: its one ledger entry, closed. For metrics, the request log and usage."""

    request_id: RequestId
    model: ModelId
    flow: FlowId
    outcome: Outcome
    replica_id: ReplicaId | None
    """The last replica it was sent to."""
    attempts: int
    queued_s: float
    """From arrival to the last time it was sent; to its end when it never was."""
    ttft_s: float | None
    e2e_s: float
    prompt_tokens: int
    output_tokens: int | None
    cached_tokens: int | None = None
    """Of the prompt, found in the engine's prefix cache; None: the engine did not say."""
    status: int | None = None
    """The engine's own, of the last attempt; None: there was none."""
    spilt_cost: float | None = None
    """What it cost at a pay-per-token upstream; None: it was not spilt."""
    yields: int = 0
    """How often it gave its place at a replica up to another request, before it had a token."""


# ---- of the FleetController ----


@value
class Launch:
    """Start a replica under this id."""

    replica_id: ReplicaId
    model: ModelId
    because: str
    variant: str = ""
    """In which of the model's ways; empty: as its own settings say."""
    place: Place | None = None
    """On these GPUs; None: it needs none, or nobody knows the nodes."""


@value
class Stop:
    """End this replica's processes; it has no requests left, or its drain deadline has passed."""

    replica_id: ReplicaId
    because: str


@value
class Promote:
    """A warm replica gets traffic from the next table on. Its backend has nothing to do."""

    replica_id: ReplicaId
    model: ModelId
    """For which one: another than it was launched for where models share a pool."""
    because: str


@value
class Demote:
    """A serving replica gets nothing new from the next table on and stays loaded; what it has goes on."""

    replica_id: ReplicaId
    because: str


@value
class Sleep:
    """Give a warm replica's GPUs back and keep its process. No request is left there."""

    replica_id: ReplicaId
    level: int
    """1 keeps the weights in host memory; 2 drops them, to be read again (vLLM's levels)."""
    because: str


@value
class Wake:
    """Bring a sleeping replica back to warm."""

    replica_id: ReplicaId
    because: str


@value
class LoadAdapter:
    """Have this replica's engine load a LoRA adapter of its model, so that it can be asked for there."""

    replica_id: ReplicaId
    adapter: str
    because: str


@value
class UnloadAdapter:
    """Have this replica's engine forget a LoRA adapter. No new request for it is sent there."""

    replica_id: ReplicaId
    adapter: str
    because: str


@value
class Prefetch:
    """Have a model's weights on this node before a replica needs them there."""

    model: ModelId
    node: str
    because: str
    inputs: dict[str, float] = field(default_factory=dict)
    """The numbers that it was decided on. What is not known is left out."""


@value
class PublishRoutes:
    """Give every gateway this table."""

    table: RouteTable


@value
class Prediction:
    """What a number of replicas was predicted to mean."""

    replicas: int
    slots: int
    queued: int
    """Of the demand decided on, how many requests would find no slot."""
    cost_per_h: float
    attainment: float | None = None
    """Share of the requests of the next minute that would keep the promise (``core.fleet.predicting``); None when
    nothing is known of their lengths or of what a replica can do."""


@value
class PoolPrediction:
    """What holding so many beside those that serve was predicted to mean."""

    held: int
    uncovered: int
    """Replicas that may be needed, at the pool's risk, before they would serve."""
    cost_per_h: float


@value
class Pooled:
    """What a model's pool is to hold beside those that serve, with what that was made from."""

    model: ModelId
    warm: int
    sleeping: int
    cached: bool
    """The weights are to be on the node's disk."""
    because: str
    held_by: str | None
    """What keeps it from being the cheapest mix: a bound of the pool, or the caps of the fleet."""
    inputs: dict[str, float]
    fewer: PoolPrediction
    chosen: PoolPrediction
    more: PoolPrediction
    variant: str = ""
    """Of what is missing; empty: as the model's own settings say."""


@value
class Shadowed:
    """A second policy's number on the live traffic, and how both policies have done so far, as predicted."""

    model: ModelId
    policy: str
    desired: int
    acting: int
    """The number in force."""
    because: str
    judged_s: float
    """For how long lengths and capacity were known."""
    attainment: float | None
    """Share of the requests that would have kept the promise under it; None before any was judged."""
    acting_attainment: float | None
    replica_hours: float
    acting_replica_hours: float
    cost: float
    acting_cost: float
    regret: float | None
    """How much more the acting policy has cost than this one would have, as a share."""


@value
class Decision:
    """A decision about one model's number of replicas, with what it was made from."""

    model: ModelId
    desired: int
    before: int
    because: str
    held_by: str | None
    """The rule that kept the number from being what the demand alone asks for."""
    inputs: dict[str, float]
    fewer: Prediction
    chosen: Prediction
    more: Prediction
    spent: float = 0.0
    """While the decision before this one was in force."""
    variants: dict[str, int] | None = None
    """Of the number, how many of each variant; None where the model has none."""
    needed: float | None = None
    """What they are to carry, in replicas of the first variant."""
