"""Sliding counts and sums over the last seconds, in buckets, without a clock."""

from __future__ import annotations

MINUTE_STEP_S = 10.0
MINUTE_STEPS = 6
MINUTE_STEP_SAMPLES = 48
"""288 in all: a P90 of them is within two points of the true one."""
MINUTE_FRESH_S = 5.0
"""Sorting them for each report took a twentieth of all the time of a simulation."""


class RateWindow:
    """How often something happened in the last ``span_s`` seconds.

    Buckets of one second: an answer is exact to within one bucket, and adding costs no more than a
    comparison and an addition. A pause longer than the span leaves nothing behind.
    """

    __slots__ = ("_counts", "_first_s", "_newest", "_span")

    def __init__(self, span_s: int) -> None:
        self._span = span_s
        self._counts = [0.0] * span_s
        self._newest: int | None = None
        self._first_s: float | None = None

    def add(self, now_s: float, amount: float = 1.0) -> None:
        """Count ``amount`` at ``now_s``."""
        bucket = int(now_s)
        if bucket != self._newest:
            self._forget_until(bucket)
            if self._first_s is None:
                self._first_s = now_s
        self._counts[bucket % self._span] += amount

    def per_s(self, now_s: float) -> float | None:
        """Mean rate over the span, or over the time since the first count when that is shorter.

        None until something has been counted.
        """
        if self._first_s is None:
            return None
        self._forget_until(int(now_s))
        seen_s = min(float(self._span), max(1.0, now_s - self._first_s))
        return sum(self._counts) / seen_s

    def total(self, now_s: float) -> float:
        """What was counted within the span."""
        self._forget_until(int(now_s))
        return sum(self._counts)

    def _forget_until(self, bucket: int) -> None:
        if self._newest is None:
            self._newest = bucket
            return
        if bucket <= self._newest:
            return
        for passed in range(self._newest + 1, min(bucket, self._newest + self._span) + 1):
            self._counts[passed % self._span] = 0.0
        self._newest = bucket


class Samples:
    """A bounded, even choice of what came: every one, then every second, every fourth and so on.

    Without dice, so the same values in the same order keep the same samples.
    """

    __slots__ = ("_every", "_most", "_seen", "_values")

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: list[float] = []
        self._every = 1
        self._seen = 0

    def add(self, value: float) -> None:
        """Keep the value if it is its turn."""
        self._seen += 1
        if self._seen % self._every:
            return
        if len(self._values) >= self._most:
            self._values = self._values[1::2]
            self._every *= 2
            if self._seen % self._every:
                return
        self._values.append(value)

    @property
    def values(self) -> list[float]:
        """The samples in the order in which they came; they stay."""
        return self._values

    def take(self) -> list[float]:
        """The samples in order of size; begins anew."""
        values, self._values = sorted(self._values), []
        self._every, self._seen = 1, 0
        return values


class MinuteSamples:
    """An even choice of what came within the last minute, ten seconds at a time."""

    __slots__ = ("_buckets", "_is_changed", "_newest", "_ordered", "_ordered_s")

    def __init__(self) -> None:
        self._buckets: dict[int, Samples] = {}
        self._newest: int | None = None
        self._ordered: list[float] = []
        self._ordered_s = 0.0
        self._is_changed = False

    def add(self, value: float, now_s: float) -> None:
        """Keep the value, perhaps."""
        bucket = int(now_s / MINUTE_STEP_S)
        if bucket != self._newest:
            self._forget(bucket)
        samples = self._buckets.get(bucket)
        if samples is None:
            samples = self._buckets[bucket] = Samples(MINUTE_STEP_SAMPLES)
        samples.add(value)
        self._is_changed = True

    def ordered(self, now_s: float) -> list[float]:
        """The samples in order of size, as of now or five seconds ago; they stay."""
        bucket = int(now_s / MINUTE_STEP_S)
        if bucket != self._newest:
            self._forget(bucket)
        is_stale = not self._ordered or now_s >= self._ordered_s + MINUTE_FRESH_S
        if self._is_changed and is_stale:
            self._ordered = sorted(value for samples in self._buckets.values() for value in samples.values)
            self._ordered_s, self._is_changed = now_s, False
        return self._ordered

    def _forget(self, bucket: int) -> None:
        self._newest = bucket
        old = [past for past in self._buckets if past <= bucket - MINUTE_STEPS]
        for past in old:
            del self._buckets[past]
        if old:
            self._ordered_s, self._is_changed = -MINUTE_FRESH_S, True


def percentile(ordered: list[float], ratio: float) -> float | None:
    """The value at ``ratio`` (0 to 1) of a sorted list by the nearest-rank rule; None when empty."""
    if not ordered:
        return None
    rank = min(len(ordered) - 1, max(0, -int(-ratio * len(ordered) // 1) - 1))
    return ordered[rank]
