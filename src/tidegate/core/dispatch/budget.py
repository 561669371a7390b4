"""How many extra attempts the fleet can bear: a share of the traffic of the last half minute.

Without a bound an outage of half the fleet doubles the load on the other half.
"""

from __future__ import annotations

from tidegate.core.windows import RateWindow

SPAN_S = 30


class Arrivals:
    """The traffic of the last half minute."""

    def __init__(self) -> None:
        self._window = RateWindow(SPAN_S)
        self.arrived = self._window.add
        """A request came in, at this moment."""
        self.total = self._window.total


class Budget:
    """Extra attempts within a share of the arrivals, and a few in any case.

    The few let a quiet fleet survive the death of a whole replica.
    """

    def __init__(self, arrivals: Arrivals, floor: float) -> None:
        self._arrivals = arrivals
        self._floor = floor
        self._spent = RateWindow(SPAN_S)

    def take(self, now_s: float, share: float) -> bool:
        """Spend one, if there is one."""
        allowed = self._floor + share * self._arrivals.total(now_s)
        if self._spent.total(now_s) + 1.0 > allowed:
            return False
        self._spent.add(now_s)
        return True
