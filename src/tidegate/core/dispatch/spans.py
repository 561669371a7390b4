"""What is counted of one model between two reports to the controller, and for ever."""

from __future__ import annotations

from tidegate.core.effects import Record
from tidegate.core.outcomes import Outcome
from tidegate.core.types import LatencySummary
from tidegate.core.windows import MinuteSamples, Samples, percentile

SAMPLES_MAX = 512
"""Latencies kept between two reports; at 20,000 requests a second sorting them all would cost more
than the report is worth."""

REFUSED = frozenset(
    {
        Outcome.REJECTED_FULL,
        Outcome.REJECTED_LATE,
        Outcome.REJECTED_NOBODY,
        Outcome.EXPIRED_QUEUED,
        Outcome.EXPIRED_NOBODY,
    }
)
"""With more replicas these would have been answered."""


class Span:
    """Totals that only grow, and what was seen since the last report."""

    __slots__ = (
        "_e2e_s",
        "_peak",
        "_tpot_minute_s",
        "_ttft_minute_s",
        "_ttft_s",
        "arrivals_total",
        "ended_total",
        "last_active_s",
        "output_tokens_total",
        "prompt_tokens_total",
        "refused_total",
    )

    def __init__(self) -> None:
        self.arrivals_total = 0
        self.ended_total = 0
        self.prompt_tokens_total = 0
        self.output_tokens_total = 0
        self.refused_total = 0
        self.last_active_s: float | None = None
        self._peak = 0
        self._ttft_s = Samples(SAMPLES_MAX)
        self._e2e_s = Samples(SAMPLES_MAX)
        self._ttft_minute_s = MinuteSamples()
        self._tpot_minute_s = MinuteSamples()

    def __repr__(self) -> str:
        return f"<Span arrivals={self.arrivals_total} ended={self.ended_total} peak={self._peak}>"

    def arrived(self, prompt_tokens: int, now_s: float) -> None:
        """A request came."""
        self.arrivals_total += 1
        self.prompt_tokens_total += prompt_tokens
        self.last_active_s = now_s

    def spilt(self) -> None:
        """A request that was not to be served here went elsewhere."""
        self.refused_total += 1

    def load(self, load: int) -> None:
        """So many are queued or in flight."""
        if load > self._peak:
            self._peak = load

    def ended(self, record: Record, now_s: float, *, answered: bool, streams: bool) -> None:
        """A request has ended."""
        self.ended_total += 1
        self.last_active_s = now_s
        if record.spilt_cost is not None:
            return  # Counted when it went; how fast others are says nothing of our replicas.
        if not answered:
            self.refused_total += record.outcome in REFUSED
            return
        tokens = record.output_tokens or 0
        self.output_tokens_total += tokens
        self._e2e_s.add(record.e2e_s)
        if record.ttft_s is None:
            return
        self._ttft_s.add(record.ttft_s)
        if streams:
            self._ttft_minute_s.add(record.ttft_s, now_s)
            if tokens > 1:
                self._tpot_minute_s.add((record.e2e_s - record.ttft_s) / (tokens - 1), now_s)

    def peak(self, load: int) -> int:
        """The largest load since the last report, which is now."""
        peak, self._peak = max(self._peak, load), load
        return peak

    def latency(self, now_s: float) -> LatencySummary:
        """Percentiles since the last report, which is now, and those of the last minute."""
        ttft_s, e2e_s = self._ttft_s.take(), self._e2e_s.take()
        return LatencySummary(
            samples=len(e2e_s),
            ttft_p50_s=percentile(ttft_s, 0.50),
            ttft_p95_s=percentile(ttft_s, 0.95),
            e2e_p50_s=percentile(e2e_s, 0.50),
            e2e_p95_s=percentile(e2e_s, 0.95),
            ttft_p90_s=percentile(self._ttft_minute_s.ordered(now_s), 0.90),
            tpot_p90_s=percentile(self._tpot_minute_s.ordered(now_s), 0.90),
        )
