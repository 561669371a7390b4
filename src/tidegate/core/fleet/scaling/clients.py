"""Clients that wait for an answer before they ask again: as many requests as there are clients, whatever the capacity.

Their rate is what the fleet makes it. More replicas answer sooner, are asked sooner, and look as needed as before; a
backlog that is one by one replaced never gets shorter. They are recognised by this: the time that an answer takes has
changed and what is in flight has not. Clients who do not wait show the opposite (Little's law at a given rate).

Source of the complaint: llm-d's guide to token-aware scaling, which pins at its maximum under such a load.
"""

from __future__ import annotations

from collections import deque
from math import sqrt

from tidegate.core.fleet.scaling.past import Past

LOOK_EVERY_S = 15.0
OVER_S = 60.0
KEPT = 40
"""Looks: ten minutes."""
SEEN = 12
"""Looks before anything is said: the height of a backlog is level for a moment too."""
SAME = 0.06
"""What is there may differ by this share and still be the same."""
OTHER = 1.25
"""Times that the slowest look's answer takes of the quickest one's, and ..."""
BY_CHANCE = 4.0
"""... so many standard deviations more, as few answers in a minute vary by chance."""
LEAST = 4.0
"""So few in flight say nothing."""


class Clients:
    """Whether one model's clients wait."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, float]] = deque(maxlen=KEPT)
        """What was there, and how many answers a second there were."""
        self._next_s = 0.0
        self.wait = False
        """They do."""

    def __repr__(self) -> str:
        return f"<Clients wait={self.wait}>"

    def look(self, past: Past, now_s: float) -> None:
        """Take in how it is now."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + LOOK_EVERY_S
        there, ended = past.mean_concurrency(OVER_S, now_s), past.ended_per_s(OVER_S, now_s)
        if there is None or ended is None or there < LEAST or ended <= 0:
            self._looks.clear()
            self.wait = False
            return
        looks = self._looks
        if looks and abs(there - looks[-1][0]) > SAME * there:
            looks.clear()  # others have come, or some have gone
            self.wait = False
        looks.append((there, ended))
        levels, rates = [level for level, _ in looks], [rate for _, rate in looks]
        is_same = max(levels) - min(levels) <= SAME * max(levels)
        other = OTHER * (1.0 + BY_CHANCE / sqrt(OVER_S * min(rates)))
        self.wait = is_same and (self.wait or (len(looks) >= SEEN and max(rates) >= other * min(rates)))
