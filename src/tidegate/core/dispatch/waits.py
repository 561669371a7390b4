"""How long a newcomer will wait for a slot, and how long replicas take: learned from what has happened.

By Little's law the time a request holds a slot is the time that all slots were held, divided by how many
were given back. Counted while it happens, this is right from the first seconds of a burst on, when only
the shortest of its requests have ended. With the mean size of those who wait it gives the queue's speed,
in the same expected tokens in which the work ahead is counted: an estimate that is wrong in one is wrong
in the other, and the wait comes out right.
"""

from __future__ import annotations

from math import exp2

from tidegate.core.windows import percentile

HALF_LIFE_S = 10.0
FEW = 4.0
"""Slots given back below which nothing is concluded."""
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

    def mean(self) -> float:
        """Of the last few; there must be one."""
        return sum(self._values) / len(self._values)

    @property
    def is_due(self) -> bool:
        """Enough has come for percentiles to be read anew."""
        return self._since >= REFRESH_EVERY

    def at(self, ratio: float) -> float | None:
        """The duration that ``ratio`` of the last few did not exceed; None without one."""
        if self._since >= REFRESH_EVERY or len(self._ordered) < min(len(self._values), SAMPLES_FEW):
            self._ordered = sorted(self._values)
            self._since = 0
        return percentile(self._ordered, ratio)


class Turnover:
    """How long slots are held, over all that happens, the last seconds counting most."""

    __slots__ = ("_at_s", "_held", "_held_s", "_left", "_scaled_s")

    def __init__(self) -> None:
        self._held = 0
        """Slots held now."""
        self._held_s = 0.0
        self._left = 0.0
        self._at_s = 0.0
        self._scaled_s = 0.0

    def taken(self, now_s: float) -> None:
        """A slot was taken."""
        self._held_s += self._held * (now_s - self._at_s)
        self._at_s = now_s
        self._held += 1
        if now_s - self._scaled_s > 1.0:
            self._fade(now_s)

    def given_back(self, now_s: float) -> None:
        """A slot was given back."""
        self._held_s += self._held * (now_s - self._at_s)
        self._at_s = now_s
        self._held -= 1
        self._left += 1.0

    def taken_back(self) -> None:
        """The last slot given back was one whose request goes on elsewhere: that is no turn of it."""
        self._left -= 1.0

    def mean_s(self, now_s: float) -> float | None:
        """How long a slot is held; None when too little is known."""
        if self._left < FEW:
            return None
        held_s = self._held_s + self._held * (now_s - self._at_s)
        return max(1e-3, held_s / self._left)

    def _fade(self, now_s: float) -> None:
        kept = exp2((self._scaled_s - now_s) / HALF_LIFE_S)
        self._held_s *= kept
        self._left *= kept
        self._scaled_s = now_s


class Waits:
    """What one model's requests have shown."""

    __slots__ = ("held", "pace", "turnover")

    def __init__(self) -> None:
        self.turnover = Turnover()
        self.held = Recent()
        """Seconds that answered requests held their slot."""
        self.pace = Recent()
        """Seconds to the first token for each token of the prompt and ``PROMPT_BASE_TOKENS``."""

    def __repr__(self) -> str:
        return f"<Waits {len(self.held)} answers, {len(self.pace)} first tokens>"

    def hold_s(self, now_s: float) -> float | None:
        """How long a slot is held; None when too little is known. Where so few are given back that nothing can be
        concluded from the last seconds, the last answers tell."""
        mean_s = self.turnover.mean_s(now_s)
        if mean_s is None and len(self.held) >= FEW:
            return max(1e-3, self.held.mean())
        return mean_s

    def service_s(self) -> float:
        """Four requests of five hold their slot no longer; 0 when too little is known."""
        return self._known(0.8)

    def least_service_s(self) -> float:
        """In less than this hardly any request has been answered."""
        return self._known(0.1)

    def _known(self, ratio: float) -> float:
        if len(self.held) < SAMPLES_FEW:
            return 0.0
        return self.held.at(ratio) or 0.0
