"""How long to wait before trying again, and how many retries the fleet can bear."""

from __future__ import annotations

from tidegate.core.windows import RateWindow

DRAIN_SPAN_S = 30
RETRY_AFTER_MIN_S = 1.0
RETRY_AFTER_MAX_S = 60.0
"""OpenAI's client obeys up to 60 s in its older releases and stops retrying above."""

RETRY_SHARE = 0.10
RETRY_FLOOR = 20.0
RETRY_REFILL_PER_S = 1.0


def clamp_retry_after(wait_s: float) -> float:
    """Within what clients obey."""
    return min(RETRY_AFTER_MAX_S, max(RETRY_AFTER_MIN_S, wait_s))


def retry_after_full(queued: int, drained: RateWindow, now_s: float) -> float:
    """When a place in a full queue can be expected: half the queue at the measured drain rate.

    Half, because a client that returns only when the whole queue has drained finds idle replicas.
    The shortest wait when nothing has drained yet and nothing is known.
    """
    rate_per_s = drained.per_s(now_s)
    if not rate_per_s:
        return RETRY_AFTER_MIN_S if rate_per_s is None else RETRY_AFTER_MAX_S
    return clamp_retry_after(0.5 * queued / rate_per_s)


def retry_after_nobody(expected_ready_s: float | None, now_s: float) -> float:
    """When somebody is expected to serve; a third of the longest wait when nothing is known."""
    if expected_ready_s is None:
        return clamp_retry_after(RETRY_AFTER_MAX_S / 3)
    return clamp_retry_after(expected_ready_s - now_s)


class RetryBudget:
    """A token bucket that arrivals fill: retries stay below a tenth of the traffic.

    Without it an outage of half the fleet doubles the load on the other half. A floor of 20 lets a
    quiet fleet survive the death of a whole replica.
    """

    def __init__(self) -> None:
        self._tokens = RETRY_FLOOR
        self._at_s: float | None = None

    def arrived(self) -> None:
        """A request came in: a tenth of a retry is earned."""
        if self._tokens < RETRY_FLOOR:
            self._tokens += RETRY_SHARE

    def take(self, now_s: float) -> bool:
        """Spend one retry, if there is one."""
        if self._at_s is not None:
            self._tokens = min(RETRY_FLOOR, self._tokens + (now_s - self._at_s) * RETRY_REFILL_PER_S)
        self._at_s = now_s
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
