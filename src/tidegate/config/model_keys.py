"""The keys under ``models``.

Attributes are named as in the frozen settings, which also hold the defaults; an alias is the name in the
file, where units stand in the value and not in the key.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.constants import laws
from tidegate.config.dispatch_keys import Hedging, Queue, SlowStart
from tidegate.config.engines import ENGINES
from tidegate.config.pool_keys import PoolKeys
from tidegate.config.restart_keys import RestartKeys
from tidegate.config.scaling_keys import ScalingKeys
from tidegate.config.section import (
    ENV_NAME,
    KIND,
    MODEL_NAME,
    PATH,
    PROFILE,
    URL,
    WORD,
    Strict,
)
from tidegate.config.spill_keys import SpillKeys
from tidegate.config.variant_keys import VariantKeys
from tidegate.core.settings import HANDOVER_S, OWN_ROUTINGS, DispatchConfig, FleetModel, Prefetching

STOP_GRACE_S = 10.0
SILENT_AFTER_S = 10.0
THREADS = 1

_MODEL, _DISPATCH = FleetModel(engine=""), DispatchConfig()
_SHA256 = kinds.text("SHA-256", r"[0-9a-f]{64}", "a SHA-256: 64 hexadecimal digits in lower case")
_ENGINE = kinds.choice("engine", *ENGINES)
_ROUTING = kinds.choice("name", *(routing.value for routing in OWN_ROUTINGS))
_PREFETCH = kinds.choice("name", *(wanted.value for wanted in Prefetching))


class ModelKeys(Strict):
    """One model: what runs it, how its requests wait, how many replicas it gets."""

    engine: Annotated[str, _ENGINE] = Field(description="The inference program, by its adapter's name")
    weights: Annotated[str, PATH] | None = Field(
        default=None,
        description="A path (relative ones start at the policy file); a source that Tidegate fetches from: "
        "`https://HOST/FILE`, `s3://BUCKET/KEY`, `s3://BUCKET/PREFIX/`, `hf://OWNER/NAME[@REVISION][/FILE]`; a repository "
        "name that the engine fetches; or `package:NAME/FILE`: a file inside an installed Python package",
    )
    weights_sha256: Annotated[str, _SHA256] | None = Field(
        default=None,
        description="What must have come from the source: the SHA-256 of the file, or of a folder's list, as "
        "`tidegate weights list` prints it",
    )
    prefetch: Annotated[str, _PREFETCH] = Field(
        default=_MODEL.prefetch.value,
        description="When weights from a source are fetched though no replica waits for them: `ahead` of the time at "
        "which the model was asked for a day or a week ago, `always`, `off`",
    )
    static: list[Annotated[str, URL]] | None = Field(
        default=None,
        description="Instead of `weights`: addresses of engines that someone else runs",
    )
    slots: Annotated[int, kinds.whole(1, 100_000)] = Field(
        default=_MODEL.slots, description="Requests one replica takes at once: the engine's batch size"
    )
    context_tokens: Annotated[int, kinds.whole(16, 100_000_000)] | None = Field(
        default=None,
        alias="context",
        description="Tokens that one request may use; left out, the engine decides",
    )
    threads: Annotated[int, kinds.whole(1, 4_096)] = Field(
        default=THREADS, description="CPU threads of one replica, for engines that compute on the CPU"
    )
    extra_args: list[Annotated[str, WORD]] = Field(
        default=[], alias="args", description="Further arguments for the engine"
    )
    env: dict[Annotated[str, ENV_NAME], Annotated[str, WORD]] = Field(
        default={}, description="Environment variables for the engine"
    )
    command: list[Annotated[str, WORD]] | None = Field(
        default=None,
        description="A command that replaces the adapter's own; `{host}`, `{port}`, `{model}`, `{weights}`, "
        "`{slots}` and `{gpus}` are filled in",
    )
    lora: dict[Annotated[str, MODEL_NAME], Annotated[str, PATH]] = Field(
        default={},
        description="LoRA adapters: name and path; asked for as `model:name`, or `name` if one model has it. `{}`: none "
        "yet, and the engine is started so that it can load some",
    )
    gpus: Annotated[int, kinds.whole(0, 1_024)] = Field(
        default=_MODEL.gpus, description="GPUs that one replica occupies"
    )
    kind: Annotated[str, KIND] | None = Field(
        default=None,
        description="Of the GPUs, one of the kinds in `fleet.gpus` or `fleet.nodes`: a replica goes on these only; left out, on any",
    )
    memory_bytes: Annotated[int, kinds.size("1MiB", "1024TiB")] | None = Field(
        default=None,
        alias="memory",
        description="Memory that one replica takes on each of its GPUs: with that of the devices in `fleet.gpus`, "
        "several replicas share a GPU; left out, each has its GPUs to itself",
    )
    price_per_h: Annotated[float, kinds.money()] = Field(
        default=_MODEL.price_per_h,
        alias="price",
        description="What one replica costs; left out, its share of a node with a price",
    )
    variants: dict[Annotated[str, KIND], VariantKeys] = Field(
        default={},
        description="Further ways to run the model, by name; [what they mean](#variants-of-a-model)",
    )
    profile: Annotated[str, PROFILE] | None = Field(
        default=None,
        description="For `tidegate simulate`: whose speed a replica has; left out, the catalogue's first for this model",
    )
    routing: Annotated[str, _ROUTING] = Field(
        default=_DISPATCH.routing.value, description="How a replica is chosen among those with a free slot"
    )
    adapter_slots: Annotated[int, kinds.whole(1, 10_000)] = Field(
        default=_DISPATCH.adapter_slots,
        alias="lora_slots",
        description="LoRA adapters that one replica has on its GPU at once; given to the engine (vLLM's `--max-loras`)",
    )
    kv_events_port: Annotated[int, kinds.whole(1, 65_535)] | None = Field(
        default=None,
        description="Where each replica's engine publishes its KV events, for engines with an address of their own "
        "(`static`); vLLM's `--kv-events-config`, 5557 there",
    )
    max_retries: Annotated[int, kinds.whole(0, 10)] = Field(
        default=_DISPATCH.max_retries,
        description="Further attempts on another replica after a failure before the first byte",
    )
    resume: Annotated[bool, kinds.switch()] = Field(
        default=_DISPATCH.resume,
        description="A stream that breaks off goes on at another replica, from the tokens already passed on",
    )
    prefill_ahead_s: Annotated[float, kinds.duration("0s", "1h")] = Field(
        default=_DISPATCH.prefill_ahead_s,
        alias="prefill_ahead",
        description="Prompts that a replica is given beyond those it computes, in its own time, where tenants or "
        "classes compete; 0s: no limit",
    )
    reserve_share: Annotated[float, kinds.ratio()] = Field(
        default=_DISPATCH.reserve_share,
        description="Of a replica's slots, those that a tenant with much in flight leaves to others while there are any",
    )
    max_deaths: Annotated[int, kinds.whole(1, 100)] = Field(
        default=_DISPATCH.max_deaths,
        description="Engines that may break off on one request before its first byte; after that no other gets it, "
        "whatever `max_retries` allows",
    )
    max_yields: Annotated[int, kinds.whole(0, 100)] = Field(
        default=_DISPATCH.max_yields,
        description="How often a long prompt without a token is taken back from its replica for a shorter one of a "
        "quiet tenant or a higher class; 0: never",
    )
    queue: Queue = Queue()
    slow_start: SlowStart = SlowStart()
    hedging: Hedging = Hedging()
    spill: SpillKeys | None = None
    shadow: Annotated[str, laws(several=True)] | None = Field(
        default=None,
        description="A second scaling policy, one law or the largest of [several](#laws-together), scored on the live "
        "traffic without acting; `/fleet`, the metrics, `tidegate explain` and `tidegate simulate` tell",
    )
    scaling: ScalingKeys = ScalingKeys()
    pool: PoolKeys = PoolKeys()
    restarts: RestartKeys = RestartKeys()
    start_deadline_s: Annotated[float, kinds.duration("1s", "1d")] = Field(
        default=_MODEL.start_deadline_s,
        alias="start_deadline",
        description="A replica that is not ready by then is given up and stopped",
    )
    drain_deadline_s: Annotated[float, kinds.duration("0s", "1d")] = Field(
        default=_MODEL.drain_deadline_s,
        alias="drain_deadline",
        description="A draining replica with requests left is stopped after this",
    )
    handover_s: Annotated[float, kinds.duration("0s", "5m")] = Field(
        default=HANDOVER_S,
        alias="handover",
        description="With `routing: least_seconds`, a replica that is to drain because fewer are wanted is announced for "
        "so long, and others take over the beginnings that only it has cached; 0s: it drains at once",
    )
    stop_grace_s: Annotated[float, kinds.duration("0s", "1h")] = Field(
        default=STOP_GRACE_S,
        alias="stop_grace",
        description="From asking an engine to stop to killing it",
    )
    silent_after_s: Annotated[float, kinds.duration("2s", "1h")] = Field(
        default=SILENT_AFTER_S,
        alias="silent_after",
        description="An engine that serves and gives no answer to anything for this long is replaced",
    )
    expected_start_s: Annotated[float, kinds.duration("0s", "1d")] | None = Field(
        default=None,
        alias="expected_start",
        description="Cold start to expect before one has been measured",
    )
