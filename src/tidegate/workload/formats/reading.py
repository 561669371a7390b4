"""What every reader shares: numbered lines, values from cells, and an account of what was broken."""

from __future__ import annotations

import csv
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tidegate.workload.arrival import BadValue
from tidegate.workload.traces import Trace

Source = str | Iterable[str]
"""The whole text, or its lines with or without their ends."""

REASONS_MAX = 100
"""Reasons kept of broken rows; the numbers of their lines are all kept."""


DRAWN_MAX = 50_000_000
"""Requests that a table of counts may be turned into: 0.8 GB of times and lengths."""


class UnreadableTrace(ValueError):
    """Not a trace of the named format, or of any; the message says what was expected."""


@dataclass(slots=True)
class Broken:
    """Rows that were left out because a value in them cannot be. Other rows never suffer from them."""

    lines: array[int] = field(default_factory=lambda: array("q"))
    reasons: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)

    def __str__(self) -> str:
        if not self.lines:
            return "no broken rows"
        named = [f"line {line}: {why}" for line, why in zip(self.lines, self.reasons[:5], strict=False)]
        more = f"; and {len(self) - len(named)} more" if len(self) > len(named) else ""
        return f"{len(self)} broken {'row' if len(self) == 1 else 'rows'}: {'; '.join(named)}{more}"

    def add(self, line: int, because: str) -> None:
        self.lines.append(line)
        if len(self.reasons) < REASONS_MAX:
            self.reasons.append(because)


@dataclass(frozen=True, slots=True)
class Reading:
    """A trace, and what of the file is not in it."""

    trace: Trace
    broken: Broken
    left_out: int = 0
    """Sound rows that are no demand: warm-up of a benchmark, requests refused for the client's mistake."""


def numbered(source: Source) -> Iterator[tuple[int, str]]:
    """Lines with their numbers from 1, without their ends, a byte order mark, and empty ones."""
    lines = source.split("\n") if isinstance(source, str) else source
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        if number == 1:
            text = text.removeprefix("\ufeff")
        if text and not text.isspace():
            yield number, text


def each_row(rows: Iterable[tuple[int, str]], take: Callable[[str], None]) -> Broken:
    """Hand each row to ``take``; one for which it raises BadValue is accounted for and passed by."""
    broken = Broken()
    for number, row in rows:
        try:
            take(row)
        except BadValue as bad:
            broken.add(number, str(bad))
    return broken


def cells(row: str) -> list[str]:
    """The cells of a CSV row. A row is a line: a quote left open must not swallow the next one."""
    if '"' not in row:
        return row.split(",")
    try:
        return next(csv.reader([row], strict=True))
    except csv.Error as error:
        message = f"not a row of cells ({error})"
        raise BadValue(message) from None


class Header:
    """The first row of a CSV file: which cell has which name."""

    def __init__(self, row: str) -> None:
        self.names = [cell.strip() for cell in cells(row)]
        self._place = {name.lower(): place for place, name in enumerate(self.names)}
        self._twice = {name for name, count in Counter(map(str.lower, self.names)).items() if count > 1}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._place

    def place(self, name: str) -> int:
        """Where the column is; UnreadableTrace when there is none of that name, or more than one."""
        if name.lower() in self._twice:
            message = f"there is more than one column {name!r}; the columns are {', '.join(self.names)}"
            raise UnreadableTrace(message)
        try:
            return self._place[name.lower()]
        except KeyError:
            message = f"there is no column {name!r}; the columns are {', '.join(self.names)}"
            raise UnreadableTrace(message) from None

    def places(self, *names: str) -> list[int]:
        return [self.place(name) for name in names]

    def split(self, row: str) -> list[str]:
        """The row's cells, as many as the header has."""
        found = cells(row)
        if len(found) != len(self.names):
            message = f"{len(found)} cells where the header has {len(self.names)}"
            raise BadValue(message)
        return found


def header_of(lines: Iterator[tuple[int, str]]) -> Header:
    """Read the first row as a header."""
    first = next(lines, None)
    if first is None:
        raise UnreadableTrace("the file is empty")
    try:
        return Header(first[1])
    except BadValue as bad:
        raise UnreadableTrace(f"line {first[0]}: {bad}") from None


def whole(text: str, name: str) -> int:
    """A whole number; ``374.0``, as tables of floats write it, is one."""
    if text.isdecimal() and text.isascii() and len(text) < 20:
        return int(text)
    number = real(text, name)
    if not number.is_integer() or abs(number) > 2**53:
        message = f"{name} is {text.strip()!r}; a whole number was expected"
        raise BadValue(message)
    return int(number)


def real(text: str, name: str) -> float:
    """A finite number in plain digits."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    # float() also takes 1_000 and digits of other scripts, which no trace means.
    if not math.isfinite(number) or "_" in text or not text.isascii():
        message = f"{name} is {text.strip()!r}; a number was expected"
        raise BadValue(message)
    return number


def moment(text: str, name: str) -> float:
    """A number of seconds that is not negative."""
    return not_negative(real(text, name), name)


def not_negative(seconds: float, name: str) -> float:
    """The same number, or BadValue."""
    if seconds < 0:
        message = f"{name} is {seconds:g}; it must not be negative"
        raise BadValue(message)
    return seconds


def check_drawn(expected: float) -> None:
    """Raise UnreadableTrace when a table of counts stands for more requests than fit in memory."""
    if expected > DRAWN_MAX:
        ratio = DRAWN_MAX / expected
        message = f"that is {expected:.4g} requests, of at most {DRAWN_MAX:,}; scale the rate by {ratio:.2g} or less"
        raise UnreadableTrace(message)
