"""What waits for one model, first come first served: parcels that join, go on, give up or are spilt."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from tidegate.core.settings import QueueLimits
from tidegate.sim.fluid.amounts import Flowed, Parcel
from tidegate.sim.fluid.spilling import Spilling

CRUMB = 1e-6
"""Of a request: what rounding leaves of a parcel."""


class Line:
    """One model's line, in order of arrival."""

    def __init__(
        self, limits: QueueLimits, timeout_s: float, spilling: Spilling | None, flowed: Flowed
    ) -> None:
        """``flowed`` is told what becomes of those that are not served."""
        self._limits = limits
        self._timeout_s = timeout_s
        self._spilling = spilling
        self._flowed = flowed
        self._parcels: deque[Parcel] = deque()
        self.requests = 0.0
        self.prompt_tokens = self.output_tokens = 0.0
        """Of all that waits."""

    def __repr__(self) -> str:
        return f"<Line requests={self.requests:.1f} parcels={len(self._parcels)}>"

    @property
    def first(self) -> Parcel | None:
        """What has waited longest."""
        return self._parcels[0] if self._parcels else None

    def take(self, count: float) -> Iterator[Parcel]:
        """The first ``count`` requests leave it, by the parcels that they came in."""
        passed = 0.0
        while self._parcels and passed < count - 1e-12:
            parcel = self._parcels[0]
            taken = min(parcel.requests, count - passed)
            part = taken / parcel.requests
            prompts, outputs = parcel.prompt_tokens * part, parcel.output_tokens * part
            passed += taken
            if parcel.requests - taken < CRUMB:
                self._parcels.popleft()
            else:
                parcel.requests -= taken
                parcel.prompt_tokens -= prompts
                parcel.output_tokens -= outputs
            self._leave(taken, prompts, outputs)
            yield Parcel(parcel.arrived_s, taken, prompts, outputs)

    def arrive(self, parcel: Parcel, now_s: float, span_s: float) -> None:
        """Join the line, as far as there is room in it; the rest is spilt or rejected."""
        flowed = self._flowed
        flowed.requests += parcel.requests
        flowed.prompt_tokens += parcel.prompt_tokens
        limit = self._limits.max_requests * self._limits.class_share
        over = max(0.0, self.requests + parcel.requests - limit)
        # What comes evenly over a slot does not stand in line all at once: only what was there before counts.
        rejected = min(parcel.requests, over) if self.requests >= limit else 0.0
        flowed.rejected += rejected - self._spill(parcel, rejected, 0.0, now_s, span_s)
        kept = 1.0 - rejected / parcel.requests
        if kept > 0:
            self._parcels.append(
                Parcel(
                    parcel.arrived_s,
                    parcel.requests * kept,
                    parcel.prompt_tokens * kept,
                    parcel.output_tokens * kept,
                )
            )
            self.requests += parcel.requests * kept
            self.prompt_tokens += parcel.prompt_tokens * kept
            self.output_tokens += parcel.output_tokens * kept

    def expire(self, now_s: float, span_s: float, *, can_serve: bool) -> None:
        """Who has waited for too long goes."""
        limits = self._limits
        longest_s = min(self._timeout_s, limits.max_wait_busy_s if can_serve else limits.max_wait_starting_s)
        while self._parcels and self._parcels[0].arrived_s < now_s - longest_s:
            gone = self._parcels.popleft()
            self._leave(gone.requests, gone.prompt_tokens, gone.output_tokens)
            waited_s = now_s - gone.arrived_s
            self._flowed.expired += gone.requests - self._spill(gone, gone.requests, waited_s, now_s, span_s)
        if self._spilling is not None and self._spilling.max_wait_s is not None:
            self._spill_waiting(self._spilling.max_wait_s, now_s, span_s)

    def _spill_waiting(self, max_wait_s: float, now_s: float, span_s: float) -> None:
        """Who has waited for so long goes, as far as it may; the rest waits on."""
        for parcel in list(self._parcels):
            waited_s = now_s - parcel.arrived_s
            if waited_s < max_wait_s:
                return
            gone = self._spill(parcel, parcel.requests, waited_s, now_s, span_s)
            if gone <= 0.0:
                return
            part = gone / parcel.requests
            prompts, outputs = parcel.prompt_tokens * part, parcel.output_tokens * part
            parcel.requests -= gone
            parcel.prompt_tokens -= prompts
            parcel.output_tokens -= outputs
            if parcel.requests < CRUMB:
                self._parcels.remove(parcel)
            self._leave(gone, prompts, outputs)

    def _spill(self, parcel: Parcel, requests: float, waited_s: float, now_s: float, span_s: float) -> float:
        """Pass so many of the parcel on, as far as they may go; how many went."""
        if self._spilling is None or requests <= 0.0:
            return 0.0
        return self._spilling.pass_on(parcel, requests, waited_s, self._flowed, now_s, span_s)

    def _leave(self, requests: float, prompts: float, outputs: float) -> None:
        # Where the line is empty there is nothing, whatever rounding says.
        is_left = float(bool(self._parcels))
        self.requests = is_left * max(0.0, self.requests - requests)
        self.prompt_tokens = is_left * max(0.0, self.prompt_tokens - prompts)
        self.output_tokens = is_left * max(0.0, self.output_tokens - outputs)
