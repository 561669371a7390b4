"""A forecast held against what came, beside the naive one: whether it is to be believed.

Both are judged by pinball loss at the same quantile (Koenker and Bassett, 1978), fading with a half-life of a day.
"""

from __future__ import annotations

from collections import deque

from tidegate.core.knowledge import KnownRates, is_sane

HALF_LIFE_S = 86_400.0
KEPT = 96
PROVEN_AFTER = 36
"""Comparisons: three hours of them."""
BETTER = 0.95
"""Of the naive one's loss, what the forecast's may be at most to be believed; once believed, as much."""


class BackTest:
    """The account of one forecast."""

    def __init__(self, risk: float, every_s: float) -> None:
        """``risk`` is how often more may come than was said; something comes ``every_s``."""
        self._risk, self._every_s = risk, every_s
        self._fade = 0.5 ** (every_s / HALF_LIFE_S)
        self._claims: deque[tuple[float, float, float]] = deque()
        """For when, what is provided for with the forecast, and what without it."""
        self._loss = self._naive_loss = 0.0
        self._compared = 0
        self.is_believed = False
        """It has lately done better than what is provided for without it."""

    def __repr__(self) -> str:
        return f"believed={self.is_believed} loss={self._loss:.3g} naive={self._naive_loss:.3g}"

    def claim(self, at_s: float, said: float, stays: float) -> None:
        """For then this is expected, where otherwise ``stays`` would be provided for."""
        self._claims.append((at_s, max(said, stays), stays))

    def compare(self, came: float, now_s: float) -> None:
        """So much has come: judge what was claimed for now."""
        while self._claims and self._claims[0][0] <= now_s:
            at_s, said, stays = self._claims.popleft()
            if at_s <= now_s - 2 * self._every_s:
                continue  # nobody looked when it was due
            self._loss = self._fade * self._loss + self._pinball(said, came)
            self._naive_loss = self._fade * self._naive_loss + self._pinball(stays, came)
            self._compared += 1
        if self._compared >= PROVEN_AFTER:
            limit = self._naive_loss * (1.0 if self.is_believed else BETTER)
            self.is_believed = self._loss < limit

    @property
    def account(self) -> tuple[tuple[tuple[float, float, float], ...], float, float, int, bool]:
        """Claims, both losses, how many comparisons, and whether it is believed: what outlives a process."""
        return tuple(self._claims), self._loss, self._naive_loss, self._compared, self.is_believed

    def restore(self, known: KnownRates, *, is_recent: bool) -> None:
        """Go on from what a former process knew. ``is_recent``: its claims are still to be judged."""
        if is_recent:
            self._claims.extend(claim for claim in known.claims[-KEPT:] if all(map(is_sane, claim)))
        if is_sane(known.loss) and is_sane(known.naive_loss):
            self._loss, self._naive_loss = known.loss, known.naive_loss
            self._compared, self.is_believed = max(0, known.compared), known.is_believed

    def _pinball(self, said: float, came: float) -> float:
        """Too little costs as much more than too much as the risk is small."""
        return (1.0 - self._risk) * (came - said) if came >= said else self._risk * (said - came)
