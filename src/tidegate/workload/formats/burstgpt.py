"""BurstGPT: ``Timestamp`` (seconds), ``Model``, ``Request tokens``, ``Response tokens``, and more.

Later files add ``Session ID`` and ``Elapsed time``. An answer of 0 tokens is how the trace marks a request
that failed; how long its answer would have been is not known.
"""

from __future__ import annotations

from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.reading import Reading, Source, each_row, header_of, moment, numbered, whole


def read(source: Source) -> Reading:
    """Moments as the file has them, from its own start."""
    lines = numbered(source)
    header = header_of(lines)
    stamp, prompt, output = header.places("Timestamp", "Request tokens", "Response tokens")
    model = header.place("Model") if "Model" in header else None
    session = header.place("Session ID") if "Session ID" in header else None
    builder = TraceBuilder()

    def take(row: str) -> None:
        cell = header.split(row)
        builder.add(
            moment(cell[stamp], "Timestamp"),
            whole(cell[prompt], "Request tokens"),
            whole(cell[output], "Response tokens") or None,
            model=None if model is None else cell[model].strip() or None,
            session=None if session is None else cell[session].strip() or None,
        )

    broken = each_row(lines, take)
    return Reading(builder.build(), broken)
