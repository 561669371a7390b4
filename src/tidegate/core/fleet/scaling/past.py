"""One model's recent past over all gateways: means and rates over any span, from running sums.

Gateways report about once a second, and each report is one sample. A level (requests waiting, requests in flight)
holds until the next sample, so its integral over time is kept; a total only grows. Both are running sums, and a mean
or a rate over any span is the difference of two of them: the laws look at spans from six seconds to three minutes, and
each answer is two searches.

Nothing is answered for a time of which nothing is known: a span is cut to what has been seen.
"""

from __future__ import annotations

from array import array
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


class Past:
    """What is known of one model's demand of late: a column of numbers for each figure, a sample in each row.

    Columns and not objects: a large fleet keeps hundreds of thousands of samples, and whoever collects garbage would look
    at each of them, in the middle of a turn.
    """

    def __init__(self) -> None:
        self._at_s = array("d")
        self._queued, self._in_flight = array("d"), array("d")
        """The levels from each sample on."""
        self._queued_s, self._in_flight_s = array("d"), array("d")
        """Their integrals up to it, in request-seconds."""
        self._arrivals, self._prompt_tokens, self._output_tokens = array("d"), array("d"), array("d")
        self._ended, self._refused = array("d"), array("d")
        self._first_s: float | None = None

    def __repr__(self) -> str:
        return f"<Past samples={len(self._at_s)}>"

    @property
    def _columns(self) -> tuple[array[float], ...]:
        return (
            self._at_s,
            self._queued_s,
            self._in_flight_s,
            self._queued,
            self._in_flight,
            self._arrivals,
            self._prompt_tokens,
            self._output_tokens,
            self._ended,
            self._refused,
        )

    def add(self, now_s: float, queued: int, in_flight: int, totals: Totals) -> None:
        """Take a sample. One of the same moment takes the place of the one before."""
        queued_s = in_flight_s = 0.0
        columns = self._columns
        if self._at_s:
            took_s = max(0.0, now_s - self._at_s[-1])
            queued_s = self._queued_s[-1] + took_s * self._queued[-1]
            in_flight_s = self._in_flight_s[-1] + took_s * self._in_flight[-1]
            if took_s == 0.0:
                for column in columns:
                    column.pop()
        else:
            self._first_s = now_s
        sample = (
            now_s,
            queued_s,
            in_flight_s,
            queued,
            in_flight,
            totals.arrivals,
            totals.prompt_tokens,
            totals.output_tokens,
            totals.ended,
            totals.refused,
        )
        for column, figure in zip(columns, sample, strict=True):
            column.append(figure)
        if self._at_s[0] < now_s - KEPT_S and len(self._at_s) > 64:
            self._cut(now_s)

    def seen_s(self, now_s: float) -> float:
        """For how long anything has been known, at most what is kept."""
        return 0.0 if self._first_s is None else min(KEPT_S, now_s - self._first_s)

    @property
    def arrivals(self) -> float | None:
        """Requests that have come in all; None before the first sample."""
        return self._arrivals[-1] if self._arrivals else None

    def mean_queued(self, span_s: float, now_s: float) -> float | None:
        """Requests waiting, the mean over the span."""
        return self._mean(span_s, now_s, self._queued_until)

    def mean_in_flight(self, span_s: float, now_s: float) -> float | None:
        """Requests in flight, the mean over the span."""
        return self._mean(span_s, now_s, self._in_flight_until)

    def mean_concurrency(self, span_s: float, now_s: float) -> float | None:
        """Requests waiting or in flight, the mean over the span."""
        return self._mean(
            span_s, now_s, lambda row, at_s: self._queued_until(row, at_s) + self._in_flight_until(row, at_s)
        )

    def arrivals_per_s(self, span_s: float, now_s: float) -> float | None:
        """Requests that came."""
        return self._rate(span_s, now_s, self._arrivals)

    def output_tokens_per_s(self, span_s: float, now_s: float) -> float | None:
        """Tokens of answers that were completed."""
        return self._rate(span_s, now_s, self._output_tokens)

    def ended_per_s(self, span_s: float, now_s: float) -> float | None:
        """Requests that ended, in whatever way."""
        return self._rate(span_s, now_s, self._ended)

    def refused_per_s(self, span_s: float, now_s: float) -> float | None:
        """Requests that were turned away, or waited in vain."""
        return self._rate(span_s, now_s, self._refused)

    def mean_prompt_tokens(self, span_s: float, now_s: float) -> float | None:
        """Of the requests that came within the span; None when none did."""
        if not self._at_s:
            return None
        first = self._row(span_s, now_s)
        came = self._arrivals[-1] - self._arrivals[first]
        return (self._prompt_tokens[-1] - self._prompt_tokens[first]) / came if came > 0 else None

    def mean_output_tokens(self, span_s: float, now_s: float) -> float | None:
        """Of the answers that were completed within the span; None when none was."""
        if not self._at_s:
            return None
        first = self._row(span_s, now_s)
        answered = self._ended[-1] - self._refused[-1] - (self._ended[first] - self._refused[first])
        return (self._output_tokens[-1] - self._output_tokens[first]) / answered if answered > 0 else None

    def _mean(self, span_s: float, now_s: float, level_s: Callable[[int, float], float]) -> float | None:
        if not self._at_s:
            return None
        first, last = self._row(span_s, now_s), len(self._at_s) - 1
        from_s = max(self._at_s[first], now_s - span_s)
        if now_s <= from_s:
            return level_s(last, self._at_s[last] + 1.0) - level_s(last, self._at_s[last])  # as it is now
        return (level_s(last, now_s) - level_s(first, from_s)) / (now_s - from_s)

    def _rate(self, span_s: float, now_s: float, total: array[float]) -> float | None:
        if not self._at_s:
            return None
        # A total is known at its samples only: the span ends at the last of them. Else a rate would fall and rise between
        # samples that are a minute apart, and be none over ten seconds.
        end_s = self._at_s[-1]
        first = self._row(span_s, end_s)
        took_s = end_s - self._at_s[first]
        return (total[-1] - total[first]) / took_s if took_s > 0.0 else None

    def _row(self, span_s: float, now_s: float) -> int:
        """The sample in force when the span began; the first when that was later."""
        return max(0, bisect_right(self._at_s, now_s - span_s) - 1)

    def _queued_until(self, row: int, at_s: float) -> float:
        return self._queued_s[row] + (at_s - self._at_s[row]) * self._queued[row]

    def _in_flight_until(self, row: int, at_s: float) -> float:
        return self._in_flight_s[row] + (at_s - self._at_s[row]) * self._in_flight[row]

    def _cut(self, now_s: float) -> None:
        # In one go now and then, since it moves all that stays.
        old = bisect_right(self._at_s, now_s - KEPT_S + 120.0) - 1
        if old > 0:
            for column in self._columns:
                del column[:old]
