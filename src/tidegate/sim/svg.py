"""Small drawings over time as SVG text: axes, steps, areas, marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1040, 64, 16, 10, 24
NICE = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of one panel and what its two axes span."""

    end_s: float
    low: float
    high: float
    height: int = 150
    is_log: bool = False

    def x(self, at_s: float) -> float:
        """Where a moment stands."""
        return LEFT + (WIDTH - LEFT - RIGHT) * at_s / (self.end_s or 1.0)

    def y(self, value: float) -> float:
        """Where a value stands; values beyond the axis stand at its end."""
        low, high, value = self.low, self.high, min(max(value, self.low), self.high)
        share = (log10(value / low) / log10(high / low)) if self.is_log else (value - low) / (high - low)
        return TOP + (self.height - TOP - BOTTOM) * (1 - share)

    def axes(self, unit: str) -> str:
        """Grid lines with their labels."""
        parts = []
        for value in log_ticks(self.low, self.high) if self.is_log else ticks(self.low, self.high):
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:g}</text>'
            )
        for at_s, label in time_ticks(self.end_s):
            x = self.x(at_s)
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{self.height - 6}" text-anchor="middle">{label}</text>'
            )
        # The unit stands at the top, inside the frame: a rotated label is hard to read.
        parts.append(f'<text class="unit" x="{LEFT + 4}" y="{TOP + 10}">{escape(unit)}</text>')
        return "".join(parts)


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """A few round values between two others."""
    if high <= low:
        return [low]
    raw = (high - low) / count
    size = 10 ** floor(log10(raw))
    step = size * next(nice for nice in NICE if nice * size >= raw * 0.999)
    first = ceil(low / step - 1e-9)
    return [step * number for number in range(first, floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten between two values."""
    return [10.0**power for power in range(ceil(log10(low) - 1e-9), floor(log10(high) + 1e-9) + 1)]


def time_ticks(end_s: float) -> list[tuple[float, str]]:
    """Moments with labels in minutes, hours or days, as the span asks for."""
    for unit_s, unit, steps in ((86_400, "d", (1, 2, 7)), (3_600, "h", (1, 2, 4, 6, 12)), (60, "min", (1, 2, 5, 10, 15, 30)), (1, "s", (1, 2, 5, 10, 15, 30))):  # fmt: skip
        if end_s >= 2 * unit_s or unit_s == 1:
            fitting = [step for step in steps if end_s / (step * unit_s) <= 12]
            step_s = (fitting[0] if fitting else steps[-1] * ceil(end_s / (steps[-1] * unit_s * 12))) * unit_s
            moments = [step_s * number for number in range(floor(end_s / step_s) + 1)]
            return [(at_s, f"{at_s / unit_s:g} {unit}") for at_s in moments]
    return []


def nice_top(value: float) -> float:
    """A round number at or just above a value, for the top of an axis."""
    if value <= 0:
        return 1.0
    size = 10 ** floor(log10(value))
    return float(next(nice * size for nice in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if nice * size >= value * 0.999))


def steps(frame: Frame, values: Sequence[float | None], slot_s: float) -> str:
    """Path data of a line that keeps each value for its slot; gaps where there is none."""
    parts = []
    is_open = False
    for slot, value in enumerate(values):
        if value is None:
            is_open = False
            continue
        x, y = frame.x(slot * slot_s), frame.y(value)
        parts.append(f"{'L' if is_open else 'M'}{x:.1f},{y:.1f}")
        parts.append(f"H{frame.x(min((slot + 1) * slot_s, frame.end_s)):.1f}")
        is_open = True
    return "".join(parts)


def band(frame: Frame, low: Sequence[float | None], high: Sequence[float | None], slot_s: float) -> str:
    """Path data of the areas between two stepped lines, one for each unbroken run of slots."""
    parts = []
    run: list[int] = []
    for slot in range(len(low) + 1):
        if slot < len(low) and low[slot] is not None and high[slot] is not None:
            run.append(slot)
            continue
        if run:
            parts.append(_area(frame, low, high, slot_s, run))
        run = []
    return "".join(parts)


def _area(
    frame: Frame, low: Sequence[float | None], high: Sequence[float | None], slot_s: float, run: list[int]
) -> str:
    there, back = [], []
    for slot in run:
        left, right = frame.x(slot * slot_s), frame.x(min((slot + 1) * slot_s, frame.end_s))
        above, below = frame.y(high[slot] or 0.0), frame.y(low[slot] or 0.0)
        there.append(f"{left:.1f},{above:.1f} {right:.1f},{above:.1f}")
        back.append(f"{right:.1f},{below:.1f} {left:.1f},{below:.1f}")
    return f"M{' '.join(there)} {' '.join(reversed(back))}Z"
