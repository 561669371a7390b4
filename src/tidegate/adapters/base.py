"""What Tidegate must know about an engine to run it and to speak with it.

An adapter is a table of facts with a few pure functions; it opens no socket and starts no process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from tidegate.adapters.startup import Marks
from tidegate.core.types import Address


@dataclass(frozen=True, slots=True)
class Manners:
    """How an engine behaves on the wire where it matters to whoever relays its answers."""

    idle_connection_s: float = 4.0
    """Pooled connections older than this are not reused. llama.cpp closes at 5.0 s, uvicorn too."""
    busy_statuses: frozenset[int] = frozenset({429, 503})
    """Answers that mean "not taken, nothing started": another replica may be tried."""
    failed_statuses: frozenset[int] = frozenset({500, 502, 504})
    """Answers that count against the replica and may be tried elsewhere while no byte was passed on."""
    abort_marks: tuple[bytes, ...] = ()
    """Bytes inside a streamed event that mean the engine cut its answer short and calls it finished."""
    silence_means_dead_s: float | None = None
    """A running stream without a byte for this long is taken for dead. None: the gateway's own limit."""
    busy_marks: tuple[bytes, ...] = ()
    """Bytes in an error answer's body that mean "not taken, nothing started", whatever its status."""
    chat_continuation: Mapping[str, object] | None = None
    """Fields of a chat request with which the engine goes on with its last message, the assistant's. None:
    it cannot."""
    continues_completions: bool = False
    """A prompt that ends in the beginning of its answer is gone on with."""
    counts_as_it_goes: bool = False
    """Asked for it (``stream_options.continuous_usage_stats``), every event says how many tokens there are."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the engine's own control API; any 2xx means that it is done."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class SleepApi:
    """How an engine is put to sleep and woken. It gives its GPU memory back in between and keeps its process."""

    sleep: Mapping[int, tuple[Call, ...]]
    """By level, in order."""
    wake: Mapping[int, tuple[Call, ...]]
    check: Call
    """Answered at any time without waking it."""


@dataclass(frozen=True, slots=True)
class LoraApi:
    """How an engine that was started for it is given LoRA adapters, and rid of them, while it runs.

    Each call's body is made from the adapter's name and path. 2xx: done. What else is answered says little (400 for a
    name that is loaded already), so ``listing``, in OpenAI's shape, then tells what is there.
    """

    load: str
    unload: str
    """Paths to POST to."""
    listing: str = "/v1/models"
    at_start: bool = False
    """It is given them on its command line as well, from which it takes how large they may be. Otherwise it starts
    without any: one that cannot be loaded would keep the whole engine from starting."""

    def load_call(self, name: str, path: str) -> Call:
        """The request that loads one."""
        return Call("POST", self.load, json.dumps({"lora_name": name, "lora_path": path}).encode())

    def unload_call(self, name: str) -> Call:
        """The request that unloads one."""
        return Call("POST", self.unload, json.dumps({"lora_name": name}).encode())


@dataclass(frozen=True, slots=True)
class CompileCache:
    """How an engine is told where to keep what it compiles."""

    packages: tuple[str, ...]
    """What it is made of; another version of any is another engine."""
    folders: Mapping[str, str]
    """Environment variables, each with its part of the folder."""
    switches: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that turn it on."""


class Readiness(Enum):
    """What the answer to a readiness probe means."""

    READY = "ready"
    LOADING = "loading"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Probe:
    """A request that makes the engine generate one real token; an open port proves nothing."""

    method: str
    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class EngineMetrics:
    """One scrape, in one vocabulary. None: the page did not say; it never becomes 0."""

    running: int | None = None
    waiting: int | None = None
    """Requests that wait for room. Those an engine puts off for other reasons are left out where it
    tells them apart."""
    kv_usage_ratio: float | None = None
    kv_blocks_total: int | None = None
    kv_block_tokens: int | None = None
    prompt_tokens_total: float | None = None
    """All prompt tokens, those found in the prefix cache included."""
    cached_tokens_total: float | None = None
    output_tokens_total: float | None = None
    preemptions_total: float | None = None
    is_sleeping: bool | None = None
    lora_running: tuple[str, ...] = ()
    """LoRA adapters with requests: those that wait are among them, and idle ones on the GPU are not."""
    lora_on_gpu: tuple[str, ...] | None = None
    """LoRA adapters that are loaded, with requests or without."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """How the operator wants one model's engine to be run."""

    model_name: str
    """The name that clients use; the engine is told to answer to it."""
    weights: str
    """A path, a source or a repository name, from the operator's file and never from a request."""
    slots: int
    """The engine's batch size."""
    weights_sha256: str | None = None
    """What must have come from a source that Tidegate fetches from."""
    context_tokens: int | None = None
    """For one request."""
    threads: int = 1
    extra_args: tuple[str, ...] = ()
    lora: Mapping[str, str] | None = None
    """Adapter name to path. Empty: none yet, and the engine is started so that it can load some; None: never any."""
    adapter_slots: int = 8
    """LoRA adapters that it has on its GPU at once."""
    command: tuple[str, ...] | None = None
    """A command template that replaces the adapter's own. ``{port}``, ``{host}``, ``{model}``,
    ``{weights}``, ``{slots}`` and ``{gpus}`` are filled in; other braces stay as they are."""
    env: Mapping[str, str] | None = None
    sleeps: bool = False
    """Started so that it can be put to sleep."""


class Adapter(Protocol):
    """The facts about one kind of engine."""

    @property
    def name(self) -> str:
        """As written in the policy file."""

    @property
    def manners(self) -> Manners:
        """How it behaves on the wire."""

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """The argument vector that starts one replica listening on ``address``."""

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """What the process needs to find in its environment beside the backend's own minimum."""

    @property
    def compile_cache(self) -> CompileCache | None:
        """Where it keeps what it compiles; None when it compiles nothing worth keeping."""

    @property
    def start_marks(self) -> Marks:
        """How its log tells what parts of its start took."""

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """The batch size that this command line gives the engine; None when it does not say."""

    def probe(self, model_name: str) -> Probe:
        """A one-token generation."""

    def readiness(self, status: int, body: bytes) -> Readiness:
        """What the probe's answer means."""

    @property
    def sleep_api(self) -> SleepApi | None:
        """How it sleeps, when it was started for that; None: it cannot."""

    @property
    def lora_api(self) -> LoraApi | None:
        """How it loads LoRA adapters while it runs; None: it cannot, and knows those on its command line."""

    @property
    def metrics_path(self) -> str | None:
        """Where the engine's metrics are; None when it has none."""

    @property
    def sleep_check_path(self) -> str | None:
        """To be asked before a scrape where a scrape would wake a sleeping engine, else None."""

    def is_sleeping(self, body: bytes) -> bool:
        """What the answer from ``sleep_check_path``, or from ``SleepApi.check``, says."""

    def metrics(self, page: str) -> EngineMetrics:
        """Read a metrics page. A page that cannot be read gives all None; it never raises."""

    def rewrite(self, body: bytes, spec: EngineSpec | None) -> bytes:
        """The request body as this engine must get it; most return it unchanged."""
