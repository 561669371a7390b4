"""What the brains can be told, checked at the door by ``tidegate.config`` and frozen here; of the number of replicas in
``scaling_settings``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tidegate.core.scaling_settings import LawSettings, Scaling


class Routing(Enum):
    """How a replica is chosen among those with a free slot.

    The first three are for policy files; the others are other systems' laws, to be compared with.
    """

    LEAST_SECONDS = "least_seconds"
    LEAST_TOKENS = "least_tokens"
    ROUND_ROBIN = "round_robin"
    LEAST_REQUEST = "least-request"
    POWER_OF_TWO = "power-of-two"
    CONSISTENT_HASH = "consistent-hash"
    LLM_D_STICKY = "llm-d-sticky"
    LLM_D_BLEND = "llm-d-blend"
    DYNAMO_KV = "dynamo-kv"
    SMG_CACHE_AWARE = "smg-cache-aware"
    PRODUCTION_STACK_LOADAWARE = "production-stack-loadaware"
    AIBRIX_PREFIX = "aibrix-prefix"
    PREBLE = "preble"


OWN_ROUTINGS = (Routing.LEAST_SECONDS, Routing.LEAST_TOKENS, Routing.ROUND_ROBIN)
"""What a policy file may name."""

PREFIX_INDEX_BYTES = 32 * 1024 * 1024
"""For what a gateway remembers of prompts' beginnings: 170,000 blocks, or 40 million tokens."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of one model's queue, or of all together; what does not fit is rejected at once."""

    max_requests: int = 1_000
    max_tokens: int = 4_000_000
    max_bytes: int = 256 * 1024 * 1024
    class_share: float = 1.0
    """Of each bound, what one priority class may take."""
    tenant_share: float = 1.0
    """Of each bound, what one tenant may take. A full queue makes room for a tenant that holds less in
    any case."""
    ageing_s: float = 30.0
    """A request of a lower class that has waited for so long gets its turn ..."""
    aged_share: float = 0.1
    """... within this share of the tokens that are served."""
    max_wait_busy_s: float = 120.0
    """The longest wait while replicas serve and all are busy."""
    max_wait_starting_s: float = 600.0
    """The longest wait while no replica serves yet."""


ALL_QUEUES = QueueLimits(max_requests=20_000, max_tokens=80_000_000, max_bytes=1024 * 1024 * 1024)
"""Bounds of the queues of all models together."""


@dataclass(frozen=True, slots=True)
class SpillBounds:
    """Which requests may go to a pay-per-token upstream, and what that may cost."""

    prompt_price: float = 0.0
    """Of one token, and so is the next."""
    output_price: float = 0.0
    max_cost_per_h: float = 1.0
    """In any 60 minutes; what is in flight counts with the most that it may cost."""
    max_in_flight: int = 32
    from_priority: int = -100
    """The lowest class that may be spilt."""
    max_wait_s: float | None = None
    """Whoever would wait longer for a replica goes too; None: only who would be refused."""
    output_tokens: int = 1_024
    """Reserved for a request that names no limit."""
    ttft_s: float = 1.0
    """Its usual time to a first token: with less time left a request is not spilt. A simulated one takes this."""
    tpot_s: float = 0.02
    """For the simulator."""


@dataclass(frozen=True, slots=True)
class DispatchConfig:
    """What the Dispatcher needs to know about one model."""

    routing: Routing = Routing.LEAST_SECONDS
    queue: QueueLimits = QueueLimits()
    max_retries: int = 2
    """Further attempts on another replica after a failure before the first byte."""
    slow_start_s: float = 30.0
    """How long a replica that joins others is ramped up at most, if it keeps up; 0: not at all."""
    slow_start_tokens: int = 50_000
    """The ramp also takes until it has served so many tokens, unless its first tokens come in time."""
    prefill_ahead_s: float = 0.25
    """Prompts that a replica is given beyond those it computes, in seconds of its work, where tenants or
    classes compete; 0: no limit."""
    reserve_share: float = 0.04
    """Of a replica's slots, those that a tenant with much in flight leaves to others while there are any."""
    max_deaths: int = 2
    """Engines that may break off on one request before its first byte, whatever ``max_retries`` allows: a request that
    kills whatever computes it would take the whole fleet down, one retry after the other."""
    max_yields: int = 3
    """How often a long prompt without a token is taken back from its replica for a shorter one of a quiet tenant
    or a higher class; 0: never."""
    hedge_ratio: float = 0.0
    """Of all requests, how many may be sent to a second replica when their first token is overdue."""
    hedge_after_s: float = 1.0
    """Never before so long; and not before three times the usual wait for a first token."""
    resume: bool = False
    """A stream that breaks off goes on at another replica, from the tokens already passed on."""
    adapter_slots: int = 8
    """LoRA adapters that one replica has on its GPU at once (vLLM: ``--max-loras``)."""
    adapters: tuple[str, ...] | None = None
    """LoRA adapters that may be asked for; None: any."""
    kv_tokens: int = 450_000
    """Tokens that fit into one replica's memory, for the laws of other systems that want to be told. Ours learns it.
    The default: eight billion parameters in 16 bits on a GPU with 80 GB."""
    spill: SpillBounds | None = None
    """None: whoever finds no room is refused."""


