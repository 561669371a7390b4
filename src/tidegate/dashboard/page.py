"""What the admin pages show: plain values, filled in by whoever holds the brains.

``GET /fleet`` is a ``FleetPage`` as JSON, field by field, so these names are a contract with scripts.
Moments are seconds since 1970. None always means "not known" and never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.core.effects import Prediction, Shadowed
from tidegate.core.fleet import SpendingView, StartsView
from tidegate.core.fleet.byhand import HandNumber
from tidegate.core.fleet.scaling.forecast import Expected
from tidegate.core.lifecycle import State
from tidegate.core.types import LatencySummary, ModelId, ReplicaId


@dataclass(frozen=True, slots=True)
class ReplicaPage:
    """One replica."""

    id: ReplicaId
    state: State
    address: str | None
    """``host:port``; None until it listens."""
    in_flight: int | None
    tokens: int | None
    """Prompt and expected output tokens of what is in flight there."""
    slots: int
    since_s: float
    """When it came into this state."""
    detail: str = ""
    variant: str = ""
    """Of its model; empty where that has none."""
    adapters: tuple[str, ...] | None = None
    """LoRA adapters that it can be asked for; None: nothing is known of any."""
    adapter_troubles: dict[str, str] = field(default_factory=dict)
    """Adapters that it could not be given or rid of, and why."""
    node: str | None = None
    """Where its GPUs are; None where it has none, or nobody knows the nodes."""
    gpus: tuple[int, ...] = ()
    """Their indexes there. While it sleeps others may have them."""
    leaves_at_s: float | None = None
    """It serves, and has been announced to go then; None: it has not been."""
    batch: int | None = None
    """Requests that its engine runs at once at most, as its own page has shown; None: not known."""


@dataclass(frozen=True, slots=True)
class QueuePage:
    """What waits at the gateway for a replica."""

    requests: int = 0
    tokens: int = 0
    oldest_wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FailurePage:
    """The last replica that ended without being told to."""

    at_s: float
    replica_id: ReplicaId
    detail: str
    last_words: str = ""
    """What its engine said last. It may hold anything, prompts too, and is shown here alone."""


@dataclass(frozen=True, slots=True)
class SpillPage:
    """One model's requests at its pay-per-token upstream. The totals only ever grow."""

    in_flight: int
    requests_total: int
    cost_total: float
    cost_last_h: float
    """With the most that those in flight may cost."""
    max_cost_per_h: float


@dataclass(frozen=True, slots=True)
class ModelPage:
    """One configured model. The totals only ever grow; rates are read from their growth."""

    id: ModelId
    desired: int
    because: str
    """Why this many, in one sentence."""
    held_by: str | None
    min_replicas: int
    max_replicas: int
    in_flight: int
    queue: QueuePage
    latency: LatencySummary
    arrivals_total: int
    output_tokens_total: int
    replicas: tuple[ReplicaPage, ...]
    can_serve: bool = True
    notice: str | None = None
    """Why nothing can serve, in words that a client may read."""
    expected_ready_s: float | None = None
    last_failure: FailurePage | None = None
    shadow: Shadowed | None = None
    """How a second policy would do on the same traffic; None without one."""
    forecast: Expected | None = None
    """What is expected of demand, and whether it counts; None while nothing is, and where no law asks."""
    hand: HandNumber | None = None
    """The number that somebody set; None: the scaling law's counts."""
    spill: SpillPage | None = None
    """What goes to a pay-per-token upstream; None without one."""
    starts: StartsView | None = None
    """What is known of its cold starts."""


@dataclass(frozen=True, slots=True)
class FleetPage:
    """Everything at one moment."""

    at_s: float
    gateway: str
    """Where clients send their requests."""
    models: tuple[ModelPage, ...]
    leftover: tuple[ReplicaPage, ...] = ()
    """Replicas of models that are no longer configured, on their way out."""
    outcomes: Mapping[str, int] | None = None
    """Ended requests by outcome; None when nobody counts."""
    warnings: tuple[str, ...] = ()
    spending: SpendingView | None = None


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """A decision, with what one replica fewer or more was predicted to mean."""

    at_s: float
    model: ModelId
    before: int
    desired: int
    because: str
    held_by: str | None
    inputs: Mapping[str, float]
    fewer: Prediction
    chosen: Prediction
    more: Prediction
    variants: Mapping[str, int] | None = None
    """Of those desired, how many of each variant; None where the model has none."""
    needed: float | None = None
    """What they are to carry, in replicas of the variant ``default``."""

    @property
    def key(self) -> tuple[float, str, int, int]:
        """Tells it from every other decision of this run."""
        return self.at_s, self.model, self.before, self.desired
