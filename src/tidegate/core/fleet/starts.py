"""May a replica be started now? Two keepers: one for each model's failures, one for the fleet's hour.

A start that fails, or a replica that is ready and dies soon, is tried again after a wait that doubles.
After enough failures in a row the model is *failed*: it keeps its reason, and is tried again, one
replica at a time, when the retry time has passed or its settings have changed. Failed is never for
good, and never at full speed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tidegate.core.settings import Restarts

HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Block:
    """Why nothing can be started at present, and until when; None when no moment is known."""

    rule: str
    because: str
    until_s: float | None


class StartGate:
    """The failures of one model."""

    def __init__(self, restarts: Restarts) -> None:
        self._restarts = restarts
        self.forgive()

    def __repr__(self) -> str:
        return f"<StartGate failures={self._failures} retry_at_s={self._retry_at_s}>"

    @property
    def failures(self) -> int:
        """Failures in a row."""
        return self._failures

    @property
    def has_given_up(self) -> bool:
        """The model is failed; after the retry time one start is tried."""
        return self._failures >= self._restarts.give_up_after

    def configure(self, restarts: Restarts) -> None:
        """Changed settings are a new chance: perhaps they were the fix."""
        self._restarts = restarts
        self.forgive()

    def forgive(self) -> None:
        """A replica has served long enough, or the settings changed: start from nothing."""
        self._failures = 0
        self._retry_at_s: float | None = None
        self._reason = ""
        self._wave = -1
        """The newest replica at the time of the last failure."""
        self._is_proven = True

    def succeed(self) -> None:
        """A replica became ready: starting works, so more than one may be started at once.

        The count stays until it has served for a while: ready and dead soon after is a failure too.
        """
        self._is_proven = True

    def fail(self, number: int, highest: int, reason: str, now_s: float) -> None:
        """Replica ``number`` failed, when ``highest`` was the newest one launched.

        Replicas launched before the last failure are of the same wave. Five started together by one
        wrong command are one failure, or the first mistake would already be the last.
        """
        self._reason = reason
        self._is_proven = False
        if number <= self._wave:
            return
        self._wave = highest
        self._failures += 1
        self._retry_at_s = now_s + self._wait_s()

    def block(self, now_s: float) -> Block | None:
        """What forbids a start now; None when nothing does."""
        if self._retry_at_s is None or now_s >= self._retry_at_s:
            return None
        if self.has_given_up:
            because = f"it failed {self._failures} times in a row, last: {self._reason}"
            return Block("failed", because, self._retry_at_s)
        return Block("back-off", f"it failed, last: {self._reason}", self._retry_at_s)

    def allowed(self, missing: int, coming_up: int, now_s: float) -> int:
        """How many of the missing replicas may be started now. After a failure, one at a time."""
        if self.block(now_s):
            return 0
        return missing if self._is_proven else max(0, min(missing, 1 - coming_up))

    def _wait_s(self) -> float:
        restarts = self._restarts
        if self.has_given_up:
            return restarts.retry_failed_s
        # Not 2 ** failures: with a large give-up count that number has no end.
        wait_s = restarts.backoff_first_s
        for _ in range(self._failures - 1):
            wait_s = min(2 * wait_s, restarts.backoff_max_s)
        return min(wait_s, restarts.backoff_max_s)


class StartBudget:
    """Starts of the whole fleet within the last hour, as a rolling one."""

    def __init__(self) -> None:
        self._started_s: deque[float] = deque()

    def __repr__(self) -> str:
        return f"<StartBudget {len(self._started_s)} in the last hour>"

    def note(self, now_s: float) -> None:
        """A replica is being started."""
        while self._started_s and self._started_s[0] + HOUR_S <= now_s:
            self._started_s.popleft()
        self._started_s.append(now_s)

    def restore(self, ages_s: Iterable[float], now_s: float) -> None:
        """Starts of a former controller, by how long ago they were."""
        known = [now_s - age_s for age_s in ages_s if 0 <= age_s < HOUR_S]
        self._started_s = deque(sorted([*known, *self._started_s]))

    def ages_s(self, now_s: float) -> tuple[float, ...]:
        """How long ago each start of the last hour was."""
        return tuple(now_s - started_s for started_s in self._started_s if started_s + HOUR_S > now_s)

    def used(self, now_s: float) -> int:
        """Starts within the last hour."""
        left_the_hour = 0
        for started_s in self._started_s:  # in order of time
            if started_s + HOUR_S > now_s:
                break
            left_the_hour += 1
        return len(self._started_s) - left_the_hour

    def left(self, per_hour: int, now_s: float) -> int:
        """How many more may be started now."""
        return max(0, per_hour - self.used(now_s))

    def free_at_s(self, per_hour: int, now_s: float) -> float | None:
        """When the next start is allowed: now, later, or None for never."""
        used = self.used(now_s)
        if used < per_hour:
            return now_s
        # Of those that count, the first ``used - per_hour + 1`` must have left the hour.
        oldest_that_counts = len(self._started_s) - used
        last_to_leave = oldest_that_counts + used - per_hour
        return self._started_s[last_to_leave] + HOUR_S if per_hour > 0 else None
