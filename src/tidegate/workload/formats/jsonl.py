"""One JSON object a request, as load generators write them.

Read are vLLM-style logs (``input_toks``, ``output_toks``, ``arrival_time`` in epoch seconds), aiperf's
per-request records (``metadata`` and ``metrics``) and anything with our own field names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tidegate.workload.arrival import BadValue
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.fields import (
    OUTPUT_NAMES,
    PROMPT_NAMES,
    first_of,
    integer,
    number,
    parsed,
    rest_of,
    tokens,
)
from tidegate.workload.formats.reading import Reading, Source, each_row, not_negative, numbered

NS = 1_000_000_000
RELATIVE_S = {"arrived_s": 1.0, "timestamp": 0.001}
"""Moments from the start of the trace; ``timestamp`` is milliseconds, as in Mooncake's and aiperf's traces."""
ABSOLUTE_NS = {"arrival_time": NS, "request_start_ns": 1}
"""Moments of a clock, in nanoseconds a unit: they count from the first request."""


def read(source: Source) -> Reading:
    """Relative moments stay as they are; those of a clock count from the first request."""
    builder = TraceBuilder()
    clock = _Clock()
    left_out = 0

    def take(row: str) -> None:
        nonlocal left_out
        line = parsed(row)
        if "metadata" in line and "metrics" in line:
            line = _flattened(line)
            if line.get("benchmark_phase") == "warmup":
                left_out += 1
                return
        arrived_s, is_absolute = clock.read(line)
        builder.add(arrived_s, tokens(line, PROMPT_NAMES), tokens(line, OUTPUT_NAMES), **rest_of(line))
        clock.keep(is_absolute=is_absolute)

    broken = each_row(numbered(source), take)
    return Reading(builder.build(from_first=clock.is_absolute is True), broken, left_out)


class _Clock:
    """Which kind of moments this file has; the first sound row decides."""

    def __init__(self) -> None:
        self.is_absolute: bool | None = None
        self._base_ns: int | None = None
        self._seen_ns = 0

    def read(self, line: Mapping[str, Any]) -> tuple[float, bool]:
        """A row's moment in seconds, counted from the first sound row when it is a clock's."""
        name = first_of(line, (*RELATIVE_S, *ABSOLUTE_NS))
        if name is None:
            message = f"none of {', '.join((*RELATIVE_S, *ABSOLUTE_NS))} is there"
            raise BadValue(message)
        is_absolute = name in ABSOLUTE_NS
        if self.is_absolute is not None and is_absolute != self.is_absolute:
            message = f"{name} is of another kind than the moments of the rows before"
            raise BadValue(message)
        if not is_absolute:
            return not_negative(number(line[name], name) * RELATIVE_S[name], name), False
        self._seen_ns = _nanoseconds(line[name], name)
        return (self._seen_ns - (self._seen_ns if self._base_ns is None else self._base_ns)) / NS, True

    def keep(self, *, is_absolute: bool) -> None:
        """The row just read was sound."""
        if self.is_absolute is None:
            self.is_absolute, self._base_ns = is_absolute, self._seen_ns


def _nanoseconds(value: object, name: str) -> int:
    if ABSOLUTE_NS[name] == 1:
        return integer(value, name)
    fraction, seconds = math.modf(number(value, name))
    if not math.isfinite(seconds):
        message = f"{name} is {value!r}; a finite number was expected"
        raise BadValue(message)
    # Apart from each other: epoch seconds times a billion would be rounded to multiples of 256 ns.
    return int(seconds) * NS + round(fraction * NS)


def _flattened(line: Mapping[str, Any]) -> dict[str, Any]:
    """An aiperf record as plain fields. A request that failed has no metrics: its lengths are not known."""
    metadata, metrics = line["metadata"], line["metrics"]
    if not isinstance(metadata, dict) or not isinstance(metrics, dict):
        raise BadValue("metadata and metrics must be objects")
    flat = dict(metadata)
    for name, metric in (
        ("input_tokens", "input_sequence_length"),
        ("output_tokens", "output_sequence_length"),
    ):
        value = metrics.get(metric)
        flat[name] = value.get("value") if isinstance(value, dict) else value
    return flat
