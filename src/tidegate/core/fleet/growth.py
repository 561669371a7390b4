"""How fast one model's need for replicas rises, learned: a staircase of (span, replicas) for ``tiers``.

For each span, moments are taken at steady distances. At each of them it is noted how many replicas stood; when
the span is over it is known by how many the need went beyond that within it. So whatever the policy keeps as
headroom counts as covered, and only what it was surprised by is left. Rises from nothing are kept apart: of a
model that sleeps at night they say what a first request needs, and nothing about the second replica at noon. Old
samples fade with a time constant of a day. Nothing is known of a span before one has been seen whole.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import exp

from tidegate.core.knowledge import KnownSpan, is_sane

SPANS_S = (2.0, 5.0, 15.0, 60.0, 150.0, 300.0, 600.0)
"""From the wait that a promise allows to the slowest cold starts."""
STARTS_A_SPAN = 4
"""So many overlapping spans are looked at at once."""
FADES_S = 86_400.0


class Growth:
    """The rises of one model."""

    def __init__(self) -> None:
        self._spans = [_Span(span_s) for span_s in SPANS_S]
        self._need = 0

    def __repr__(self) -> str:
        return f"<Growth {self.staircase(0.05, 0)} {self.staircase(0.05, 1)}>"

    def note(self, need: int, standing: int, now_s: float) -> None:
        """So many replicas are needed now, and so many are there for it."""
        is_up = need > self._need
        self._need = need
        for span in self._spans:
            span.note(need, standing, now_s, is_up=is_up)

    def remember(self) -> tuple[KnownSpan, ...]:
        """What outlives this process; spans that are under way do not."""
        return tuple(span.remember() for span in self._spans)

    def restore(self, known: Iterable[KnownSpan], now_s: float) -> None:
        """Go on from what a former process knew; it fades on as it would have."""
        by_span = {one.span_s: one for one in known}
        for span in self._spans:
            if span.span_s in by_span:
                span.restore(by_span[span.span_s], now_s)

    def staircase(self, risk: float, standing: int) -> tuple[tuple[float, int], ...]:
        """For each span that is known, the rise over what stands that is exceeded in no more than ``risk`` of all
        moments in which as little, or as much, stood."""
        found: list[tuple[float, int]] = []
        most = 0
        for span in self._spans:
            rise = span.quantile(1.0 - risk, standing)
            if rise is None:
                break
            most = max(most, rise)
            found.append((span.span_s, most))
        return tuple(found)


class _Span:
    def __init__(self, span_s: float) -> None:
        self.span_s = span_s
        self._every_s = span_s / STARTS_A_SPAN
        self._open: deque[list[float]] = deque()
        """Start, what stood then, and the largest need since; oldest first."""
        self._next_s: float | None = None
        self._weights: tuple[dict[int, float], dict[int, float]] = ({}, {})
        """How often each rise was seen, from nothing and from something."""
        self._faded_s: float | None = None

    def note(self, need: int, standing: int, now_s: float, *, is_up: bool) -> None:
        while self._open and self._open[0][0] + self.span_s <= now_s:
            _, stood, most = self._open.popleft()
            self._keep(self._weights[stood > 0], max(0, int(most - stood)), now_s)
        if is_up:
            for begun in self._open:
                begun[2] = max(begun[2], need)
        if self._next_s is None or now_s >= self._next_s:
            self._open.append([now_s, standing, need])
            self._next_s = now_s + self._every_s

    def remember(self) -> KnownSpan:
        none, some = (tuple(weights.items()) for weights in self._weights)
        return KnownSpan(self.span_s, none, some, self._faded_s)

    def restore(self, known: KnownSpan, now_s: float) -> None:
        for weights, kept in zip(self._weights, (known.from_none, known.from_some), strict=True):
            weights.update({rise: weight for rise, weight in kept if rise >= 0 and is_sane(weight)})
        self._faded_s = now_s if known.faded_s is None else min(now_s, known.faded_s)

    def quantile(self, q: float, standing: int) -> int | None:
        weights = self._weights[standing > 0]
        if not weights:
            return None
        left = q * sum(weights.values())
        for rise, weight in sorted(weights.items()):
            left -= weight
            if left <= 1e-9:
                return rise
        return max(weights)

    def _keep(self, weights: dict[int, float], rise: int, now_s: float) -> None:
        """Fade in one go, and only when it has become worth it."""
        if self._faded_s is None:
            self._faded_s = now_s
        elif now_s - self._faded_s > FADES_S / 100:
            by = exp(-(now_s - self._faded_s) / FADES_S)
            for side in self._weights:
                faded = {rise: weight * by for rise, weight in side.items() if weight * by > 1e-6}
                side.clear()
                side.update(faded)
            self._faded_s = now_s
        weights[rise] = weights.get(rise, 0.0) + 1.0
