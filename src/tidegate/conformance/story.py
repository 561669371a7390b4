"""The data of a story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tidegate.conformance.checks import Check


class About(Enum):
    """What a story puts to the test."""

    LAW = "law"
    """The number of replicas. Told to every law."""
    SYSTEM = "system"
    """What is around the law: wake-up, drain, caps, readiness, ledgers. It is the same whichever law is inside, so it is
    told to Tidegate alone."""


class Pages(Enum):
    """How metrics of engines and of latency get through."""

    GOOD = "good"
    ABSENT = "absent"
    """None comes, as when a metrics server is down."""
    NAN = "nan"
    UNNAMED = "unnamed"
    """They come without the figures, as when a metric was renamed."""
    ONE_MISSING = "one missing"
    """One replica is not scraped any more."""
    PHANTOMS = "phantoms"
    """Engines say that clients wait who are long gone."""
    REMOVED_TOO = "removed too"
    """Pages of replicas that are gone keep coming, with what they said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What changes at a moment. None: stays as it is."""

    at_s: float
    demand: float | None = None
    """Requests that are open at once as long as there is room: arrivals each second times how long one takes."""
    pages: Pages | None = None
    ttft_ratio: float | None = None
    """First tokens take this times what is promised, whatever waits; below 0: as the load has it again."""
    heard: int | None = None
    """Gateways whose reports arrive."""
    kill: int = 0
    """Serving replicas that die."""
    add: int = 0
    """Replicas started by hand."""
    restart: bool = False
    """Of the controller: a new one finds the replicas that run, and what the one before it has learned."""
    renew: bool = False
    """The models' start command changes: a rolling update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What does not change in a story."""

    serving: int = 0
    """Replicas that run when it begins."""
    least: int = 1
    most: int = 32
    slots: int = 10
    service_s: float = 5.0
    """From a request's first place in a batch to its end."""
    load_s: float = 60.0
    room: int | None = None
    """Replicas that can be placed; None: all."""
    target: float | None = None
    """Requests a replica is to carry, where that is not its slots."""
    window_s: float = 10.0
    """``window``."""
    delay_s: float = 60.0
    """``scale_down_delay``."""
    they_wait: bool = False
    """The demand is of so many clients who each ask again when they are answered, and answers come the sooner the emptier
    the replicas are. Otherwise requests come at a rate, and take ``service_s``."""
    foreseen: float | None = None
    """Demand of the whole day before, as the forecast remembers it; it is believed."""
    gateways: int = 1
    neighbour: float | None = None
    """Demand of a second model, which is served badly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Inputs over time, given to the controller second by second."""

    world: World
    steps: tuple[Step, ...]
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Requests from a moment on."""

    at_s: float
    per_s: float = 0.0
    """0: just one, at that moment."""
    until_s: float = 0.0
    prompt: int = 500
    output: int = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """Requests over time, played through dispatcher, controller and simulated engines."""

    flows: tuple[Flow, ...]
    least: int = 0
    most: int = 8
    serving: int = 0
    slots: int = 16
    load_s: float = 60.0
    delay_s: float = 60.0
    deadline_s: float = 600.0
    settle_s: float = 0.0
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One failure that somebody reported."""

    id: str
    title: str
    source: str
    wrong: str
    """What was seen."""
    right: str
    inputs: Told | Simulated | Callable[[], str | None]
    """A callable plays by itself and says what is wrong."""
    checks: tuple[Check, ...] = ()
    about: About = About.LAW
    note: str = ""
    """What is modelled in another way than where it happened."""
