"""Readers and writers of trace formats: lines in, ``Reading`` out.

``read`` takes any of them. What a format alone can say (rate tables, clients, run times) is in its own
module. ``named_csv.lines`` and ``mooncake.lines`` write.
"""

from __future__ import annotations

from typing import assert_never

from tidegate.core.types import Dice
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats import (
    azure_functions,
    azure_llm,
    burstgpt,
    gateway_log,
    jsonl,
    mooncake,
    named_csv,
    servegen,
)
from tidegate.workload.formats.guess import LOOKS, Format, guessed, peeked
from tidegate.workload.formats.reading import Broken, Reading, Source, UnreadableTrace, check_drawn
from tidegate.workload.gaps import PoissonGaps
from tidegate.workload.generate import arrival_times
from tidegate.workload.scale import scaled_rate

__all__ = ["LOOKS", "Broken", "Format", "Reading", "Source", "UnreadableTrace", "read"]


def read(source: Source, dice: Dice, form: Format | None = None, rate_scale: float = 1.0) -> Reading:
    """A trace of any format, guessed when none is named, at ``rate_scale`` times its rate.

    Raises UnreadableTrace when it is of no known format, or not of the one that was named. Dice place
    the requests of formats that only count them, and choose those that stay at a lower rate.
    Rates that are only counted are scaled before requests are drawn: a fortnight at a thousandth of its
    rate costs a thousandth.
    """
    first, lines = peeked(source)
    form = form or guessed(first)
    match form:
        case Format.SERVEGEN_RATE:
            return _drawn(lines, dice, rate_scale)
        case Format.AZURE_FUNCTIONS:
            return azure_functions.read(lines, dice, rate_scale)
        case Format.AZURE_LLM:
            reading = azure_llm.read(lines)
        case Format.MOONCAKE:
            reading = mooncake.read(lines)
        case Format.BURSTGPT:
            reading = burstgpt.read(lines)
        case Format.JSONL:
            reading = jsonl.read(lines)
        case Format.CSV:
            reading = named_csv.read(lines)
        case Format.GATEWAY_LOG:
            reading = gateway_log.read(lines)
        case _:
            assert_never(form)
    if rate_scale == 1.0:
        return reading
    return Reading(scaled_rate(reading.trace, rate_scale, dice), reading.broken, reading.left_out)


def _drawn(source: Source, dice: Dice, rate_scale: float) -> Reading:
    """Poisson arrivals along a table of rates; lengths are not known."""
    rates, broken = servegen.read_rates(source)
    builder = TraceBuilder()
    if rates.starts_s:
        curve = rates.curve.scaled(rate=rate_scale)
        check_drawn(curve.expected)
        for moment_s in arrival_times(curve, dice, PoissonGaps()):
            builder.add(moment_s, None, None)
    return Reading(builder.build(), broken)
