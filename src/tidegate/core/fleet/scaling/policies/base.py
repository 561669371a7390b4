"""What a scaling policy is given, and what it answers.

A policy proposes; it never launches, and it is not the last word: ``scaling.limits`` clamps after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Protocol, runtime_checkable

from tidegate.core.capacity import Capacity
from tidegate.core.fleet.coldstart import Readiness
from tidegate.core.fleet.scaling.forecast import Aside, Forecast
from tidegate.core.fleet.scaling.past import Past
from tidegate.core.knowledge import KnownTidal
from tidegate.core.scaling_settings import Promise
from tidegate.core.tiers import Tier
from tidegate.core.types import ReplicaId
from tidegate.core.values import value

NO_PAST = Past()
"""Of a model that nobody has reported about. Never added to."""
ENGINE_GOOD_FOR_S = 30.0
"""An engine's page older than this is not known. Metric scrapes come each 15 s or faster."""

FLOORS = {
    "in_use": "requests wait or run",
    "coming_up": "the first replica is coming up",
    "idle_time": "the idle time is not over",
}
"""The rules that keep a last replica, in words."""


@value
class Demand:
    """One model's demand, summed over the gateways. What nobody could say is None."""

    queued: int = 0
    in_flight: int = 0
    queued_tokens: int = 0
    """Prompts and allowed answers, as the gateways' ledgers have them; ``in_flight_tokens`` too."""
    queued_prompt_tokens: int | None = None
    """Prompts alone; None where a gateway that has some does not say."""
    in_flight_tokens: int = 0
    oldest_wait_s: float = 0.0
    concurrency: float = 0.0
    """Queued and in flight now, or the peak since the report before if that is larger."""
    peak: float = 0.0
    """The largest concurrency within the window."""
    peak_leaves_at_s: float | None = None
    complete_since_s: float | None = None
    """Since when every known gateway has been heard without a gap; None when one is not heard now."""
    coverage: float = 1.0
    """Of the known gateways, the share that is heard."""
    heard_at_s: float | None = None
    """When the one of these that is silent longest was last heard; None before any was."""
    last_active_s: float | None = None
    """When a request last arrived or ended; probes never count."""
    latency_p95_s: float | None = None
    gpu_utilization: float | None = None
    ttft_p90_s: float | None = None
    tpot_p90_s: float | None = None
    signals_at_s: float | None = None
    """When the two percentiles were last heard; None while nobody has said or it is too long ago."""
    signals_coverage: float = 1.0
    """Of those who could say, the share that has lately."""
    past: Past = NO_PAST
    forecast: Forecast | Aside | None = None
    """What came at these hours of the days before."""
    capacity: Capacity | None = None
    """What one replica can do, as the gateways have learned it; None while nobody has learned anything."""
    capacities: Mapping[str, Capacity] = field(default_factory=dict)
    """The same for each of the model's variants, by ``Route.gpu``, as far as much has been seen of them."""


@value
class EngineSeen:
    """One serving replica's last page of metrics; None: not on it."""

    replica_id: ReplicaId
    age_s: float
    running: int | None
    waiting: int | None
    kv_usage_ratio: float | None
    share: float = 1
    """Of a replica of the first variant, what it carries."""

    @property
    def is_fresh(self) -> bool:
        """It can be taken for the present."""
        return self.age_s <= ENGINE_GOOD_FOR_S


@value
class Coming:
    """A replica on its way up."""

    launched_s: float
    expected_ready_s: float | None
    """None while no start has been measured and none is configured."""
    tier: Tier = Tier.COLD
    """From where it comes."""


@value
class Situation:
    """All that a policy may look at."""

    demand: Demand
    standing: int
    """What was proposed before, within min and max."""
    min_replicas: int
    max_replicas: int
    floor: int = 0
    """Not below this, whatever the law says: somebody waits, or the idle time is not over."""
    floor_by: str | None = None
    """The rule that sets the floor: a key of ``FLOORS``."""
    live: int = 0
    """Replicas that serve or come up."""
    serving: int = 0
    """Where the model has variants this and ``live`` are in replicas of the first, made whole."""
    serving_slots: int = 0
    """Requests that those which serve take at once, all together."""
    may_shrink: bool = True
    """False until a full window of data has been seen, and whenever data is missing."""
    slots: int = 8
    """Requests that one replica takes at once: its engine's batch size."""
    price_per_h: float = 0.0
    """Of one replica."""
    promise: Promise = Promise()
    coming: tuple[Coming, ...] = ()
    """Those of ``live`` that do not serve yet, in order of launch."""
    readiness: Readiness = Readiness()
    """Of the one that would come next, from the nearest tier that holds one."""
    engines: tuple[EngineSeen, ...] = ()
    """The serving replicas' pages, where there are any. Only for a law that ``reads_engines``."""
    exact: float | None = None
    """``serving`` before it was made whole; None: it is whole."""
    has_others: bool = False
    """Some of those that serve are not of the first variant: what answers take says nothing of one that is."""

    @property
    def strength(self) -> float:
        """What serves, in replicas of the first variant and parts of one."""
        return self.serving if self.exact is None else self.exact

    @property
    def coverage(self) -> float:
        """Share of the serving replicas whose page is fresh; 1 when none serves."""
        if not self.serving:
            return 1.0
        return sum(engine.share for engine in self.engines if engine.is_fresh) / self.strength

    @property
    def slot_usage_ratio(self) -> float | None:
        """Requests in flight for each slot that serves; None while none does."""
        return self.demand.in_flight / self.serving_slots if self.serving_slots else None

    @property
    def is_complete(self) -> bool:
        """Every known gateway has been heard lately."""
        return self.demand.complete_since_s is not None

    def within(self, number: int) -> int:
        """The number, between min and max."""
        return max(self.min_replicas, min(number, self.max_replicas))


@value
class Proposal:
    """A policy's answer, with its reason."""

    wanted: int
    asked: int
    """What the demand alone asks for, without limits, windows and delays."""
    because: str
    held_by: str | None = None
    """The rule that keeps ``wanted`` from being what is asked, limits aside."""
    due_at_s: float | None = None
    """When the answer may change although nothing new has been heard."""
    inputs: dict[str, float] = field(default_factory=dict)
    needed: float | None = None
    """``asked`` before it was made whole; None where the law has no such number."""


class Policy(Protocol):
    """A law with one verb. It may remember; it may not look at a clock.

    A class with ``reads_engines = True`` is shown the engines' own pages.
    """

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """How many replicas, and why."""


@runtime_checkable
class Learned(Protocol):
    """A policy that has learned something which other settings do not make untrue."""

    def inherit(self, before: object) -> None:
        """Take over what the policy before this one had learned, if it is of the same kind."""

    def remember(self, now_s: float) -> KnownTidal:
        """What outlives this process."""

    def restore(self, known: KnownTidal, now_s: float) -> None:
        """Go on from what a former process knew."""
