"""What a story measured, each figure beside the bound that it must keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. A bound on time says so with its unit: it may be stretched on a busy machine, others never."""

    what: str
    value: float
    unit: str = ""
    at_most: float | None = None
    at_least: float | None = None

    def is_met(self, stretch: float = 1.0) -> bool:
        """Whether the bounds hold; an upper bound on time may be stretched by a factor."""
        factor = stretch if self.is_time else 1.0
        is_low_enough = self.at_most is None or self.value <= self.at_most * factor
        return is_low_enough and (self.at_least is None or self.value >= self.at_least)

    @property
    def is_time(self) -> bool:
        return self.unit in ("s", "ms")

    @property
    def bound(self) -> str:
        """In words; empty without one."""
        if self.at_most is not None and self.at_most == self.at_least:
            return f"= {self.at_most:g}"
        low = "" if self.at_least is None else f"≥ {self.at_least:g}"
        high = "" if self.at_most is None else f"≤ {self.at_most:g}"
        return " and ".join(filter(None, (low, high)))

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "is_met": self.is_met()}

    def __str__(self) -> str:
        return f"{self.what}: {self.value:g} {self.unit}".rstrip() + (
            f" ({self.bound})" if self.bound else ""
        )


def exactly(what: str, value: float, wanted: float) -> Figure:
    """A count that must be this one."""
    return Figure(what, value, at_most=wanted, at_least=wanted)


def never(what: str, value: float) -> Figure:
    """A count of what must not happen."""
    return exactly(what, value, 0)


def some(what: str, value: float) -> Figure:
    """A count that proves that the story was about something."""
    return Figure(what, value, at_least=1)


def quantile(values: Iterable[float], share: float) -> float:
    """The value below which this share lies; NaN, which keeps no bound, when there is none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
