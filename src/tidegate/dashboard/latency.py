"""Percentiles of the last seconds, from each request as it ends.

A report to the controller covers only the moment since the report before; a page that is read once a
second needs a span that holds still long enough to be looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tidegate.core.effects import Record
from tidegate.core.types import LatencySummary, ModelId
from tidegate.core.windows import percentile

SPAN_S = 10.0
SAMPLES_MAX = 2_000
"""The newest of each model: sorting them takes a fraction of a millisecond, once a second."""


class LatencyWindow:
    """The newest requests of each model that got as far as a first byte."""

    def __init__(self) -> None:
        self._samples: dict[ModelId, deque[tuple[float, float, float]]] = {}

    def __repr__(self) -> str:
        return f"<LatencyWindow {sum(map(len, self._samples.values()))} samples>"

    def record(self, record: Record, now_s: float) -> None:
        """Keep a request that has ended now. Cheap: every request passes here."""
        if record.ttft_s is None:
            return
        samples = self._samples.get(record.model)
        if samples is None:
            samples = self._samples[record.model] = deque(maxlen=SAMPLES_MAX)
        samples.append((now_s, record.ttft_s, record.e2e_s))

    def summaries(self, now_s: float) -> Mapping[ModelId, LatencySummary]:
        """Each model's percentiles over the last ten seconds; a model without a sample is left out."""
        for model, samples in list(self._samples.items()):
            while samples and samples[0][0] < now_s - SPAN_S:
                samples.popleft()
            if not samples:
                del self._samples[model]
        return {model: _summary(samples) for model, samples in self._samples.items()}


def _summary(samples: deque[tuple[float, float, float]]) -> LatencySummary:
    ttft_s = sorted(ttft_s for _, ttft_s, _ in samples)
    e2e_s = sorted(e2e_s for _, _, e2e_s in samples)
    return LatencySummary(
        samples=len(samples),
        ttft_p50_s=percentile(ttft_s, 0.50),
        ttft_p95_s=percentile(ttft_s, 0.95),
        e2e_p50_s=percentile(e2e_s, 0.50),
        e2e_p95_s=percentile(e2e_s, 0.95),
    )
