"""One model's recent past over all gateways: means and rates over any span, from running sums.

Gateways report about once a second, and each report is one sample. A level (requests waiting, requests in flight)
holds until the next sample, so its integral over time is kept; a total only grows. Both are running sums, and a mean
or a rate over any span is the difference of two of them: the laws look at spans from six seconds to three minutes, and
each answer is two searches.

Nothing is answered for a time of which nothing is known: a span is cut to what has been seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from tidegate.core.values import value

KEPT_S = 1_320.0
"""Twenty minutes and the two that it takes to be cut: SkyServe looks back 1,200 s on the way down."""


@value
class Totals:
    """What has been counted in all, over all gateways."""

    arrivals: int = 0
    prompt_tokens: int = 0
    """Of those that arrived, as estimated at their arrival."""
    output_tokens: int = 0
    ended: int = 0
    refused: int = 0
    """Turned away or given up in the queue: what was asked for and not served."""


@value
class _Sample:
    """Running sums up to a moment, and the levels from there on."""

    at_s: float
    queued_s: float
    """Integral of requests waiting, in request-seconds."""
    in_flight_s: float
    queued: int
    in_flight: int
    totals: Totals


class Past:
    """What is known of one model's demand of late."""

    def __init__(self) -> None:
        self._at_s: list[float] = []
        self._samples: list[_Sample] = []
        self._first_s: float | None = None

    def __repr__(self) -> str:
        return f"<Past samples={len(self._samples)}>"

    def add(self, now_s: float, queued: int, in_flight: int, totals: Totals) -> None:
        """Take a sample. One of the same moment takes the place of the one before."""
        queued_s = in_flight_s = 0.0
        if self._samples:
            last = self._samples[-1]
            took_s = max(0.0, now_s - last.at_s)
            queued_s = last.queued_s + took_s * last.queued
            in_flight_s = last.in_flight_s + took_s * last.in_flight
            if took_s == 0.0:
                self._samples.pop()
                self._at_s.pop()
        else:
            self._first_s = now_s
        self._samples.append(_Sample(now_s, queued_s, in_flight_s, queued, in_flight, totals))
        self._at_s.append(now_s)
        if self._at_s[0] < now_s - KEPT_S and len(self._at_s) > 64:
            self._cut(now_s)

    def seen_s(self, now_s: float) -> float:
        """For how long anything has been known, at most what is kept."""
        return 0.0 if self._first_s is None else min(KEPT_S, now_s - self._first_s)

    def mean_queued(self, span_s: float, now_s: float) -> float | None:
        """Requests waiting, the mean over the span."""
        return self._mean(span_s, now_s, _queued_s)

    def mean_in_flight(self, span_s: float, now_s: float) -> float | None:
        """Requests in flight, the mean over the span."""
        return self._mean(span_s, now_s, _in_flight_s)

    def mean_concurrency(self, span_s: float, now_s: float) -> float | None:
        """Requests waiting or in flight, the mean over the span."""
        return self._mean(span_s, now_s, _concurrency_s)

    def arrivals_per_s(self, span_s: float, now_s: float) -> float | None:
        """Requests that came."""
        return self._rate(span_s, now_s, lambda totals: totals.arrivals)

    def output_tokens_per_s(self, span_s: float, now_s: float) -> float | None:
        """Tokens of answers that were completed."""
        return self._rate(span_s, now_s, lambda totals: totals.output_tokens)

    def ended_per_s(self, span_s: float, now_s: float) -> float | None:
        """Requests that ended, in whatever way."""
        return self._rate(span_s, now_s, lambda totals: totals.ended)

    def refused_per_s(self, span_s: float, now_s: float) -> float | None:
        """Requests that were turned away, or waited in vain."""
        return self._rate(span_s, now_s, lambda totals: totals.refused)

    def mean_prompt_tokens(self, span_s: float, now_s: float) -> float | None:
        """Of the requests that came within the span; None when none did."""
        start, end = self._from(span_s, now_s), self._last()
        if start is None or end is None:
            return None
        arrivals = end.totals.arrivals - start.totals.arrivals
        return (end.totals.prompt_tokens - start.totals.prompt_tokens) / arrivals if arrivals > 0 else None

    def mean_output_tokens(self, span_s: float, now_s: float) -> float | None:
        """Of the answers that were completed within the span; None when none was."""
        start, end = self._from(span_s, now_s), self._last()
        if start is None or end is None:
            return None
        answered = (end.totals.ended - end.totals.refused) - (start.totals.ended - start.totals.refused)
        return (end.totals.output_tokens - start.totals.output_tokens) / answered if answered > 0 else None

    def _mean(self, span_s: float, now_s: float, level_s: Callable[[_Sample, float], float]) -> float | None:
        start, end = self._from(span_s, now_s), self._last()
        if start is None or end is None:
            return None
        from_s = max(start.at_s, now_s - span_s)
        if now_s <= from_s:
            return level_s(end, end.at_s + 1.0) - level_s(end, end.at_s)  # as it is now
        return (level_s(end, now_s) - level_s(start, from_s)) / (now_s - from_s)

    def _rate(self, span_s: float, now_s: float, total: Callable[[Totals], int]) -> float | None:
        end = self._last()
        # A total is known at its samples only: the span ends at the last of them. Else a rate would fall and rise between
        # samples that are a minute apart, and be none over ten seconds.
        start = None if end is None else self._from(span_s, end.at_s)
        if start is None or end is None or end.at_s <= start.at_s:
            return None
        return (total(end.totals) - total(start.totals)) / (end.at_s - start.at_s)

    def _last(self) -> _Sample | None:
        return self._samples[-1] if self._samples else None

    def _from(self, span_s: float, now_s: float) -> _Sample | None:
        """The sample in force when the span began; the first when that was later."""
        if not self._samples:
            return None
        return self._samples[max(0, bisect_right(self._at_s, now_s - span_s) - 1)]

    def _cut(self, now_s: float) -> None:
        # In one go now and then: a deque cannot be searched.
        old = bisect_right(self._at_s, now_s - KEPT_S + 120.0) - 1
        if old > 0:
            del self._at_s[:old], self._samples[:old]


def _queued_s(sample: _Sample, at_s: float) -> float:
    return sample.queued_s + (at_s - sample.at_s) * sample.queued


def _in_flight_s(sample: _Sample, at_s: float) -> float:
    return sample.in_flight_s + (at_s - sample.at_s) * sample.in_flight


def _concurrency_s(sample: _Sample, at_s: float) -> float:
    return _queued_s(sample, at_s) + _in_flight_s(sample, at_s)
