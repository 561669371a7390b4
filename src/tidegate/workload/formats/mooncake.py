"""Mooncake traces: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids`` a line.

One hash id for each 512 tokens of the prompt, the last block perhaps partial. aiperf reads and writes the
same form, with fractions of milliseconds and lines without ``hash_ids``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tidegate.workload.arrival import BadValue
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.fields import hashes, integer, number, parsed, text
from tidegate.workload.formats.reading import Reading, Source, each_row, not_negative, numbered
from tidegate.workload.traces import BLOCK_TOKENS, Trace


def read(source: Source, block_tokens: int = BLOCK_TOKENS) -> Reading:
    """Moments as the file has them, from its own start."""
    builder = TraceBuilder(block_tokens)

    def take(row: str) -> None:
        line = parsed(row)
        missing = [name for name in ("timestamp", "input_length", "output_length") if name not in line]
        if missing:
            message = f"{' and '.join(missing)} missing"
            raise BadValue(message)
        builder.add(
            not_negative(number(line["timestamp"], "timestamp"), "timestamp") / 1_000.0,
            integer(line["input_length"], "input_length"),
            integer(line["output_length"], "output_length"),
            session=text(line.get("session_id"), "session_id"),
            prefix_hashes=hashes(line.get("hash_ids"), "hash_ids"),
        )

    broken = each_row(numbered(source), take)
    return Reading(builder.build(), broken)


def lines(trace: Trace) -> Iterator[str]:
    """The trace in this form, to the microsecond; what the form has no field for is left out.

    Raises ValueError when a length is not known: the form cannot say so.
    """
    if not trace.is_complete:
        raise ValueError("a Mooncake trace needs every length; fill them in first")
    for arrival in trace:
        ms = round(arrival.arrived_s * 1_000.0, 3)
        line: dict[str, object] = {
            "timestamp": int(ms) if ms.is_integer() else ms,
            "input_length": arrival.prompt_tokens,
            "output_length": arrival.output_tokens,
        }
        if trace.prefixes is not None:
            line["hash_ids"] = list(arrival.prefix_hashes)
        if arrival.session is not None:
            line["session_id"] = arrival.session
        yield json.dumps(line) + "\n"
