"""How much a choice weighs on others: those who come while it works, and those whose cached prompts it pushes out."""

from __future__ import annotations

from collections.abc import Collection

from tidegate.core.dispatch.routing.load import Load

CROWD_SPAN_S = 1.0
CROWD_STEP = 0.1
BUSY_MOST = 0.6
HALVED_S = 120.0
"""What was written into caches counts half as much after this time."""
SCALED_AFTER_S = 100 * HALVED_S


class Crowd:
    """How many requests come to a replica, and are held up, for each second that something takes there.

    Of a queue whose server is busy for a share ``rho`` of the time, 1 / (1 - rho) feel each delay.
    """

    __slots__ = ("_count", "_since_s", "_work_s", "per_s")

    def __init__(self) -> None:
        self.per_s = 0.0
        self._count = 0
        self._work_s = 0.0
        self._since_s: float | None = None

    def __repr__(self) -> str:
        return f"<Crowd {self.per_s:.2f}/s>"

    def sent(self, work_s: float) -> None:
        """A request whose prompt takes so long was sent to some replica."""
        self._count += 1
        self._work_s += work_s

    def refresh(self, replicas: int, now_s: float) -> None:
        """Take in what was sent since the last time."""
        if self._since_s is None:
            self._since_s = now_s
        span_s = now_s - self._since_s
        if span_s < CROWD_SPAN_S or not replicas:
            return
        busy = min(BUSY_MOST, self._work_s / span_s / replicas)
        per_s = self._count / span_s / replicas / (1.0 - busy)
        self.per_s += CROWD_STEP * (per_s - self.per_s)
        self._count, self._work_s, self._since_s = 0, 0.0, now_s


class Wear:
    """How much was written into each replica's cache of late, beside the others (``Load.recent``)."""

    __slots__ = ("_since_s", "_total", "share")

    def __init__(self) -> None:
        self.share = 0.0
        """One over the mean: times a replica's own ``recent`` it is 1 for one that is used as the others are."""
        self._total = 0.0
        self._since_s: float | None = None

    def __repr__(self) -> str:
        return f"<Wear share={self.share:.3g}>"

    def write(self, load: Load, loads: Collection[Load], now_s: float) -> None:
        """What was written there and not counted yet is counted."""
        if self._since_s is None:
            self._since_s = now_s
        if now_s - self._since_s > SCALED_AFTER_S:
            # Before anything is added: after a quiet weekend the factor below is no number any more.
            factor = 2.0 ** ((self._since_s - now_s) / HALVED_S)
            self._since_s = now_s
            for other in loads:
                other.recent *= factor
            self._total *= factor
        # Old amounts are not made smaller; new ones are made larger.
        amount = load.unwritten * 2.0 ** ((now_s - self._since_s) / HALVED_S)
        load.recent += amount
        self._total += amount
        self._divide(len(loads))

    def refresh(self, loads: Collection[Load]) -> None:
        """Replicas may have come and gone."""
        self._total = sum(load.recent for load in loads)
        self._divide(len(loads))

    def _divide(self, replicas: int) -> None:
        self.share = replicas / self._total if self._total > 0.0 else 0.0
