"""Azure LLM inference traces: ``TIMESTAMP,ContextTokens,GeneratedTokens``, one request a row."""

from __future__ import annotations

from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.reading import Reading, Source, each_row, header_of, numbered, whole
from tidegate.workload.formats.timestamps import NS, parsed_ns


def read(source: Source) -> Reading:
    """Moments count from the first request."""
    lines = numbered(source)
    header = header_of(lines)
    stamp, prompt, output = header.places("TIMESTAMP", "ContextTokens", "GeneratedTokens")
    builder = TraceBuilder()
    base_ns: int | None = None

    def take(row: str) -> None:
        nonlocal base_ns
        cell = header.split(row)
        at_ns = parsed_ns(cell[stamp])
        lengths = whole(cell[prompt], "ContextTokens"), whole(cell[output], "GeneratedTokens")
        # Counted from one of the rows as whole numbers: only small differences become floats.
        builder.add((at_ns - (at_ns if base_ns is None else base_ns)) / NS, *lengths)
        base_ns = at_ns if base_ns is None else base_ns

    broken = each_row(lines, take)
    return Reading(builder.build(from_first=True), broken)
