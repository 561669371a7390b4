"""Our own trace format: a CSV with named columns, in any order.

``arrived_s, prompt_tokens, output_tokens`` and, when there is something to say, ``model, tenant, priority,
adapter, session, prefix_hashes, cached_tokens, deadline_s``. An empty cell means not known (or none);
prefix hashes are whole numbers with spaces between them. Columns of other names are passed by.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.workload.arrival import Arrival, BadValue
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.formats.fields import OUTPUT_NAMES, PROMPT_NAMES, Rest
from tidegate.workload.formats.reading import (
    Header,
    Reading,
    Source,
    UnreadableTrace,
    each_row,
    header_of,
    moment,
    numbered,
    real,
    whole,
)
from tidegate.workload.lengths import Recorded
from tidegate.workload.traces import BLOCK_TOKENS, Trace

ARRIVED_NAMES = ("arrived_s", "arrived_at")
TEXTS = ("model", "tenant", "adapter", "session")


def read(source: Source, block_tokens: int = BLOCK_TOKENS) -> Reading:
    """Moments as the file has them, from its own start."""
    lines = numbered(source)
    header = header_of(lines)
    arrived = _place(header, ARRIVED_NAMES)
    prompt, output = _place(header, PROMPT_NAMES), _place(header, OUTPUT_NAMES)
    extras = [(name, header.place(name)) for name in Rest.__annotations__ if name in header]
    builder = TraceBuilder(block_tokens)

    def take(row: str) -> None:
        cell = header.split(row)
        rest = _rest([(name, cell[place].strip()) for name, place in extras]) if extras else Rest()
        builder.add(
            moment(cell[arrived], "arrived_s"),
            _known(cell[prompt], "prompt_tokens"),
            _known(cell[output], "output_tokens"),
            **rest,
        )

    broken = each_row(lines, take)
    return Reading(builder.build(), broken)


def read_lengths(source: Source) -> Recorded:
    """The pairs of lengths of a CSV that may have no moments, to draw from. Broken rows are not drawn."""
    lines = numbered(source)
    header = header_of(lines)
    prompt, output = _place(header, PROMPT_NAMES), _place(header, OUTPUT_NAMES)
    pairs: list[tuple[int, int]] = []

    def take(row: str) -> None:
        cell = header.split(row)
        pairs.append((whole(cell[prompt], "prompt_tokens"), whole(cell[output], "output_tokens")))

    each_row(lines, take)
    return Recorded(pairs)


def lines(trace: Trace) -> Iterator[str]:
    """The trace in this form, header first, without columns that are empty. Reading it gives it back."""
    used = {
        "model": trace.models,
        "tenant": trace.tenants,
        "priority": trace.priorities,
        "adapter": trace.adapters,
        "session": trace.sessions,
        "prefix_hashes": trace.prefixes,
        "cached_tokens": trace.cached_tokens,
        "deadline_s": trace.deadlines_s,
    }
    extras = [name for name, column in used.items() if column is not None]
    yield ",".join(["arrived_s", "prompt_tokens", "output_tokens", *extras]) + "\n"
    for arrival in trace:
        row = [repr(arrival.arrived_s), _cell(arrival.prompt_tokens), _cell(arrival.output_tokens)]
        row += [_extra(arrival, name) for name in extras]
        yield ",".join(row) + "\n"


def _place(header: Header, names: tuple[str, ...]) -> int:
    for name in names:
        if name in header:
            return header.place(name)
    message = f"there is no column {names[0]!r}; the columns are {', '.join(header.names)}"
    raise UnreadableTrace(message)


def _known(cell: str, name: str) -> int | None:
    return whole(cell, name) if cell and not cell.isspace() else None


def _rest(named: list[tuple[str, str]]) -> Rest:
    """The optional fields of a row; empty cells are left out."""
    rest: Rest = {}
    for name, cell in named:
        if not cell:
            continue
        if name in TEXTS:
            rest[name] = cell  # type: ignore[literal-required]
        elif name == "prefix_hashes":
            rest["prefix_hashes"] = tuple(_hash(item) for item in cell.split())
        elif name == "deadline_s":
            rest["deadline_s"] = real(cell, name)
        else:
            rest[name] = whole(cell, name)  # type: ignore[literal-required]
    return rest


def _hash(item: str) -> int:
    # Not through ``whole``: 64 bits do not fit into the 53 that a float keeps exactly.
    if not (item.isdecimal() and item.isascii() and len(item) <= 20):
        message = f"prefix_hashes has {item!r:.40}; whole numbers with spaces between them were expected"
        raise BadValue(message)
    return int(item)


def _extra(arrival: Arrival, name: str) -> str:
    if name == "prefix_hashes":
        return " ".join(map(str, arrival.prefix_hashes))
    return _cell(getattr(arrival, name))


def _cell(value: object) -> str:
    """Text as CSV wants it: quoted when it has a comma or a quote."""
    if value is None:
        return ""
    cell = repr(value) if isinstance(value, float) else str(value)
    if "," in cell or '"' in cell:
        return '"' + cell.replace('"', '""') + '"'
    return cell
