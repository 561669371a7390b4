"""What has been learned, as plain values: so it can be written down, and outlive the process that learned it.

Each learner gives its part with ``remember`` and takes it back with ``restore``. Moments are on the brain's clock, which is
the calendar's where it is written down, so ages count on while nobody runs. Whoever restores looks at each figure: a file
may be old, or damaged, and what cannot be is left out.
"""

from __future__ import annotations

from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.core.values import value

GOOD_FOR_S = 28 * 86_400.0
"""Engines, drivers and habits have changed by then; the seasons reach back no further either."""
LARGEST = 1e15


def is_sane(number: float) -> bool:
    """It can be a measurement: not negative, a number, and not beyond all measure."""
    return 0.0 <= number <= LARGEST


@value
class KnownRates:
    """What ``Forecast`` knows of one model's requests a second, and how long they are."""

    at_s: float
    place: int
    """The quarter of an hour under way, counted from the clock's zero."""
    rates: tuple[float | None, ...]
    """The highest of each quarter of an hour up to that one; None where nobody looked."""
    high: float
    recent: tuple[float, ...]
    claims: tuple[tuple[float, float, float], ...]
    loss: float
    naive_loss: float
    compared: int
    is_believed: bool
    next_s: float | None
    lengths: tuple[tuple[float, float] | None, ...] | None = None
    """Mean prompt and answer of the requests in ``rates``, then of those in ``high``, then as last heard; None where nobody
    said. None at all: of a version that knew requests only. With lengths, what is ``recent``, claimed and lost is work."""


@value
class KnownIncrements:
    """By how much a rate has grown within a lead time: the histogram of ``scaling.growth``, without its empty bins."""

    at_s: float
    counts: tuple[tuple[int, float], ...]
    seen: int
    half_life_s: float = 0.0
    """In which they fade; 0: as soon as any do."""


@value
class KnownBatch:
    """What answers took beside about so many others."""

    place: int
    batch: float
    token_s: float
    at_s: float
    count: int


@value
class KnownPace:
    """What ``Pace`` knows of one model's replicas."""

    batches: tuple[KnownBatch, ...]
    terms: tuple[float, float] | None
    prompt_token_s: float
    samples: int
    most: tuple[float, float] | None
    well: tuple[float, float]


@value
class KnownTidal:
    """What the default law has learned of one model."""

    pace: KnownPace
    growth: KnownIncrements
    trust: float
    bursts_s: tuple[float, ...]


@value
class KnownSpan:
    """How often the need for replicas rose by how many within one span: from nothing, and from something."""

    span_s: float
    from_none: tuple[tuple[int, float], ...]
    from_some: tuple[tuple[int, float], ...]
    faded_s: float | None


@value
class KnownModel:
    """All that is known of one model's demand and replicas."""

    model: ModelId
    rates: KnownRates | None = None
    tidal: KnownTidal | None = None
    rises: tuple[KnownSpan, ...] = ()


@value
class KnownStarts:
    """The last measured starts of one model from one tier, on one kind of node."""

    model: ModelId
    tier: Tier
    kind: str
    took_s: tuple[float, ...]
    stages: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """Of each stage of the way up, what it took."""
    beside: bool = False
    """They began side by side with others on their node."""


@value
class FleetKnowledge:
    """What a FleetController has learned."""

    at_s: float
    models: tuple[KnownModel, ...] = ()
    starts: tuple[KnownStarts, ...] = ()


@value
class KnownLaw:
    """A learned law: its coefficients, and the sums it is solved from, the newest sample weighing one."""

    coefficients: tuple[float, float, float]
    sums: tuple[float, float, float, float, float, float, float, float, float]
    error: float
    count: int


@value
class KnownCapacity:
    """What one kind of replica can do, as a gateway has learned it. None: no sample yet."""

    model: ModelId
    engine: str
    gpu: str
    prefill: KnownLaw | None
    settled_prefill: KnownLaw | None
    decode: KnownLaw | None
    settled_decode: KnownLaw | None
    kv_tokens: float | None
    token_scale: float