@dataclass(frozen=True, slots=True)
class TrafficShift:
    """A name that clients ask for, and the models that answer it, each with its share of the tokens."""

    versions: tuple[tuple[str, float], ...]
    """Model and weight. The first is the one to fall back to."""
    max_error_ratio: float = 0.05
    """More failed requests than this, and twice as many as of the first: the version is taken out."""
    max_ttft_s: float | None = None
    """A first token later than this is slow; None: speed does not matter."""
    max_slow_ratio: float = 0.10
    """More slow requests than this, and twice as many as of the first: the version is taken out."""
    min_samples: int = 50
    """Before this many requests nothing is concluded."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """What happens when starting fails, or serving."""

    backoff_first_s: float = 1.0
    backoff_max_s: float = 60.0
    """Doubles from the first to this; a replica that served for ``forgiven_after_s`` resets it."""
    give_up_after: int = 5
    """Failures in a row after which the model is *failed* with its reason, until ``retry_failed_s``
    has passed or its settings change."""
    retry_failed_s: float = 300.0
    forgiven_after_s: float = 60.0
    replace_after_failures: int = 5
    """Requests in a row, as one gateway counts them, that must fail at a replica for it to be replaced."""


class Prefetching(Enum):
    """Which weights are fetched before a replica needs them."""

    OFF = "off"
    AHEAD = "ahead"
    """Before a rise that is forecast."""
    ALWAYS = "always"
    """As soon as the model is configured."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Replicas of one model that are held near to serving, beside those that serve."""

    min_warm: int = 0
    """Loaded and without traffic, always."""
    max_warm: int = 0
    """No more than this. 0: what is not needed is not kept."""
    warm_ttl_s: float = 3_600.0
    """One that has been warm for so long is ended, unless it is one of the least or is asked for by the mix."""
    max_sleeping: int = 0
    """Their processes stay, their GPUs are free. Only engines that can sleep."""
    sleeping_ttl_s: float = 86_400.0
    sleep_after_s: float = 60.0
    """A warm one that neither ``min_warm`` nor the mix asks for is put to sleep after this."""
    sleep_level: int = 1
    """1: weights in host memory; 2: weights dropped, and read again from the disk."""
    warm_price_per_h: float | None = None
    """None: as much as one that serves, since it holds its GPUs."""
    sleeping_price_per_h: float = 0.0
    """Of the host memory it takes; nothing where that would be unused."""
    cached_price_per_h: float = 0.0
    """Of the disk that the model's weights take; nothing where that would be unused."""
    expected_wake_s: float | None = None
    """From asleep to serving, before one has been measured."""
    slack_s: float = 2.0
    """How long the first requests of a rise may wait for a replica: the promise less its own time."""
    risk: float = 0.05
    """How often demand may rise faster than what is held ready allows."""
    group: str = ""
    """Models with the same name here have the same weights and share their warm replicas."""

    @property
    def is_used(self) -> bool:
        """Anything is held at all."""
        return self.max_warm > 0 or self.max_sleeping > 0


NO_POOL = Pool()


