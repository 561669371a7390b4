"""A fortnight as ServeGen's statistics describe it (Alibaba, arXiv 2505.09999).

Each client has, for each slot of ten minutes, a rate and the shape of its gaps (Gamma or Weibull). Lengths
are drawn from the histogram of the six hours in which the request arrives. ``p2``, the scale in seconds,
is not used: with ``p1`` it gives a mean gap that often differs from 1/rate by much, and the rate is
what the client was counted to send.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tidegate.core.types import Dice
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.curves import RateCurve
from tidegate.workload.gaps import GammaGaps, Gaps, WeibullGaps
from tidegate.workload.lengths import Histogram, Independent, Lengths, Total
from tidegate.workload.traces import Trace

SLOT_S = 600.0
PROMPT_FIELDS = ("input_tokens", "text_tokens", "image_tokens", "audio_tokens", "video_tokens")
"""Whatever a table has of these is added up to the prompt."""


@dataclass(frozen=True, slots=True)
class ClientSlot:
    """One client's ten minutes; slots without a request are not recorded."""

    start_s: float
    rate_per_s: float
    gaps: Gaps


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second of a whole workload, slot by slot."""

    starts_s: tuple[float, ...]
    rates_per_s: tuple[float, ...]

    @property
    def curve(self) -> RateCurve:
        """Level within each slot; a slot that is missing has no requests."""
        knots: list[tuple[float, float]] = []
        for start_s, rate in zip(self.starts_s, self.rates_per_s, strict=True):
            if knots and start_s > knots[-1][0]:
                knots += [(knots[-1][0], 0.0), (start_s, 0.0)]
            knots += [(start_s, rate), (start_s + SLOT_S, rate)]
        return RateCurve(tuple(knots))


@dataclass(frozen=True, slots=True)
class Clients:
    """Every client's slots, by client, in order of time."""

    slots: Mapping[str, tuple[ClientSlot, ...]]

    def expected(self, client: str) -> float:
        """Requests of one client over all its slots."""
        return sum(slot.rate_per_s for slot in self.slots[client]) * SLOT_S

    def shares(self) -> list[float]:
        """Each client's part of all requests, the largest first."""
        counts = sorted((self.expected(client) for client in self.slots), reverse=True)
        total = sum(counts)
        return [count / total for count in counts]


@dataclass(frozen=True, slots=True)
class LengthTable:
    """Histograms of token counts: field, then start of the window in seconds."""

    windows: Mapping[str, Mapping[float, Histogram]]

    def whole(self, field: str) -> Histogram:
        """All windows of one field together."""
        bins: dict[tuple[int, int], float] = {}
        for histogram in self.windows[field].values():
            for low, high, weight in histogram.bins:
                bins[low, high] = bins.get((low, high), 0.0) + weight
        return Histogram(tuple((low, high, weight) for (low, high), weight in sorted(bins.items())))

    def by_window(self) -> list[tuple[float, Lengths]]:
        """What to draw lengths from, with the moment from which on it holds."""
        prompts = [self.windows[field] for field in PROMPT_FIELDS if field in self.windows]
        outputs = self.windows.get("output_tokens", {})
        starts = sorted(set(outputs).intersection(*prompts)) if prompts else []
        if not starts:
            raise ValueError("the length table has no window with both prompt and output tokens")
        return [
            (start_s, Independent(Total(tuple(part[start_s] for part in prompts)), outputs[start_s]))
            for start_s in starts
        ]


@dataclass(frozen=True, slots=True)
class WindowedLengths:
    """Lengths that change with the hours."""

    windows: Sequence[tuple[float, Lengths]]

    def at(self, moment_s: float) -> Lengths:
        """Those of the window that began last; before the first, the first's."""
        place = bisect_right(self.windows, moment_s, key=lambda window: window[0])
        return self.windows[max(0, place - 1)][1]


def fortnight(
    clients: Clients,
    lengths: LengthTable,
    dice: Dice,
    *,
    rate_scale: float = 1.0,
    from_s: float = 0.0,
    until_s: float = float("inf"),
) -> Trace:
    """Requests of all clients, each named as its own tenant, between two moments; ``from_s`` is moment 0.

    ``rate_scale`` stretches every client's gaps, as ServeGen itself does: bursts keep their size in
    requests and last longer.
    """
    hours = WindowedLengths(lengths.by_window())
    streams = []
    for client, slots in clients.slots.items():
        kept = [slot for slot in slots if from_s <= slot.start_s < until_s]
        streams.append(_tagged(_client_moments(kept, rate_scale, dice), client))
    builder = TraceBuilder()
    for moment_s, client in heapq.merge(*streams):
        builder.add(moment_s - from_s, *hours.at(moment_s).draw(dice), tenant=client)
    return builder.build()


def _tagged(moments: Iterator[float], client: str) -> Iterator[tuple[float, str]]:
    return ((moment_s, client) for moment_s in moments)


def _client_moments(slots: Sequence[ClientSlot], rate_scale: float, dice: Dice) -> Iterator[float]:
    """One client's arrivals. The wait counts requests, not seconds, so it carries over from slot to slot."""
    left = None
    for slot in slots:
        rate = slot.rate_per_s * rate_scale
        now_s, end_s = slot.start_s, slot.start_s + SLOT_S
        if left is None:
            left = slot.gaps.first(dice)
        while now_s + left / rate < end_s:
            now_s += left / rate
            yield now_s
            left = slot.gaps.draw(dice)
        left -= (end_s - now_s) * rate


def gaps_named(kind: str, shape: float) -> Gaps:
    """The family that a client table names."""
    if not shape > 0:
        message = f"p1 is {shape:g}; the shape must be above 0"
        raise ValueError(message)
    match kind:
        case "Gamma":
            return GammaGaps(shape)
        case "Weibull":
            return WeibullGaps(shape)
    message = f"arrival is {kind!r}; it must be Gamma or Weibull"
    raise ValueError(message)
