"""SGLang, as ``python -m sglang.launch_server``.

It exports nothing without ``--enable-metrics``. An adapter is asked for as ``base:adapter``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.adapters import commands, lora, openai_api
from tidegate.adapters.base import CompileCache, EngineMetrics, EngineSpec, LoraApi, Manners
from tidegate.adapters.pages import Page
from tidegate.adapters.startup import SECONDS, Marks
from tidegate.core.lifecycle import Part
from tidegate.core.types import Address

_RUNNING = "sglang:num_running_reqs"
_WAITING = "sglang:num_queue_reqs"
_KV = "sglang:token_usage"
_CACHE_CONFIG = "sglang:cache_config_info"
_PROMPT = "sglang:prompt_tokens_total"
_CACHED = "sglang:cached_tokens_total"
_OUTPUT = "sglang:generation_tokens_total"
_RETRACTED = "sglang:num_retracted_requests_total"
_NAMES = (_RUNNING, _WAITING, _KV, _CACHE_CONFIG, _PROMPT, _CACHED, _OUTPUT, _RETRACTED)

# With metrics of all schedulers on, every tensor-parallel rank reports the same requests. Only
# data-parallel ranks are engines with requests of their own.
_ENGINE = "dp_rank"


_COMPILED = CompileCache(
    packages=("sglang", "torch", "triton", "flashinfer-python", "sgl-kernel"),
    folders={
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
        "SGLANG_DG_CACHE_DIR": "deep_gemm",
        "CUDA_CACHE_PATH": "cuda",
    },
)


# As SGLang 0.5 writes it (model_runner.py), with the other name that graph capture has got since.
_START_MARKS: Marks = {
    Part.WEIGHTS: r"Load weight end\. elapsed=" + SECONDS + r" s",
    Part.CAPTURE: r"Capture (?:cuda graph end\. Time elapsed: |target decode CUDA graph end\. elapsed=)"
    + SECONDS
    + r" s",
}


class SGLang:
    """The SGLang server."""

    name = "sglang"
    manners = Manners(
        abort_marks=openai_api.ABORT_MARKS,
        chat_continuation={"continue_final_message": True},
        continues_completions=True,
    )
    metrics_path = "/metrics"
    sleep_api = None
    lora_api: LoraApi | None = LoraApi("/load_lora_adapter", "/unload_lora_adapter", at_start=True)
    sleep_check_path = None
    compile_cache: CompileCache | None = _COMPILED
    start_marks: Marks = _START_MARKS
    probe = staticmethod(openai_api.completion_probe)
    readiness = staticmethod(openai_api.token_readiness)
    is_sleeping = staticmethod(openai_api.never_sleeps)

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """Through ``python``, found on the path that the operator gives the engine."""
        if spec.command is not None:
            return commands.filled(spec.command, spec, address, gpus)
        argv = ["python3", "-m", "sglang.launch_server"]
        argv += ["--model-path", spec.weights, "--served-model-name", spec.model_name]
        argv += ["--host", address.host, "--port", str(address.port)]
        argv += ["--max-running-requests", str(spec.slots), "--enable-metrics", "--enable-cache-report"]
        if spec.context_tokens is not None:
            argv += ["--context-length", str(spec.context_tokens)]
        if len(gpus) > 1:
            argv += ["--tp-size", str(len(gpus))]
        if spec.lora is not None:
            argv += ["--enable-lora", "--max-loras-per-batch", str(spec.adapter_slots)]
        if spec.lora:
            argv += ["--lora-paths", *(f"{name}={path}" for name, path in spec.lora.items())]
        return [*argv, *spec.extra_args]

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """Its schedulers rename themselves; their environment must stay readable in ``/proc``."""
        return {"SPT_NOENV": "1"} | dict(spec.env or {})

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """``--max-running-requests N``."""
        return commands.number_after(argv, "--max-running-requests")

    def metrics(self, page: str) -> EngineMetrics:
        """Requests add up over data-parallel ranks, the fullest KV cache counts."""
        read = Page(page, _NAMES)
        return EngineMetrics(
            running=read.count(_RUNNING, by=_ENGINE),
            waiting=read.count(_WAITING, by=_ENGINE),
            kv_usage_ratio=read.ratio(_KV),
            kv_blocks_total=read.label_total(_CACHE_CONFIG, "num_pages"),
            kv_block_tokens=read.label_value(_CACHE_CONFIG, "page_size"),
            prompt_tokens_total=read.total(_PROMPT),
            cached_tokens_total=read.total(_CACHED),
            output_tokens_total=read.total(_OUTPUT),
            preemptions_total=read.total(_RETRACTED),
        )

    def rewrite(self, body: bytes, spec: EngineSpec | None) -> bytes:
        """An adapter asked for by its own name becomes ``base:adapter``."""
        if spec is None or not spec.lora:
            return body
        fields = lora.fields_of(body)
        if fields is None:
            return body
        asked = lora.adapter_asked_for(model := lora.model_of(fields), spec)
        if asked is None or asked != model:
            return body
        return lora.with_fields(fields, {"model": f"{spec.model_name}:{asked}"})
