"""llama.cpp's server, run by ``tidegate.adapters.llamacpp_server`` or as ``llama-server`` by a template.

Its manners: it answers 503 while it loads, closes idle connections after 5.0 s, never refuses (its
queue has no bound), ends open streams without a word on SIGTERM, is woken by a metrics scrape, and
mixes up cached prompts of different adapters unless every request names them all.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import msgspec

from tidegate.adapters import commands, lora, openai_api
from tidegate.adapters.base import CompileCache, EngineMetrics, EngineSpec, Manners, Probe
from tidegate.adapters.pages import Page
from tidegate.adapters.startup import NO_MARKS
from tidegate.core.types import Address

_KV_OLD = "llamacpp:kv_cache_usage_ratio"
"""Gone from current builds, which have no KV gauge at all."""

_NAMES = (
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
    "llamacpp:prompt_tokens_total",
    "llamacpp:prompt_tokens_cached_total",
    "llamacpp:tokens_predicted_total",
    _KV_OLD,
)


class _Props(msgspec.Struct):
    is_sleeping: bool = False


class LlamaCpp:
    """The llama.cpp server."""

    name = "llamacpp"
    manners = Manners(
        # Between two chunks lies at most one batch of somebody else's prompt: 512 tokens, which a
        # slow core computes in about 5 s.
        silence_means_dead_s=30.0,
        # A last message of the assistant is gone on with, unasked.
        chat_continuation={},
        continues_completions=True,
    )
    metrics_path = "/metrics"
    sleep_api = None
    lora_api = None
    sleep_check_path = "/props"
    compile_cache: CompileCache | None = None
    start_marks = NO_MARKS
    readiness = staticmethod(openai_api.token_readiness)

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """Our launcher around the server in the ``xllamacpp`` wheel."""
        if spec.command is not None:
            return commands.filled(spec.command, spec, address, gpus)
        # -P: no module of the folder that Tidegate happens to run in gets in between.
        argv = [sys.executable, "-P", "-m", "tidegate.adapters.llamacpp_server"]
        argv += ["--model-path", spec.weights, "--alias", spec.model_name]
        argv += ["--host", address.host, "--port", str(address.port)]
        argv += ["--slots", str(spec.slots), "--threads", str(spec.threads)]
        if spec.context_tokens is not None:
            # The engine wants the total, which it splits evenly.
            argv += ["--context", str(spec.context_tokens * spec.slots)]
        for path in (spec.lora or {}).values():
            argv += ["--lora", path]
        if gpus:
            argv += ["--gpu-layers", "999"]
        return [*argv, *spec.extra_args]

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """Nothing but what the operator set."""
        return dict(spec.env or {})

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """``--slots N`` of the launcher, ``-np N`` or ``--parallel N`` of llama-server."""
        return commands.number_after(argv, "--slots", "-np", "--parallel")

    def probe(self, model_name: str) -> Probe:
        """One token that leaves the prompt cache alone."""
        return openai_api.completion_probe(model_name, cache_prompt=False)

    def is_sleeping(self, body: bytes) -> bool:
        """From ``/props``; an older build that does not say is awake."""
        try:
            return msgspec.json.decode(body, type=_Props).is_sleeping
        except msgspec.DecodeError:
            return False

    def metrics(self, page: str) -> EngineMetrics:
        """No labels, no KV gauge; ``prompt_tokens_total`` leaves out the cached ones."""
        read = Page(page, _NAMES)
        computed = read.total("llamacpp:prompt_tokens_total")
        cached = read.total("llamacpp:prompt_tokens_cached_total")
        return EngineMetrics(
            running=read.count("llamacpp:requests_processing"),
            waiting=read.count("llamacpp:requests_deferred"),
            kv_usage_ratio=read.ratio(_KV_OLD),
            prompt_tokens_total=None if computed is None or cached is None else computed + cached,
            cached_tokens_total=cached,
            output_tokens_total=read.total("llamacpp:tokens_predicted_total"),
        )

    def rewrite(self, body: bytes, spec: EngineSpec | None) -> bytes:
        """Put the scale of every adapter into the request, and nobody else's idea of it.

        Left out, the server would answer from a prompt cache computed under the adapters of whoever
        asked before. Adapters are numbered in the order in which the engine was given them.
        """
        if spec is None or not spec.lora:
            return body
        fields = lora.fields_of(body)
        if fields is None:
            return body
        asked = lora.adapter_asked_for(lora.model_of(fields), spec)
        scales = [
            {"id": number, "scale": 1.0 if name == asked else 0.0} for number, name in enumerate(spec.lora)
        ]
        return lora.with_fields(fields, {"lora": scales})
