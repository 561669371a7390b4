"""Azure Functions samples: invocations a minute (2019), or one call a row (2021). They have no tokens.

Each function becomes a model and its owner (2021: its app) a tenant: many small models with idle gaps.
``lengths.filled`` gives the requests lengths.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.core.types import Dice
from tidegate.workload.arrival import BadValue, check_moment
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.reading import (
    Broken,
    Reading,
    Source,
    check_drawn,
    each_row,
    header_of,
    moment,
    numbered,
    real,
    whole,
)
from tidegate.workload.traces import Trace

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class FunctionMinutes:
    """How often one function was called in each minute."""

    owner: str
    function: str
    trigger: str
    per_minute: array[int]

    @property
    def calls(self) -> int:
        return sum(self.per_minute)

    @property
    def active_minutes(self) -> int:
        return sum(1 for calls in self.per_minute if calls)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of one function."""

    app: str
    function: str
    ended_s: float
    duration_s: float


def read_minutes(source: Source) -> tuple[list[FunctionMinutes], Broken]:
    """``HashOwner, HashApp, HashFunction, Trigger``, then one column a minute, named by its number."""
    lines = numbered(source)
    header = header_of(lines)
    owner, function, trigger = header.places("HashOwner", "HashFunction", "Trigger")
    minutes = [place for place, name in enumerate(header.names) if name.isdecimal()]
    functions: list[FunctionMinutes] = []

    def take(row: str) -> None:
        cell = header.split(row)
        counts = [whole(cell[place], header.names[place]) for place in minutes]
        if counts and not 0 <= min(counts) <= max(counts) < 2**31:
            raise BadValue("a count is negative or too large")
        functions.append(FunctionMinutes(cell[owner], cell[function], cell[trigger], array("i", counts)))

    broken = each_row(lines, take)
    return functions, broken


def read_calls(source: Source) -> tuple[list[Call], Broken]:
    """``app, func, end_timestamp, duration``, in seconds."""
    lines = numbered(source)
    header = header_of(lines)
    app, function, ended, duration = header.places("app", "func", "end_timestamp", "duration")
    calls: list[Call] = []

    def take(row: str) -> None:
        cell = header.split(row)
        ended_s, duration_s = real(cell[ended], "end_timestamp"), moment(cell[duration], "duration")
        check_moment(ended_s)
        check_moment(ended_s - duration_s)
        calls.append(Call(cell[app], cell[function], ended_s, duration_s))

    broken = each_row(lines, take)
    return calls, broken


def read_mean_durations(source: Source) -> tuple[array[float], Broken]:
    """The ``Average`` run time of each function, in milliseconds as the file has it."""
    lines = numbered(source)
    header = header_of(lines)
    average = header.place("Average")
    found = array("d")
    broken = each_row(lines, lambda row: found.append(moment(header.split(row)[average], "Average")))
    return found, broken


def trace_of_minutes(functions: list[FunctionMinutes], dice: Dice, rate_scale: float = 1.0) -> Trace:
    """Each minute's calls at random moments of that minute.

    Scaled counts are rounded up or down by chance, so that a function called once an hour does not
    vanish, or come too often, at a tenth of the rate.
    """
    check_drawn(sum(one.calls for one in functions) * rate_scale)
    builder = TraceBuilder()
    for one in functions:
        for moment_s in _moments(one.per_minute, rate_scale, dice):
            builder.add(moment_s, None, None, model=one.function, tenant=one.owner)
    return builder.build()


def read(source: Source, dice: Dice, rate_scale: float = 1.0) -> Reading:
    """Either form as a trace; for calls the moment is when they began, counted from the first."""
    lines = source.split("\n") if isinstance(source, str) else list(source)
    if "Trigger" in header_of(numbered(lines)):
        functions, broken = read_minutes(lines)
        return Reading(trace_of_minutes(functions, dice, rate_scale), broken)
    calls, broken = read_calls(lines)
    builder = TraceBuilder()
    for call in calls:
        builder.add(call.ended_s - call.duration_s, None, None, model=call.function, tenant=call.app)
    return Reading(builder.build(from_first=True), broken)


def _moments(per_minute: array[int], rate_scale: float, dice: Dice) -> Iterator[float]:
    for minute, calls in enumerate(per_minute):
        if calls:
            wanted = calls if rate_scale == 1.0 else math.floor(calls * rate_scale + dice.uniform())
            yield from sorted((minute + dice.uniform()) * MINUTE_S for _ in range(wanted))
