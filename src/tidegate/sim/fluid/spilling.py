"""What goes to a pay-per-token upstream, as an amount that flows.

The bounds are those of ``core.dispatch.spilling``: money within the hour, requests in flight. A request costs what its
own answer does, which here is known as soon as it goes, so nothing is reserved beyond that.
"""

from __future__ import annotations

from collections import deque

from tidegate.core.dispatch.spillbook import HOUR_S, price
from tidegate.core.settings import SpillBounds
from tidegate.sim.fluid.amounts import Flowed, Parcel
from tidegate.sim.scenario import Slo


class Spilling:
    """One model's upstream."""

    def __init__(self, bounds: SpillBounds, slo: Slo) -> None:
        self.max_wait_s = bounds.max_wait_s
        self._bounds = bounds
        self._slo = slo
        self._spent: deque[tuple[float, float]] = deque()
        """When, and how much, within the last hour."""
        self._money = 0.0
        self._there: deque[tuple[float, float]] = deque()
        """Until when, and how many, in order."""
        self._in_flight = 0.0

    def __repr__(self) -> str:
        return f"<Spilling in_flight={self._in_flight:.1f} within the hour {self._money:.2f}>"

    def pass_on(
        self,
        parcel: Parcel,
        requests: float,
        waited_s: float,
        flowed: Flowed,
        now_s: float,
        span_s: float,
    ) -> float:
        """Pass on so many of the parcel as may go, after such a wait, and book what becomes of them; how many went.

        They come evenly over ``span_s``, so the room in flight is used as often as answers end within it.
        """
        self._forget(now_s)
        bounds, slo = self._bounds, self._slo
        prompt, output = parcel.prompt_tokens / parcel.requests, parcel.output_tokens / parcel.requests
        each = price(bounds, prompt, output)
        takes_s = bounds.ttft_s + max(0.0, output - 1.0) * bounds.tpot_s
        room = max(0.0, bounds.max_in_flight - self._in_flight) * max(1.0, span_s / max(1e-3, takes_s))
        gone = min(requests, room)
        if each > 0.0:
            gone = min(gone, max(0.0, bounds.max_cost_per_h - self._money) / each)
        if gone <= 0.0:
            return 0.0
        self._take(gone, gone * each, takes_s, now_s, span_s)
        in_time, in_pace = waited_s + bounds.ttft_s <= slo.ttft_s, bounds.tpot_s <= slo.tpot_s
        flowed.spilt += gone
        flowed.spilt_cost += gone * each
        flowed.ttft_kept += gone * in_time
        flowed.tpot_kept += gone * in_pace
        flowed.kept += gone * (in_time and in_pace)
        return gone

    def _take(self, gone: float, cost: float, takes_s: float, now_s: float, span_s: float) -> None:
        held = gone * min(1.0, takes_s / span_s)
        self._there.append((now_s + max(takes_s, span_s), held))
        self._in_flight += held
        self._spent.append((now_s, cost))
        self._money += cost

    def _forget(self, now_s: float) -> None:
        while self._spent and self._spent[0][0] <= now_s - HOUR_S:
            self._money = max(0.0, self._money - self._spent.popleft()[1])
        while self._there and self._there[0][0] <= now_s:
            self._in_flight = max(0.0, self._in_flight - self._there.popleft()[1])
