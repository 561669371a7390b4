"""TensorRT-LLM, as ``trtllm-serve``.

Its ``/metrics`` is JSON about iterations; Prometheus text is at ``/prometheus/metrics`` and needs
``return_perf_metrics: true`` in the options file that the operator passes. Behind Triton the same
engine reports under other names, which are read as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tidegate.adapters import commands, lora, openai_api
from tidegate.adapters.base import CompileCache, EngineMetrics, EngineSpec, Manners
from tidegate.adapters.pages import Page
from tidegate.adapters.startup import NO_MARKS
from tidegate.core.types import Address

_RUNNING = "trtllm_num_requests_running"
_WAITING = "trtllm_num_requests_waiting"
_KV = "trtllm_kv_cache_utilization"
_BLOCKS = "trtllm_kv_cache_max_blocks"
_BLOCK_TOKENS = "trtllm_kv_cache_tokens_per_block"
_TRITON_REQUESTS = "nv_trt_llm_request_metrics"
_TRITON_KV = "nv_trt_llm_kv_cache_block_metrics"
_NAMES = (_RUNNING, _WAITING, _KV, _BLOCKS, _BLOCK_TOKENS, _TRITON_REQUESTS, _TRITON_KV)

_LORA_FIELD = "lora_request"

_Number = TypeVar("_Number", int, float)


_COMPILED = CompileCache(
    packages=("tensorrt_llm", "tensorrt", "torch", "triton"),
    folders={
        "TLLM_LLMAPI_BUILD_CACHE_ROOT": "engines",
        "TORCHINDUCTOR_CACHE_DIR": "inductor",
        "TRITON_CACHE_DIR": "triton",
        "FLASHINFER_WORKSPACE_BASE": "flashinfer",
        "CUDA_CACHE_PATH": "cuda",
    },
    switches={"TLLM_LLMAPI_BUILD_CACHE": "1"},
)
"""Engines that it builds itself are kept only when told so."""


class TrtLlm:
    """The ``trtllm-serve`` server."""

    name = "trtllm"
    manners = Manners()
    metrics_path = "/prometheus/metrics"
    sleep_api = None
    lora_api = None
    sleep_check_path = None
    compile_cache: CompileCache | None = _COMPILED
    start_marks = NO_MARKS
    probe = staticmethod(openai_api.completion_probe)
    readiness = staticmethod(openai_api.token_readiness)
    is_sleeping = staticmethod(openai_api.never_sleeps)

    def command(self, spec: EngineSpec, address: Address, gpus: Sequence[int]) -> list[str]:
        """``trtllm-serve``; the operator's own arguments come last and win."""
        if spec.command is not None:
            return commands.filled(spec.command, spec, address, gpus)
        argv = ["trtllm-serve", spec.weights, "--served_model_name", spec.model_name]
        argv += ["--host", address.host, "--port", str(address.port)]
        argv += ["--max_batch_size", str(spec.slots)]
        if spec.context_tokens is not None:
            argv += ["--max_seq_len", str(spec.context_tokens)]
        if len(gpus) > 1:
            argv += ["--tp_size", str(len(gpus))]
        return [*argv, *spec.extra_args]

    def environment(self, spec: EngineSpec, gpus: Sequence[int]) -> dict[str, str]:
        """Nothing but what the operator set."""
        return dict(spec.env or {})

    def batch_size(self, argv: Sequence[str]) -> int | None:
        """``--max_batch_size N``."""
        return commands.number_after(argv, "--max_batch_size")

    def metrics(self, page: str) -> EngineMetrics:
        """``trtllm_*``, or Triton's families where a label tells what is counted."""
        read = Page(page, _NAMES)
        return EngineMetrics(
            running=_either(
                read.count(_RUNNING), read.count(_TRITON_REQUESTS, where=("request_type", "scheduled"))
            ),
            waiting=_either(
                read.count(_WAITING), read.count(_TRITON_REQUESTS, where=("request_type", "waiting"))
            ),
            kv_usage_ratio=_either(
                read.ratio(_KV), read.ratio(_TRITON_KV, where=("kv_cache_block_type", "fraction"))
            ),
            kv_blocks_total=_either(
                read.count(_BLOCKS), read.count(_TRITON_KV, where=("kv_cache_block_type", "max"))
            ),
            kv_block_tokens=_either(
                read.count(_BLOCK_TOKENS), read.count(_TRITON_KV, where=("kv_cache_block_type", "tokens_per"))
            ),
        )

    def rewrite(self, body: bytes, spec: EngineSpec | None) -> bytes:
        """Name the adapter's folder, which only the operator's file may do: a client's own is dropped."""
        asked = None
        fields = lora.fields_of(body) if spec is not None and spec.lora else None
        if spec is not None and fields is not None:
            asked = lora.adapter_asked_for(lora.model_of(fields), spec)
        if spec is None or fields is None or asked is None:
            return lora.without_field(body, _LORA_FIELD)
        adapters = spec.lora or {}
        request = {
            "lora_name": asked,
            "lora_int_id": 1 + list(adapters).index(asked),
            "lora_path": adapters[asked],
        }
        return lora.with_fields(fields, {"model": spec.model_name, _LORA_FIELD: request})


def _either(first: _Number | None, second: _Number | None) -> _Number | None:
    return second if first is None else first