HANDOVER_S = 10.0
"""Where requests go to whoever has their beginning. A beginning moves when it is asked for: of those asked for every other
second one in 12 is missed in 5 s, and one in 150 in this."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Another way to run a model than its own settings: on other GPUs, or with other arguments."""

    name: str
    slots: int = 8
    gpus: int = 0
    kind: str = ""
    memory_bytes: int | None = None
    price_per_h: float = 0.0
    expected_start_s: float | None = None
    command_hash: str = ""
    max_replicas: int | None = None
    """Of this variant; None: as many as the model may have."""


@dataclass(frozen=True, slots=True)
class FleetModel:
    """What the FleetController needs to know about one model."""

    engine: str
    """Name of the engine's adapter."""
    slots: int = 8
    """Requests one replica takes at once: the engine's batch size."""
    scaling: Scaling = Scaling()
    restarts: Restarts = Restarts()
    gpus: int = 0
    """GPUs that one replica occupies."""
    kind: str = ""
    """Of those GPUs; empty: any."""
    memory_bytes: int | None = None
    """That one replica takes on each of them, which it then shares with others. None: they are its own."""
    is_elsewhere: bool = False
    """Its engines run where somebody else put them: their GPUs are counted and not placed."""
    price_per_h: float = 0.0
    start_deadline_s: float = 600.0
    """A replica that is not ready by then is given up and stopped."""
    drain_deadline_s: float = 120.0
    """A draining replica with requests left is stopped after this."""
    handover_s: float = 0.0
    """For so long a replica that is to drain because fewer are wanted is announced as leaving. 0: it drains at once,
    which is right where nobody routes by what replicas have in their caches, and is how journals from before this
    setting were decided."""
    expected_start_s: float | None = None
    """Cold start to expect before one has been measured."""
    prefetch: Prefetching = Prefetching.AHEAD
    """Of weights that Tidegate fetches."""
    command_hash: str = ""
    """The same for two replicas that are started alike. Those started otherwise are replaced."""
    pool: Pool = NO_POOL
    adopts_ends: bool = False
    """A replica that somebody else has ended in good order is not started anew: one fewer holds ..."""
    by_hand_for_s: float = 3_600.0
    """... for so long, or until demand asks for more."""
    spill_cost_per_h: float = 0.0
    """What gateways may spend in any hour at its pay-per-token upstream."""
    shadow: tuple[LawSettings, ...] | None = None
    """A second policy, of one law or of the largest of several, scored on the live traffic without acting."""
    adapters: tuple[tuple[str, str], ...] | None = None
    """LoRA adapters by name, each with a mark that is another when its source is; None: it has none, or nothing is
    known of them."""
    loads_adapters: bool = False
    """Its engine loads and unloads them while it runs. Otherwise it knows those that it was started with."""
    adapters_at_start: bool = True
    """It is started with them; else they are loaded once it is ready."""
    variants: tuple[Variant, ...] = ()
    """Further ways to run it. The settings above are the first one, and the one that numbers of replicas refer to."""
    own_max_replicas: int | None = None
    """Of the first variant; None: as many as the model may have."""
    max_wait_s: float = 600.0
    """The longest that a request waits for a first replica: which variant comes up first depends on it."""

    def as_variant(self, variant: Variant) -> FleetModel:
        """The settings of a replica that is started in this way."""
        return replace(
            self,
            slots=variant.slots,
            gpus=variant.gpus,
            kind=variant.kind,
            memory_bytes=variant.memory_bytes,
            price_per_h=variant.price_per_h,
            expected_start_s=variant.expected_start_s,
            command_hash=variant.command_hash,
            own_max_replicas=variant.max_replicas,
            variants=(),
        )


@dataclass(frozen=True, slots=True)
class FleetLimits:
    """Hard caps over all models, held where replicas are launched. None: no cap."""

    max_replicas: int | None = None
    max_gpus: int | None = None
    max_starts_per_hour: int = 120
    max_cost_per_h: float | None = None
    max_cost_per_day: float | None = None
    """In any 24 hours."""
    cost_rule: str = "fleet.max_cost"
    """Which of the two caps on money is the tighter one at the moment."""
