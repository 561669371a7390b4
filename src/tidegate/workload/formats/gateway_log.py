"""The gateway's own request log: one JSON object a request, the fields of ``core.effects.Record`` and
``arrived_s``, the moment of its arrival on the gateway's clock.

Every request that a fleet could have served is demand, whatever became of it. A length that was cut
short by its ending is not known.
"""

from __future__ import annotations

from tidegate.core.outcomes import Outcome
from tidegate.workload.arrival import BadValue
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.fields import number, optional_integer, parsed, rest_of
from tidegate.workload.formats.reading import Reading, Source, each_row, numbered

NO_DEMAND = frozenset(
    {
        Outcome.REJECTED_INVALID,
        Outcome.REJECTED_UNAUTHORISED,
        Outcome.REJECTED_UNKNOWN_MODEL,
        Outcome.REJECTED_TOO_LARGE,
    }
)
"""Refused for the client's own mistake: more replicas would not have helped."""


def read(source: Source) -> Reading:
    """Moments count from the first request that is demand."""
    builder = TraceBuilder()
    left_out = 0

    def take(row: str) -> None:
        nonlocal left_out
        line = parsed(row)
        missing = [name for name in ("arrived_s", "outcome", "prompt_tokens") if name not in line]
        if missing:
            message = f"{' and '.join(missing)} missing"
            raise BadValue(message)
        ended = _outcome(line["outcome"])
        if ended in NO_DEMAND:
            left_out += 1
            return
        output_tokens = optional_integer(line.get("output_tokens"), "output_tokens")
        builder.add(
            number(line["arrived_s"], "arrived_s"),
            optional_integer(line["prompt_tokens"], "prompt_tokens"),
            output_tokens if ended is Outcome.COMPLETED else None,
            **rest_of(line),
        )

    broken = each_row(numbered(source), take)
    return Reading(builder.build(from_first=True), broken, left_out)


def _outcome(value: object) -> Outcome:
    try:
        return Outcome(value)
    except ValueError:
        message = (
            f"outcome is {value!r}; one of {', '.join(outcome.value for outcome in Outcome)} was expected"
        )
        raise BadValue(message) from None
