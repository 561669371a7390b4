"""How long a newcomer will wait for a slot, and how long replicas take: learned from what has happened.

The queue's speed is measured in tokens for each second and slot while somebody waits, in the same
expected tokens in which the work ahead is counted, so an estimate that is wrong in one is wrong in the
other and the wait comes out right. Until the queue has been seen to move, it is taken from how long
requests hold a slot.
"""

from __future__ import annotations

from math import exp2

from tidegate.core.windows import percentile

HALF_LIFE_S = 10.0
"""Of what was seen of the queue's speed, counted in time in which somebody waited."""
PRIOR_SPANS = 2.0
"""The first estimate weighs as much as so many times that requests hold a slot."""
SAMPLES = 64
SAMPLES_FEW = 20
"""Below this many nobody is turned away for being too late."""
REFRESH_EVERY = 16
"""New samples before percentiles are read anew."""


class Recent:
    """The last few durations and their percentiles."""

    __slots__ = ("_at", "_ordered", "_since", "_values")

    def __init__(self) -> None:
        self._values: list[float] = []
        self._at = 0
        self._ordered: list[float] = []
        self._since = 0

    def __len__(self) -> int:
        return len(self._values)

    def add(self, seconds: float) -> None:
        """One more; the oldest is forgotten."""
        self._since += 1
        if len(self._values) < SAMPLES:
            self._values.append(seconds)
            return
        self._values[self._at] = seconds
        self._at = (self._at + 1) % SAMPLES

    def at(self, ratio: float) -> float | None:
        """The duration that ``ratio`` of the last few did not exceed; None without one."""
        if self._since >= REFRESH_EVERY or len(self._ordered) < min(len(self._values), SAMPLES_FEW):
            self._ordered = sorted(self._values)
            self._since = 0
        return percentile(self._ordered, ratio)


class DrainRate:
    """Tokens that leave the queue for each second and slot while somebody waits."""

    __slots__ = ("_at_s", "_cost", "_slot_s")

    def __init__(self) -> None:
        self._cost = 0.0
        self._slot_s = 0.0
        self._at_s = 0.0

    def begin(self, now_s: float) -> None:
        """Nobody has waited up to now."""
        self._at_s = now_s

    def pass_time(self, now_s: float, slots: int) -> None:
        """Somebody has waited since the last look, beside so many slots."""
        passed_s = now_s - self._at_s
        if passed_s > 0.0:
            kept = exp2(-passed_s / HALF_LIFE_S)
            self._cost *= kept
            self._slot_s = self._slot_s * kept + passed_s * slots
            self._at_s = now_s

    def taken(self, cost: float) -> None:
        """A request of so many expected tokens was sent from the queue."""
        self._cost += cost

    def per_slot_s(self, prior: float | None, prior_slot_s: float) -> float | None:
        """Tokens for each second and slot; None when nothing at all is known."""
        if prior is None:
            return self._cost / self._slot_s if self._slot_s > 0.0 and self._cost > 0.0 else None
        return (self._cost + prior * prior_slot_s) / (self._slot_s + prior_slot_s)


class Waits:
    """What one model's requests have shown."""

    __slots__ = ("drain", "held", "pace")

    def __init__(self) -> None:
        self.drain = DrainRate()
        self.held = Recent()
        """Seconds that answered requests held their slot."""
        self.pace = Recent()
        """Seconds to the first token for each token of the prompt and ``PROMPT_BASE_TOKENS``."""

    def __repr__(self) -> str:
        return f"<Waits {len(self.held)} answers, {len(self.pace)} first tokens>"

    def rate(self, slots: int, mean_work: float | None) -> float | None:
        """Tokens a second that leave the queue; None when not known. ``mean_work``: of one who waits."""
        held_s = self.held.at(0.5)
        if held_s is None or mean_work is None:
            per_slot = self.drain.per_slot_s(None, 0.0)
        else:
            held_s = max(held_s, 1e-3)
            per_slot = self.drain.per_slot_s(mean_work / held_s, PRIOR_SPANS * held_s * slots)
        return None if per_slot is None else per_slot * slots

    def service_s(self) -> float:
        """How long a request holds its slot, usually; 0 when too little is known."""
        return self._known(0.5)

    def least_service_s(self) -> float:
        """In less than this hardly any request has been answered."""
        return self._known(0.1)

    def _known(self, ratio: float) -> float:
        if len(self.held) < SAMPLES_FEW:
            return 0.0
        return self.held.at(ratio) or 0.0
