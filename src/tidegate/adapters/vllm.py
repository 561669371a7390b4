"""vLLM, as ``vllm serve``.

Its manners: the port refuses until the model serves; on SIGTERM it ends streams with
``finish_reason: "abort"`` and a clean ``[DONE]``, or, given ``--shutdown-timeout``, finishes them while
it answers new requests with 500 and still calls itself healthy. One replica is three processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.adapters import commands, lora, openai_api
from tidegate.adapters.base import Call, CompileCache, EngineMetrics, EngineSpec, LoraApi, Manners, SleepApi
from tidegate.adapters.pages import Page
from tidegate.adapters.startup import SECONDS, Marks
from tidegate.core.lifecycle import Part
from tidegate.core.types import Address

SHUTDOWN_TIMEOUT_S = 10
"""The gateway drains a replica before it is stopped; this is for the request that slipped through."""

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_WAITING_BY_REASON = "vllm:num_requests_waiting_by_reason"
# The name that current engines use, then the one that older ones did.
_KV = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_CACHED = (
    "vllm:prompt_tokens_cached_total",
    "vllm:prefix_cache_hits_total",
    "vllm:gpu_prefix_cache_hits_total",
)
_PROMPT = "vllm:prompt_tokens_total"
_OUTPUT = "vllm:generation_tokens_total"
_PREEMPTIONS = "vllm:num_preemptions_total"
_CACHE_CONFIG = "vllm:cache_config_info"
_LORA = "vllm:lora_requests_info"
_LORA_LOADED = "vllm:lora_adapter_loaded"
_LORA_ON_GPU = "vllm:num_gpu_loaded_lora_adapters"
"""Proposed to vLLM in pull request 54830: until it is there nobody but our own ledger says what is loaded."""
_SLEEP = "vllm:engine_sleep_state"
_NAMES = (
    _RUNNING,
    _WAITING,
    _WAITING_BY_REASON,
    *_KV,
    *_CACHED,
    _PROMPT,
    _OUTPUT,
    _PREEMPTIONS,
    _CACHE_CONFIG,
    _LORA,
    _LORA_LOADED,
    _LORA_ON_GPU,
    _SLEEP,
)


_COMPILED = CompileCache(
    packages=("vllm", "torch", "triton", "flashinfer-python"),
    folders={
        "VLLM_CACHE_ROOT": "vllm",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
        "CUDA_CACHE_PATH": "cuda",
    },
)
"""vLLM keeps graphs below its root; kernels that are compiled beside them go where their compilers say."""

# Level 1 keeps the weights in host memory and needs no more than a wake-up. Level 2 drops them: they are read again
# between waking their memory and that of the KV cache, or both would be needed at once (vLLM docs, features/sleep_mode).
# The prefix cache is told by vLLM itself as it falls asleep.
_SLEEP_API = SleepApi(
    sleep={level: (Call("POST", f"/sleep?level={level}"),) for level in (1, 2)},
    wake={
        1: (Call("POST", "/wake_up"),),
        2: (
            Call("POST", "/wake_up?tags=weights"),
            Call("POST", "/collective_rpc", b'{"method": "reload_weights"}'),
            Call("POST", "/wake_up?tags=kv_cache"),
        ),
    },
    check=Call("GET", "/is_sleeping"),
)


# As vLLM 0.8 to 0.19 write it (default_loader.py, monitor.py, gpu_model_runner.py); what was compiled before is loaded within
# the time that they call compiling.
_START_MARKS: Marks = {
    Part.WEIGHTS: r"Loading weights took " + SECONDS + r" seconds",
    Part.COMPILE: r"torch\.compile (?:takes|took) " + SECONDS + r" s in total",
    Part.CAPTURE: r"Graph capturing finished in " + SECONDS + r" secs",
}


class _Asleep(msgspec.Struct):
    is_sleeping: bool


class Vllm:
    """The vLLM server."""

    name = "vllm"
    manners = Manners(
        abort_marks=openai_api.ABORT_MARKS,
        busy_marks=(b"cannot schedule new futures after shutdown",),
        chat_continuation={"add_generation_prompt": False, "continue_final_message": True},
        continues_completions=True,
        counts_as_it_goes=True,
    )
    metrics_path = "/metrics"
    sleep_check_path = None
    compile_cache: CompileCache | None = _COMPILED
    start_marks: Marks = _START_MARKS
    probe = staticmethod(openai_api.completion_probe)
    readiness = staticmethod(openai_api.token_readiness)
    sleep_api: SleepApi | None = _SLEEP_API
    lora_api: LoraApi | None = LoraApi("/v1/load_lora_adapter", "/v1/unload_lora_adapter")

    def is_sleeping(self, body: bytes) -> bool:
        """``{"is_sleeping": true}``."""
        try:
            return msgspec.json.decode(body, type=_Asleep).is_sleeping
        except msgspec.DecodeError:
            return False

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """``vllm serve``; the operator's own arguments come last and win."""
        if spec.command is not None:
            return commands.filled(spec.command, spec, address, gpus)
        argv = ["vllm", "serve", spec.weights, "--served-model-name", spec.model_name]
        argv += ["--host", address.host, "--port", str(address.port)]
        argv += ["--max-num-seqs", str(spec.slots)]
        argv += ["--shutdown-timeout", str(SHUTDOWN_TIMEOUT_S), "--enable-prompt-tokens-details"]
        if spec.sleeps:
            argv.append("--enable-sleep-mode")
        if spec.context_tokens is not None:
            argv += ["--max-model-len", str(spec.context_tokens)]
        if len(gpus) > 1:
            argv += ["--tensor-parallel-size", str(len(gpus))]
        if spec.lora is not None:
            # Its own default is one adapter on the GPU.
            argv += ["--enable-lora", "--max-loras", str(spec.adapter_slots)]
        return [*argv, *spec.extra_args]

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """No reports home; and process titles must not overwrite the environment in ``/proc``, where
        the backend reads which replica a process belongs to."""
        quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "SPT_NOENV": "1"}
        if spec.sleeps:
            # The control API is there in this mode only. Engines listen on loopback, and the gateway passes none of
            # its paths on.
            quiet["VLLM_SERVER_DEV_MODE"] = "1"
        if spec.lora is not None:
            # Likewise its routes for adapters: whoever reaches them may have it read any path.
            quiet["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
        return quiet | dict(spec.env or {})

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """``--max-num-seqs N``."""
        return commands.number_after(argv, "--max-num-seqs", "--max_num_seqs")

    def metrics(self, page: str) -> EngineMetrics:
        """One series per data-parallel engine: requests add up, the fullest KV cache counts."""
        read = Page(page, _NAMES)
        # Only what waits for room means congestion; the rest is put off by chunked prefill and the like.
        for_room = read.count(_WAITING_BY_REASON, where=("reason", "capacity"))
        return EngineMetrics(
            running=read.count(_RUNNING),
            waiting=for_room if for_room is not None else read.count(_WAITING),
            kv_usage_ratio=read.ratio(*_KV),
            kv_blocks_total=read.label_total(_CACHE_CONFIG, "num_gpu_blocks"),
            kv_block_tokens=read.label_value(_CACHE_CONFIG, "block_size"),
            prompt_tokens_total=read.total(_PROMPT),
            cached_tokens_total=read.total(*_CACHED),
            output_tokens_total=read.total(_OUTPUT),
            preemptions_total=read.total(_PREEMPTIONS),
            is_sleeping=_is_sleeping(read),
            lora_running=_lora_running(read),
            lora_on_gpu=_lora_on_gpu(read),
        )

    def rewrite(self, body: bytes, spec: EngineSpec | None) -> bytes:
        """To vLLM an adapter is a model of its own: ``base:adapter`` becomes ``adapter``."""
        if spec is None or not spec.lora:
            return body
        fields = lora.fields_of(body)
        if fields is None:
            return body
        asked = lora.adapter_asked_for(model := lora.model_of(fields), spec)
        return body if asked is None or asked == model else lora.with_fields(fields, {"model": asked})


def _is_sleeping(read: Page) -> bool | None:
    awake = [sample.value for sample in read.samples(_SLEEP) if sample.labels.get("sleep_state") == "awake"]
    return min(awake) == 0.0 if awake else None


def _lora_running(read: Page) -> tuple[str, ...]:
    # The value is the moment of writing. Old series stay on the page, so only the newest tells the truth.
    series = read.samples(_LORA)
    if not series:
        return ()
    newest = max(series, key=lambda sample: sample.value)
    names = newest.labels.get("running_lora_adapters", "")
    return tuple(name for part in names.split(",") if (name := part.strip()))


def _lora_on_gpu(read: Page) -> tuple[str, ...] | None:
    # An adapter has a series while it is loaded, one for each level. Without any, only the count tells none from unknown.
    loaded = read.samples(_LORA_LOADED)
    if not loaded:
        return () if read.count(_LORA_ON_GPU) == 0 else None
    on_gpu = (sample.labels for sample in loaded if sample.value and sample.labels.get("level") == "gpu")
    return tuple(sorted({name for labels in on_gpu if (name := labels.get("adapter_name"))}))
