"""How long bursts last, so that nothing is bought that will serve nobody.

A burst is a time in which more is asked for than the replicas that serve can do. A replica ordered within it serves a lead
time later; if the burst is over by then it was bought for nothing, and the requests have waited all the same.

The first bursts are always bought for: nothing is known of them. Then P(still there a lead time from now), given that it
has lasted so long already, is the share of the known bursts that were as long, with one more that would be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from tidegate.core.knowledge import is_sane

KEPT = 12
KNOWN_AFTER = 3
WORTH = 0.3
"""Of being needed, the least chance at which one more is bought."""
APART_S = 20.0
"""A pause shorter than this does not end a burst."""
LONG_LEADS = 3.0
"""After so many lead times it is no burst any more but how things are."""


class Spikes:
    """The bursts of one model."""

    def __init__(self) -> None:
        self._lasted_s: deque[float] = deque(maxlen=KEPT)
        self._began_s: float | None = None
        self._last_s = 0.0
        """When there was last more than could be done when it began."""
        self._base = 0.0

    def __repr__(self) -> str:
        return f"<Spikes lasted={[round(one) for one in self._lasted_s]} began_s={self._began_s}>"

    def look(self, needed: float, serving: float, lead_s: float, now_s: float) -> None:
        """So many replicas are needed now, and so many serve."""
        if self._began_s is None:
            if needed > serving:
                self._began_s = self._last_s = now_s
                self._base = serving
            return
        if needed > self._base:
            self._last_s = now_s
        lasted_s = self._last_s - self._began_s
        if now_s > self._last_s + APART_S or lasted_s > LONG_LEADS * lead_s:
            self._lasted_s.append(lasted_s)
            self._began_s = None

    def remember(self) -> tuple[float, ...]:
        """What outlives this process: how long bursts have lasted, in s. One that is under way does not."""
        return tuple(self._lasted_s)

    def restore(self, lasted_s: Iterable[float]) -> None:
        """Go on from what a former process knew."""
        self._lasted_s.extend(filter(is_sane, lasted_s))

    def is_worth(self, lead_s: float, now_s: float) -> bool:
        """What is bought now has a fair chance of being needed when it serves."""
        if self._began_s is None or len(self._lasted_s) < KNOWN_AFTER:
            return True
        age_s = now_s - self._began_s
        as_old = [one for one in self._lasted_s if one >= age_s]
        later = sum(one >= age_s + lead_s for one in as_old)
        return (later + 1) / (len(as_old) + 1) >= WORTH
