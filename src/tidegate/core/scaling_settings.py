"""How one model's number of replicas follows its demand: the law, its constants, the promise and the hours.

The five settings that people know keep their names: ``min_replicas``, ``max_replicas``, ``window``,
``scale_down_delay``, ``concurrency_target``; inside, the two durations carry their unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum


class ScalingPolicy(Enum):
    """Which law proposes the number of replicas: ours first, then other systems'."""

    TIDAL = "tidal"
    CONCURRENCY = "concurrency"
    THRESHOLDS = "thresholds"
    TOKENS = "tokens"
    QUEUE = "queue"
    SLO = "slo"
    CRON = "cron"
    FORECAST = "forecast"
    SLO_KEDA = "slo-keda"
    TOKEN_KEDA = "token-keda"  # noqa: S105
    KEDA_HTTP = "keda-http"
    KPA = "kpa"
    HPA = "hpa"
    AIBRIX_APA = "aibrix-apa"
    RAY = "ray"
    SKY = "sky"
    WVA1 = "wva1"
    WVA2 = "wva2"
    DYNAMO_SLA = "dynamo-sla"
    DYNAMO_EASY = "dynamo-easy"
    BASETEN = "baseten"
    FIREWORKS = "fireworks"


OWN_POLICIES = (
    ScalingPolicy.TIDAL,
    ScalingPolicy.CONCURRENCY,
    ScalingPolicy.THRESHOLDS,
    ScalingPolicy.TOKENS,
    ScalingPolicy.QUEUE,
    ScalingPolicy.SLO,
    ScalingPolicy.CRON,
    ScalingPolicy.FORECAST,
)
"""The others are other systems' laws, to be compared with and to move from."""

FLOOR_POLICIES = (ScalingPolicy.CRON, ScalingPolicy.FORECAST)
"""Those that follow no demand: they say how many at least, beside another that does."""

COUNTING_POLICIES = (
    ScalingPolicy.CONCURRENCY,
    ScalingPolicy.KPA,
    ScalingPolicy.KEDA_HTTP,
    ScalingPolicy.RAY,
    ScalingPolicy.BASETEN,
    ScalingPolicy.FIREWORKS,
)
"""Those that count requests which are there at once. A slow replica that has all its slots full is as full as a fast one."""

DAY_S = 86_400.0
WEEK_S = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class ScheduledFloor:
    """So many replicas at least, in these hours of these days, local time."""

    replicas: int
    from_s: float = 0.0
    """After midnight."""
    until_s: float = DAY_S
    """After midnight; not after ``from_s``: of the day after."""
    days: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6)
    """Monday is 0."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Floors by local time."""

    floors: tuple[ScheduledFloor, ...] = ()
    ahead_s: tuple[tuple[float, float], ...] = ((0.0, 0.0),)
    """From which moment on local time is how far ahead of the clock whose zero is 1970 in UTC, in order."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The threshold law: one step per evaluation, each direction with its own cooldown."""

    max_queue_depth: int = 100
    max_latency_p95_ms: float = 5_000.0
    max_gpu_utilization: float = 0.85
    min_queue_depth: int = 10
    min_gpu_utilization: float = 0.3
    scale_up_cooldown_s: float = 60.0
    scale_down_cooldown_s: float = 300.0


@dataclass(frozen=True, slots=True)
class SloKeda:
    """llm-d's latency law over KEDA and a Kubernetes autoscaler, with the values of its benchmark."""

    ttft_s: float = 3.0
    tpot_s: float = 0.1
    up_ratio: float = 0.55
    down_ratio: float = 0.40
    clamp_ratio: float = 2.0
    """A single sample counts for no more than this."""
    smoothing_s: float = 45.0
    every_s: float = 15.0
    """How often the law is evaluated."""
    up_window_s: float = 30.0
    up_share: float = 1.0
    """Of the replicas at the start of a period, or ``up_pods`` if that is more."""
    up_pods: int = 4
    up_period_s: float = 60.0
    down_window_s: float = 180.0
    down_pods: int = 1
    down_period_s: float = 120.0
    is_guarded: bool = False
    """True: the way up never ends below what stands, and what is not known does not shrink anything."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a request is promised: its first token, and the mean time of each one after it."""

    ttft_s: float = 2.0
    tpot_s: float = 0.1


@dataclass(frozen=True, slots=True)
class LawSettings:
    """A law, and the constants of it that are not its own defaults, by the names that its file has for them."""

    policy: ScalingPolicy
    constants: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Scaling:
    """How one model's number of replicas follows its demand."""

    policy: ScalingPolicy = ScalingPolicy.TIDAL
    min_replicas: int = 0
    max_replicas: int = 1
    window_s: float = 10.0
    """Demand is the largest concurrency seen in this span."""
    scale_down_delay_s: float = 60.0
    """How long a lower number must have been asked for before it is obeyed."""
    concurrency_target: float | None = None
    """Requests one replica should carry, queued ones included; None: ``auto``. That is the engine's batch size for the
    law ``concurrency``, as it is set or seen, and what the promise allows for ``tidal``."""
    thresholds: Thresholds = Thresholds()
    slo_keda: SloKeda = SloKeda()
    promise: Promise = Promise()
    """For laws that plan for latency."""
    also: tuple[LawSettings, ...] = ()
    """Further laws; the largest of all numbers counts."""
    law: tuple[tuple[str, float], ...] = ()
    """Constants of the policy's law that are not its own defaults, by the names that its file has for them."""
    schedule: Schedule = Schedule()

    @property
    def policies(self) -> tuple[ScalingPolicy, ...]:
        """All that have a say."""
        return self.policy, *(law.policy for law in self.also)

    def under(self, laws: Sequence[LawSettings]) -> Scaling:
        """The same with these laws, at least one, and none of its own: the first is the policy, the others have a say too."""
        first, *others = laws
        return replace(self, policy=first.policy, law=first.constants, also=tuple(others))
