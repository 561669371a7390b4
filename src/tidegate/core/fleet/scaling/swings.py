"""No flapping, by construction: every change of direction is paid for from an account that fills slowly.

Up is never held back: a promise is worth more. So a step up soon after a step down puts the account into debt, and a step
down soon after one up is not made while there is nothing in it. The number of changes of direction within any span is
then at most what the account holds and what is paid in meanwhile, twice over.
"""

from __future__ import annotations

SOON_S = 600.0
"""A step against the one before it is a change of direction when it comes so soon."""
HELD = 2.0
LEADS = 7.0
"""One change of direction is paid in after so many lead times: with a start of 100 s each 12 minutes."""
LEAST_S = 60.0


class Swings:
    """The account of one model."""

    def __init__(self, now_s: float) -> None:
        self._left = HELD
        self._paid_s = now_s
        self._last: tuple[float, bool] | None = None
        """The last step: when, and whether it was up."""

    def __repr__(self) -> str:
        return f"<Swings left={self._left:.2f}>"

    def step(self, now_s: float, lead_s: float, *, is_up: bool) -> None:
        """A step is made."""
        self._pay(now_s, lead_s)
        if self._against(now_s, is_up=is_up):
            self._left -= 1.0
        self._last = now_s, is_up

    def may_fall(self, now_s: float, lead_s: float) -> bool:
        """A step down can be afforded."""
        self._pay(now_s, lead_s)
        return self._left >= (1.0 if self._against(now_s, is_up=False) else 0.0)

    def falls_at_s(self, now_s: float, lead_s: float) -> float | None:
        """When a step down will be affordable; None when it is now."""
        if self.may_fall(now_s, lead_s):
            return None
        each_s = max(LEAST_S, LEADS * lead_s)
        even_s = now_s + max(0.0, -self._left) * each_s
        if self._last is None or not self._against(now_s, is_up=False):
            return even_s
        return min(now_s + (1.0 - self._left) * each_s, max(even_s, self._last[0] + SOON_S))

    def _against(self, now_s: float, *, is_up: bool) -> bool:
        return self._last is not None and self._last[1] is not is_up and now_s - self._last[0] <= SOON_S

    def _pay(self, now_s: float, lead_s: float) -> None:
        self._left = min(HELD, self._left + (now_s - self._paid_s) / max(LEAST_S, LEADS * lead_s))
        self._paid_s = now_s
