"""vLLM's metrics page: the names, labels and buckets of vLLM 0.32 (V1 engine, 2026).

Written by ``prometheus_client`` as vLLM's is, so that the text is alike to the byte. The numbers are
kept in plain lists, because a histogram over tokens must take hundreds at once.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from tidegate.engine.batch import Engine
from tidegate.engine.sequence import Limits, Progress, Sequence

_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0, 160.0, 640.0, 2560.0),
)
_BETWEEN_TOKENS_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0),
    *(40.0, 80.0),
)
_REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0),
    *(480.0, 960.0, 1920.0, 7680.0),
)
_STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_PREEMPTIONS = (1, 2, 3, 4, 5, 10, 20)
STATES = ("awake", "weights_offloaded", "discard_all")
"""By level of sleep."""
_REASONS = ("stop", "length", "abort", "error", "repetition")


class Histogram:
    """Counts by bucket; one look may count for many."""

    def __init__(self, name: str, documentation: str, bounds: Iterable[float]) -> None:
        self.name = name
        self.documentation = documentation
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times

    def buckets(self) -> list[tuple[str, float]]:
        """Upper bounds and how many lay below, as Prometheus wants them."""
        below, found = 0, []
        for bound, here in zip((*map(float, self.bounds), "+Inf"), self.counts, strict=True):
            below += here
            found.append((str(bound), float(below)))
        return found


def _one_two_five(most: int) -> list[float]:
    series = [digit * 10**power for power in range(10) for digit in (1, 2, 5)]
    return [float(value) for value in series if value <= most]


class Meters:
    """Everything that the page shows and the engine does not know by itself."""

    def __init__(self, model: str, time_scale: float, limits: Limits) -> None:
        self._labels = [model, "0"]
        self._time_scale = time_scale
        self._finished = dict.fromkeys(_REASONS, 0)
        self._rejected = 0
        self._has_adapters = False
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._seen_steps, self._seen_tokens, self._seen_outputs, self._seen_busy_s = 0, 0, 0, 0.0
        sizes = _one_two_five(limits.kv_blocks * limits.block_tokens)
        self._ttft = Histogram("time_to_first_token_seconds", "time to first token", _FIRST_TOKEN_S)
        self._itl = Histogram("inter_token_latency_seconds", "time between tokens", _BETWEEN_TOKENS_S)
        self._tpot = Histogram(
            "request_time_per_output_token_seconds", "time per token of a request", _BETWEEN_TOKENS_S
        )
        self._e2e = Histogram("e2e_request_latency_seconds", "request latency", _REQUEST_S)
        self._queue = Histogram("request_queue_time_seconds", "time in WAITING", _REQUEST_S)
        self._inference = Histogram("request_inference_time_seconds", "time in RUNNING", _REQUEST_S)
        self._prefill = Histogram("request_prefill_time_seconds", "time in PREFILL", _REQUEST_S)
        self._decode = Histogram("request_decode_time_seconds", "time in DECODE", _REQUEST_S)
        self._prompts = Histogram("request_prompt_tokens", "prefill tokens of a request", sizes)
        self._outputs = Histogram("request_generation_tokens", "generated tokens of a request", sizes)
        self._steps = Histogram("iteration_tokens_total", "tokens per engine step", _STEP_TOKENS)
        self._preempted = Histogram("request_num_preemptions", "preemptions of a request", _PREEMPTIONS)

    # ---- what happens ----

    def passed(self, engine: Engine, told: Progress) -> None:
        """The engine has gone on."""
        for sequence in told.started:
            self._has_adapters = self._has_adapters or sequence.adapter is not None
            self._prompt_tokens += sequence.prompt_tokens
            self._cached_tokens += sequence.cached_tokens
            self._ttft.observe(self._wall_s(sequence.queued_s, sequence.first_token_s))
        steps = engine.steps - self._seen_steps
        if steps:
            step_s = (engine.busy_s - self._seen_busy_s) / steps / self._time_scale
            gaps = engine.output_tokens - self._seen_outputs - len(told.started)
            self._itl.observe(step_s, max(0, gaps))
            self._steps.observe((engine.step_tokens - self._seen_tokens) / steps, steps)
        self._seen_steps, self._seen_tokens = engine.steps, engine.step_tokens
        self._seen_outputs, self._seen_busy_s = engine.output_tokens, engine.busy_s

    def ended(self, sequence: Sequence, finish_reason: str) -> None:
        """A sequence has all its tokens."""
        self._finished[finish_reason] += 1
        decode_s = self._wall_s(sequence.first_token_s, sequence.finished_s)
        self._e2e.observe(self._wall_s(sequence.queued_s, sequence.finished_s))
        self._queue.observe(self._wall_s(sequence.queued_s, sequence.scheduled_s))
        self._inference.observe(self._wall_s(sequence.scheduled_s, sequence.finished_s))
        self._prefill.observe(self._wall_s(sequence.scheduled_s, sequence.first_token_s))
        self._decode.observe(decode_s)
        self._tpot.observe(decode_s / max(1, sequence.output_tokens - 1))
        self._prompts.observe(sequence.prompt_tokens)
        self._outputs.observe(sequence.output_tokens)
        self._preempted.observe(sequence.preemptions)

    def aborted(self) -> None:
        """A sequence was dropped: its client left, or the engine is going down."""
        self._finished["abort"] += 1

    def rejected(self) -> None:
        """The queue was full."""
        self._rejected += 1

    @property
    def completed_total(self) -> int:
        """Sequences that got all their tokens."""
        return self._finished["stop"] + self._finished["length"]

    def _wall_s(self, begin_s: float | None, end_s: float | None) -> float:
        assert begin_s is not None
        assert end_s is not None
        return (end_s - begin_s) / self._time_scale

    # ---- the page ----

    def page(self, engine: Engine, sleep_state: str = STATES[0]) -> bytes:
        """The metrics as text."""
        registry = CollectorRegistry()
        registry.register(_Families([*self._families(engine), self._sleeping(sleep_state)]))
        return generate_latest(registry)

    def _families(self, engine: Engine) -> Iterator[Metric]:
        pool = engine.pool
        yield self._gauge("num_requests_running", "requests in the batch", engine.running)
        yield self._gauge("num_requests_waiting", "requests in the queue", engine.waiting)
        by_reason = GaugeMetricFamily(
            "vllm:num_requests_waiting_by_reason", "", labels=["model_name", "engine", "reason"]
        )
        by_reason.add_metric([*self._labels, "capacity"], engine.waiting)
        by_reason.add_metric([*self._labels, "deferred"], 0)
        yield by_reason
        yield self._gauge("kv_cache_usage_perc", "KV blocks in use, 0 to 1", 1 - pool.free / pool.total)
        yield self._counter("prefix_cache_queries", "prompt tokens looked up", self._prompt_tokens)
        yield self._counter("prefix_cache_hits", "prompt tokens found cached", self._cached_tokens)
        yield self._counter("prompt_tokens", "prefill tokens processed", self._prompt_tokens)
        yield self._counter("prompt_tokens_cached", "prefill tokens from the cache", self._cached_tokens)
        yield self._counter("generation_tokens", "generated tokens", engine.output_tokens)
        yield self._counter("num_preemptions", "preemptions", engine.preemptions)
        yield self._counters("request_success", "finished_reason", self._finished)
        yield self._counters("admission_rejections", "reason", {"max_num_queued_reqs": self._rejected})
        yield _cache_config(engine)
        if self._has_adapters:
            yield _adapters(engine)
        for histogram in (
            *(self._ttft, self._itl, self._tpot, self._e2e, self._queue, self._inference, self._prefill),
            *(self._decode, self._prompts, self._outputs, self._steps, self._preempted),
        ):
            family = HistogramMetricFamily(
                f"vllm:{histogram.name}",
                f"Histogram of {histogram.documentation}.",
                labels=["model_name", "engine"],
            )
            family.add_metric(self._labels, histogram.buckets(), histogram.sum)
            yield family

    def _sleeping(self, state: str) -> Metric:
        family = GaugeMetricFamily(
            "vllm:engine_sleep_state",
            "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake;"
            " weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
            labels=["model_name", "engine", "sleep_state"],
        )
        for each in STATES:
            family.add_metric([*self._labels, each], each == state)
        return family

    def _gauge(self, name: str, documentation: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", documentation, labels=["model_name", "engine"])
        family.add_metric(self._labels, value)
        return family

    def _counter(self, name: str, documentation: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", documentation, labels=["model_name", "engine"])
        family.add_metric(self._labels, value)
        return family

    def _counters(self, name: str, label: str, values: dict[str, int]) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", "", labels=["model_name", "engine", label])
        for key, value in values.items():
            family.add_metric([*self._labels, key], value)
        return family


def _cache_config(engine: Engine) -> Metric:
    # As in vLLM it has no model_name.
    family = GaugeMetricFamily(
        "vllm:cache_config_info",
        "Information of the LLMEngine CacheConfig",
        labels=["block_size", "enable_prefix_caching", "engine", "num_gpu_blocks"],
    )
    limits = engine.limits
    values = [str(limits.block_tokens), str(limits.prefix_caching), "0", str(limits.kv_blocks)]
    family.add_metric(values, 1)
    return family


def _adapters(engine: Engine) -> Metric:
    # The value is the moment of writing, and the series appears with the first adapter: as in vLLM.
    family = GaugeMetricFamily(
        "vllm:lora_requests_info",
        "Running stats on lora requests.",
        labels=["max_lora", "running_lora_adapters", "waiting_lora_adapters"],
    )
    running, waiting = (
        ",".join(map(str, names)) for names in (engine.adapters_running, engine.adapters_waiting)
    )
    family.add_metric([str(engine.limits.max_adapters), running, waiting], time.time())
    return family


class _Families:
    """What a registry asks its collectors for."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families
