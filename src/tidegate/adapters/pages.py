"""Reading engines' metrics pages (Prometheus text) without ever mistaking silence for zero.

Pages are long (vLLM's histograms run to a thousand lines) and are read on the loop that relays
streams, so only the lines whose name was asked for are handed to the real parser. Whatever cannot be
read is absent: a page cut short, an HTML error page, a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page."""

    labels: Mapping[str, str]
    value: float


class Page:
    """The samples of one metrics page, by exact name.

    A name with one line that cannot be read is absent as a whole: the sum over the rest would be a
    number that nobody reported.
    """

    def __init__(self, text: str, names: Iterable[str]) -> None:
        wanted = frozenset(names)
        self._samples: dict[str, list[Sample]] = {}
        broken: set[str] = set()
        for line in _whole_lines(text):
            name = line.partition("{")[0].partition(" ")[0]
            # Exact names: num_requests_waiting also begins num_requests_waiting_by_reason.
            if name not in wanted:
                continue
            sample = _sample(line)
            if sample is None:
                broken.add(name)
            else:
                self._samples.setdefault(name, []).append(sample)
        for name in broken:
            self._samples.pop(name, None)

    def __repr__(self) -> str:
        return f"<Page with {', '.join(sorted(self._samples)) or 'nothing readable'}>"

    def samples(self, *names: str) -> list[Sample]:
        """The samples of the first of these names that the page has; empty when it has none."""
        for name in names:
            if name in self._samples:
                return self._samples[name]
        return []

    def total(self, *names: str, by: str | None = None, where: tuple[str, str] | None = None) -> float | None:
        """The sum over all series of the first name present.

        Args:
            names: The current name first, then the ones that older engines use.
            by: Series that agree in this label tell of one and the same thing: the largest counts.
            where: Only series with this label value.
        """
        groups: dict[str, float] = {}
        for number, sample in enumerate(self.samples(*names)):
            if where is not None and sample.labels.get(where[0]) != where[1]:
                continue
            if not _is_count(sample.value):
                return None
            group = str(number) if by is None else sample.labels.get(by, "")
            groups[group] = max(groups.get(group, 0.0), sample.value)
        return sum(groups.values()) if groups else None

    def count(self, *names: str, by: str | None = None, where: tuple[str, str] | None = None) -> int | None:
        """``total`` as a whole number."""
        total = self.total(*names, by=by, where=where)
        return None if total is None else round(total)

    def ratio(self, *names: str, where: tuple[str, str] | None = None) -> float | None:
        """The largest of the series, which must lie between 0 and 1."""
        values = [
            sample.value
            for sample in self.samples(*names)
            if where is None or sample.labels.get(where[0]) == where[1]
        ]
        # A little above 1 is rounding in the engine; much above is a percentage or nonsense.
        if not values or not all(0.0 <= value <= 1.05 for value in values):
            return None
        return min(1.0, max(values))

    def label_total(self, name: str, label: str) -> int | None:
        """The sum of a number that an ``_info`` series carries as a label."""
        values = [number(sample.labels.get(label)) for sample in self.samples(name)]
        known = [value for value in values if value is not None]
        return sum(known) if known and len(known) == len(values) else None

    def label_value(self, name: str, label: str) -> int | None:
        """A number that every series of an ``_info`` metric carries alike, or None."""
        values = {number(sample.labels.get(label)) for sample in self.samples(name)}
        return values.pop() if len(values) == 1 else None


def number(text: str | None) -> int | None:
    """A label's text as a whole number; None when it is absent or says something else."""
    return int(text) if text is not None and text.isdecimal() else None


def _whole_lines(text: str) -> list[str]:
    lines = text.split("\n")
    # The last element is empty on a whole page. On one cut short it is half a line, and half of
    # "12" is "1"; its name alone is kept, which no parser accepts, so that the name counts as broken.
    if lines[-1]:
        lines[-1] = lines[-1].partition("{")[0].partition(" ")[0]
    return lines


def _sample(line: str) -> Sample | None:
    try:
        for family in text_string_to_metric_families(line):
            for sample in family.samples:
                return Sample(sample.labels, float(sample.value))
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return None


def _is_count(value: float) -> bool:
    return math.isfinite(value) and value >= 0.0
