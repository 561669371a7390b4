"""What comes, and what has become of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Parcel:
    """What arrived in one slot and waits."""

    arrived_s: float
    requests: float
    prompt_tokens: float
    output_tokens: float


@dataclass(slots=True)
class Flowed:
    """What became of the requests so far."""

    requests: float = 0.0
    ended: float = 0.0
    kept: float = 0.0
    """The whole promise."""
    ttft_kept: float = 0.0
    tpot_kept: float = 0.0
    expired: float = 0.0
    rejected: float = 0.0
    failed: float = 0.0
    spilt: float = 0.0
    """Answered by a pay-per-token upstream."""
    spilt_cost: float = 0.0
    prompt_tokens: float = 0.0
    """Of all that arrived."""
    output_tokens: float = 0.0
    """Of answers that are complete."""

    @property
    def over(self) -> float:
        """Requests that have come to an end, whatever end."""
        return self.ended + self.expired + self.rejected + self.failed + self.spilt
