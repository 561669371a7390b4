"""What the shells can be told, checked at the door and frozen here. The brains' part is in ``core.settings``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate.adapters.base import EngineSpec
from tidegate.core.nodes import Gpu, Node
from tidegate.core.settings import (
    ALL_QUEUES,
    PREFIX_INDEX_BYTES,
    DispatchConfig,
    FleetLimits,
    FleetModel,
    QueueLimits,
    TrafficShift,
)
from tidegate.core.types import Address, FlowId, ModelId
from tidegate.weights.settings import WeightsSettings


@dataclass(frozen=True, slots=True)
class Client:
    """Who a key belongs to."""

    flow: FlowId
    priority: int = 0
    weight: float = 1.0
    may_spill: bool = True
    """False: its requests stay in the house."""


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """The gateway's own limits. Every bound is on by default."""

    host: str = "127.0.0.1"
    port: int = 8400
    admin_host: str = "127.0.0.1"
    admin_port: int = 8401
    keys: Mapping[str, Client] = field(default_factory=dict)
    """SHA-256 of each API key, in hex. Empty: no key is asked for, and only loopback is bound."""
    max_connections: int = 10_000
    max_header_bytes: int = 16 * 1024
    max_header_fields: int = 100
    max_body_bytes: int = 10 * 1024 * 1024
    max_bodies_bytes: int = 256 * 1024 * 1024
    """Of all bodies that are being received, together; always enough for one of the largest."""
    header_timeout_s: float = 10.0
    """From the first byte of a request (or from connecting) to the end of its headers."""
    min_body_bytes_per_s: int = 1024
    """A slower body is cut off, after a grace of 5 s."""
    keepalive_s: float = 75.0
    request_timeout_s: float = 600.0
    """From arrival to the last byte. A client may ask for less with ``x-request-timeout-s``."""
    first_byte_timeout_s: float = 300.0
    stream_idle_timeout_s: float = 60.0
    """A stream without a byte for this long is taken for hung."""
    connect_timeout_s: float = 5.0
    slow_reader_bytes: int = 256 * 1024
    """Unread bytes per client after which the engine's stream is paused."""
    slow_reader_timeout_s: float = 30.0
    stop_deadline_s: float = 30.0
    """After SIGTERM, how long what is in flight may go on."""
    prefix_index_bytes: int = PREFIX_INDEX_BYTES
    """For what is remembered of prompts' beginnings, all models together."""


@dataclass(frozen=True, slots=True)
class SpillUpstream:
    """Where spilt requests of one model go."""

    address: str
    """Of an OpenAI-compatible API, with the part that stands before ``/chat/completions``."""
    model: str
    """Their name for it."""
    key_env: str
    """The environment variable with our key. The key itself is in no setting."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model: how it is dispatched, how it is scaled, and what runs it."""

    model: ModelId
    dispatch: DispatchConfig
    fleet: FleetModel
    spec: EngineSpec | None
    """How to run the engine here; None for engines that someone else runs."""
    static: tuple[Address, ...] = ()
    """Addresses of engines that someone else runs."""
    gpus_per_replica: int = 0
    memory_bytes: int | None = None
    stop_grace_s: float = 10.0
    silent_after_s: float = 10.0
    """An engine that gives no answer for so long is replaced."""
    spill: SpillUpstream | None = None
    """None: requests stay in the house. When they go is in ``dispatch``."""
    kv_events_port: int | None = None
    """Where each replica's engine publishes its KV events; None: nowhere."""
    variants: Mapping[str, ModelSettings] = field(default_factory=dict)
    """The same for each further way to run it. Of these only what runs the engine has a meaning."""
    profile: str | None = None
    """Whose speed a simulated replica has; None: it is guessed."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A whole policy file."""

    gateway: GatewaySettings
    models: Mapping[ModelId, ModelSettings]
    limits: FleetLimits
    state_dir: Path
    weights: WeightsSettings
    journal_dir: Path | None
    """None: no journal is written."""
    journal_max_bytes: int
    gpus: tuple[Gpu, ...] = ()
    """Of this machine: what may be given to replicas."""
    nodes: tuple[Node, ...] = ()
    """Where replicas are placed: this machine, or others. Empty when no GPU is known."""
    queues: QueueLimits = ALL_QUEUES
    """Bounds of the queues of all models together."""
    shifts: Mapping[ModelId, TrafficShift] = field(default_factory=dict)
    """Names behind which several models stand."""
    timezone: str = "UTC"
    """Of the hours in schedules."""
    manual: str = "revert"
    """Or ``adopt``: what somebody has ended by hand stays ended for a while."""
    manual_for_s: float = 3_600.0
    warnings: tuple[str, ...] = ()
    """What is allowed and probably not meant."""
