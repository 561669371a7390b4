"""The keys under ``gateway``, ``fleet`` and ``journal``.

Attributes are named as in the frozen settings, which also hold the defaults; an alias is the name in the
file, where units stand in the value and not in the key.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.dispatch_keys import Queues
from tidegate.config.node_keys import NODE_NAME, NodeKeys
from tidegate.config.section import KIND, MAX_REPLICAS, PATH, Section, Strict
from tidegate.config.settings import GatewaySettings
from tidegate.core.nodes import Gpu
from tidegate.core.settings import FleetLimits, FleetModel

JOURNAL_MAX_BYTES = 256 * 1024 * 1024

_GATEWAY, _FLEET, _MODEL = GatewaySettings(), FleetLimits(), FleetModel(engine="")
_MANUAL = kinds.choice("name", "revert", "adopt")
_PORT = kinds.whole(0, 65_535)
_HOST = kinds.text(
    "host", r"[A-Za-z0-9:]([A-Za-z0-9._:-]{0,251}[A-Za-z0-9:])?", "an IP address or a host name"
)
_NAME = kinds.text("text", r"[^\x00-\x1f\x7f]{1,64}", "1 to 64 printable characters")
_SHA256 = kinds.text(
    "SHA-256",
    r"[0-9a-fA-F]{64}",
    "the SHA-256 of the key as 64 hexadecimal digits (printf %s KEY | sha256sum), never the key itself",
)
_INDEX, _MEMORY = kinds.whole(0, 1_023), kinds.size("1MiB", "1024GiB")
_A_DEVICE = "a device number from 0 to 1023, or {index: 0, memory: 80GiB, kind: h100}"


def _read_device(value: object) -> Gpu:
    if not isinstance(value, dict):
        try:
            return Gpu(_INDEX.read(value))
        except ValueError:
            raise ValueError(f"it must be {_A_DEVICE}") from None
    if "index" not in value or value.keys() - {"index", "memory", "kind"}:
        raise ValueError(f"it must be {_A_DEVICE}")
    index, memory, kind = value["index"], value.get("memory"), value.get("kind")
    try:
        return Gpu(
            _INDEX.read(index),
            None if memory is None else _MEMORY.read(memory),
            "" if kind is None else KIND.read(kind),
        )
    except ValueError as error:
        raise ValueError(f"it must be {_A_DEVICE}; one of these is wrong: {error}") from None


def _write_device(device: Gpu) -> object:
    if device.memory_bytes is None and not device.kind:
        return device.index
    written: dict[str, object] = {"index": device.index}
    if device.memory_bytes is not None:
        written["memory"] = _MEMORY.write(device.memory_bytes)
    if device.kind:
        written["kind"] = device.kind
    return written


DEVICE = kinds.Kind(
    "device",
    "0 to 1023, or `{index: 0, memory: 80GiB, kind: h100}`",
    _A_DEVICE,
    _read_device,
    _write_device,
    {
        "anyOf": [
            _INDEX.schema,
            {
                "type": "object",
                "properties": {
                    "index": _INDEX.schema,
                    "memory": {"anyOf": [_MEMORY.schema, {"type": "null"}]},
                    "kind": {"anyOf": [KIND.schema, {"type": "null"}]},
                },
                "required": ["index"],
                "additionalProperties": False,
            },
        ]
    },
)


class Key(Strict):
    """One API key, known by its hash."""

    sha256: Annotated[str, _SHA256] = Field(description="SHA-256 of the key, in hex")
    name: Annotated[str, _NAME] = Field(
        description="Who it belongs to; keys with one name share their fairness"
    )
    priority: Annotated[int, kinds.whole(-100, 100)] = Field(
        default=0, description="Higher is taken from the queue first"
    )
    weight: Annotated[float, kinds.number(0.01, 1_000)] = Field(
        default=1.0, description="Twice the weight, twice the share of tokens while requests wait"
    )
    may_spill: Annotated[bool, kinds.switch()] = Field(
        default=True, description="`false`: no request with this key goes to a pay-per-token upstream"
    )


class Gateway(Section):
    """The door: addresses, keys and limits. Every limit is on by default."""

    host: Annotated[str, _HOST] = Field(
        default=_GATEWAY.host, description="Address to listen on; other than loopback needs `keys`"
    )
    port: Annotated[int, _PORT] = Field(
        default=_GATEWAY.port, description="Port for clients; 0 takes a free one"
    )
    admin_host: Annotated[str, _HOST] = Field(
        default=_GATEWAY.admin_host,
        description="Address of the dashboard, `/fleet` and `/metrics`; loopback, since they ask for no key",
    )
    admin_port: Annotated[int, _PORT] = Field(
        default=_GATEWAY.admin_port, description="Their port; 0 takes a free one"
    )
    keys: list[Key] = Field(default=[], description="API keys; none means that only loopback is served")
    max_connections: Annotated[int, kinds.whole(1, 1_000_000)] = Field(
        default=_GATEWAY.max_connections, description="Client connections at once"
    )
    max_header_bytes: Annotated[int, kinds.size("1KiB", "1MiB")] = Field(
        default=_GATEWAY.max_header_bytes,
        alias="max_header_size",
        description="All headers of one request",
    )
    max_header_fields: Annotated[int, kinds.whole(10, 10_000)] = Field(
        default=_GATEWAY.max_header_fields, description="Header fields of one request"
    )
    max_body_bytes: Annotated[int, kinds.size("1KiB", "1GiB")] = Field(
        default=_GATEWAY.max_body_bytes, alias="max_body_size", description="Body of one request"
    )
    max_bodies_bytes: Annotated[int, kinds.size("1KiB", "1TiB")] = Field(
        default=_GATEWAY.max_bodies_bytes,
        alias="max_bodies_size",
        description="All bodies that are being received, together; never less than `max_body_size`",
    )
    header_timeout_s: Annotated[float, kinds.duration("100ms", "10m")] = Field(
        default=_GATEWAY.header_timeout_s,
        alias="header_timeout",
        description="From connecting to the end of the headers",
    )
    min_body_bytes_per_s: Annotated[int, kinds.size("1B", "1GiB", rate=True)] = Field(
        default=_GATEWAY.min_body_bytes_per_s,
        alias="min_body_rate",
        description="Bytes a second; a slower body is cut off, after a grace of 5 s",
    )
    keepalive_s: Annotated[float, kinds.duration("1s", "1h")] = Field(
        default=_GATEWAY.keepalive_s,
        alias="keepalive",
        description="How long an idle client connection is kept",
    )
    request_timeout_s: Annotated[float, kinds.duration("1s", "1d")] = Field(
        default=_GATEWAY.request_timeout_s,
        alias="request_timeout",
        description="From arrival to the last byte; a client may ask for less",
    )
    first_byte_timeout_s: Annotated[float, kinds.duration("1s", "1d")] = Field(
        default=_GATEWAY.first_byte_timeout_s,
        alias="first_byte_timeout",
        description="From sending to an engine to its first byte",
    )
    stream_idle_timeout_s: Annotated[float, kinds.duration("1s", "1h")] = Field(
        default=_GATEWAY.stream_idle_timeout_s,
        alias="stream_idle_timeout",
        description="A stream that is silent for this long is taken for hung",
    )
    connect_timeout_s: Annotated[float, kinds.duration("10ms", "1m")] = Field(
        default=_GATEWAY.connect_timeout_s,
        alias="connect_timeout",
        description="Connecting to an engine",
    )
    prefix_index_bytes: Annotated[int, kinds.size("1MiB", "64GiB")] = Field(
        default=_GATEWAY.prefix_index_bytes,
        alias="prefix_index_size",
        description="Memory for what prompts begin with, all models together; oldest out first, tenants alike",
    )
    slow_reader_bytes: Annotated[int, kinds.size("1KiB", "1GiB")] = Field(
        default=_GATEWAY.slow_reader_bytes,
        alias="slow_reader_size",
        description="Unread bytes for one client after which the engine's stream is paused",
    )
    slow_reader_timeout_s: Annotated[float, kinds.duration("1s", "1h")] = Field(
        default=_GATEWAY.slow_reader_timeout_s,
        alias="slow_reader_timeout",
        description="How long it may stay paused",
    )
    stop_deadline_s: Annotated[float, kinds.duration("0s", "1h")] = Field(
        default=_GATEWAY.stop_deadline_s,
        alias="stop_deadline",
        description="After SIGTERM, how long what is in flight may go on",
    )
    queues: Queues = Queues()


TIMEZONE = kinds.text("time zone", r"[A-Za-z0-9_+/-]{1,64}", "the name of a time zone, such as Europe/Berlin")


class Fleet(Section):
    """Hard caps over all models, held at every instant, and what the machine offers."""

    max_replicas: Annotated[int, kinds.whole(1, MAX_REPLICAS)] | None = Field(
        default=_FLEET.max_replicas, description="Replicas of all models together"
    )
    max_gpus: Annotated[int, kinds.whole(0, 100_000)] | None = Field(
        default=_FLEET.max_gpus,
        description="GPUs of all replicas together, each replica's counted whole; what `gpus` lists is never given "
        "to more than fit, whatever this says",
    )
    max_starts_per_hour: Annotated[int, kinds.whole(1, 1_000_000)] = Field(
        default=_FLEET.max_starts_per_hour, description="Replicas started in any hour"
    )
    max_cost_per_h: Annotated[float, kinds.money()] | None = Field(
        default=_FLEET.max_cost_per_h,
        alias="max_cost",
        description="Sum of the prices of all running replicas",
    )
    max_cost_per_day: Annotated[float, kinds.money_per_day()] | None = Field(
        default=_FLEET.max_cost_per_day,
        description="Spent in any 24 hours: when it runs short the fleet shrinks early enough to stay below it",
    )
    gpus: list[Annotated[Gpu, DEVICE]] = Field(
        default=[],
        description="The GPUs that replicas may be given, by number. One whose memory is said can carry several "
        "replicas of models that say theirs",
    )
    manual: Annotated[str, _MANUAL] = Field(
        default="revert",
        description="What becomes of a replica here that somebody else has ended in good order (SIGTERM): `revert` starts "
        "another; `adopt` holds one fewer until demand asks for more than it did",
    )
    manual_for_s: Annotated[float, kinds.duration("1s", "30d")] = Field(
        default=_MODEL.by_hand_for_s, alias="manual_for", description="With `adopt`, or until this is over"
    )
    nodes: dict[Annotated[str, NODE_NAME], NodeKeys] = Field(
        default={}, description="Machines with GPUs, by name, instead of `gpus`; for `tidegate simulate`"
    )
    state_dir: Annotated[str, PATH] | None = Field(
        default=None,
        description="Where running replicas are remembered; without it `tidegate` in the user's state folder",
    )
    timezone: Annotated[str, TIMEZONE] = Field(
        default="UTC", description="Of the hours in schedules, such as `Europe/Berlin`"
    )


class Journal(Section):
    """The record of every event and decision. `journal: off` writes none."""

    dir: Annotated[str, PATH] | None = Field(
        default=None, description="Where it is written; without it `journal` in the state folder"
    )
    max_bytes: Annotated[int, kinds.size("1MiB", "1024GiB")] = Field(
        default=JOURNAL_MAX_BYTES, alias="max_size", description="The oldest part goes when it is larger"
    )
