"""Whether a replica may be trusted with more: its circuit breaker and its own "busy".

Both are learned from requests that were sent anyway, and both end by themselves: a worker once marked
and never unmarked is refused for ever. A client's own error (4xx) says nothing about a replica.
"""

from __future__ import annotations

from tidegate.core.events import Failure

REST_S = 1.0
"""How long a replica rests the first time; each time in a row twice as long."""
REST_MAX_S = 16.0

ERRORS_BEFORE_REST = 3
"""Bad or cut-off answers in a row before a replica rests. One alone may be the request's own fault."""
BAD_RATIO = 0.4
"""It also rests when so many of its last answers, the newest counting most, were bad."""
FORGETS = 0.1

AT_ONCE = frozenset({Failure.REFUSED, Failure.CUT, Failure.SILENT, Failure.MALFORMED})
"""Before an answer has begun: nothing that a request could be at fault for."""

RECOVERY_S = 30.0
"""From no slots to all of them after an engine has said that it is busy."""


class Breaker:
    """Closed: everything passes. Open: nothing, until the rest is over. Half-open: a few probes.

    A probe that gets its first byte closes it, one that fails opens it again for twice as long.
    """

    __slots__ = ("_bad_ratio", "_trips", "failures_in_row", "half_open_s", "rests_until_s")

    def __init__(self) -> None:
        self.rests_until_s: float | None = None
        self.half_open_s: float | None = None
        """Since when; what is sent from then on is a probe."""
        self.failures_in_row = 0
        """Since its last good answer, not counting those that came while it rested."""
        self._bad_ratio = 0.0
        self._trips = 0

    def __repr__(self) -> str:
        return f"<Breaker rests_until={self.rests_until_s} half_open={self.half_open_s} trips={self._trips}>"

    @property
    def is_closed(self) -> bool:
        """Nothing is held against it."""
        return self.rests_until_s is None and self.half_open_s is None

    def rests(self, now_s: float) -> bool:
        """True while it gets nothing. A rest that is over is followed by probes."""
        if self.rests_until_s is None:
            return False
        if now_s < self.rests_until_s:
            return True
        self.half_open_s, self.rests_until_s = self.rests_until_s, None
        return False

    def answered(self) -> None:
        """It gave a good answer, or the beginning of one."""
        self.failures_in_row = 0
        self._bad_ratio *= 1.0 - FORGETS
        if self.half_open_s is not None:
            self.half_open_s = None
            self._bad_ratio = 0.0
            self._trips = 0

    def failed(self, now_s: float, *, at_once: bool, is_alone: bool) -> bool:
        """It failed an attempt. True when it rests now.

        ``at_once``: one such failure is enough. ``is_alone``: no other replica could do its work, so it
        never rests for longer than the first time.
        """
        if self.rests_until_s is not None:
            return True  # What was in flight when it tripped is the same news again.
        self.failures_in_row += 1
        self._bad_ratio += FORGETS * (1.0 - self._bad_ratio)
        trips = (
            at_once
            or self.half_open_s is not None
            or self.failures_in_row >= ERRORS_BEFORE_REST
            or self._bad_ratio > BAD_RATIO
        )
        if trips:
            self._trip(now_s, is_alone=is_alone)
        return trips

    def rest(self, now_s: float) -> None:
        """It may not be at fault and still gets nothing for a moment."""
        if self.rests_until_s is None:
            self.rests_until_s = now_s + REST_S

    def _trip(self, now_s: float, *, is_alone: bool) -> None:
        rest_s = REST_S if is_alone else min(REST_MAX_S, REST_S * 2.0**self._trips)
        self._trips = min(self._trips + 1, 8)
        self.rests_until_s = now_s + rest_s
        self.half_open_s = None


class Pressure:
    """How many requests an engine lets itself be given, as learned from its own refusals.

    Told "busy", the limit drops to what it works on; then it rises again at a steady rate.
    """

    __slots__ = ("_low", "_since_s")

    def __init__(self) -> None:
        self._low = 0
        self._since_s: float | None = None

    def __repr__(self) -> str:
        return f"<Pressure low={self._low} since={self._since_s}>"

    def busy(self, in_flight: int, now_s: float) -> None:
        """It refused one more beside so many."""
        self._low = max(1, in_flight)
        self._since_s = now_s

    def limit(self, slots: int, now_s: float) -> int:
        """Requests that it may be given at once."""
        if self._since_s is None:
            return slots
        limit = self._low + int(slots * (now_s - self._since_s) / RECOVERY_S)
        if limit < slots:
            return limit
        self._since_s = None
        return slots

    def next_s(self, slots: int, now_s: float) -> float | None:
        """When the limit rises by one; None when it is not lowered."""
        if self._since_s is None:
            return None
        step_s = RECOVERY_S / max(1, slots)
        return self._since_s + (int((now_s - self._since_s) / step_s) + 1) * step_s
