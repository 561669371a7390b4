"""A trace in columns: 16 bytes a row for time and lengths, more only for what the trace records.

Rows are in order of arrival; rows of the same moment keep the order in which they were added. A trace
does not change after ``TraceBuilder.build``; functions such as those of ``scale`` make a new one.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import repeat

from tidegate.core.types import FlowId, ModelId
from tidegate.workload.arrival import Arrival
from tidegate.workload.columns import Blocks, Names

BLOCK_TOKENS = 512
"""Prompt tokens behind one prefix hash, as in the Mooncake traces."""

UNKNOWN = -1
"""Stands for None inside a column of counts; rows and Arrivals never show it."""


class Trace:
    """Requests in order of arrival. Iterate it for ``Arrival`` values, or read its columns.

    An optional column is None when no row has a value for it.
    """

    __slots__ = (
        "adapters",
        "arrived_s",
        "block_tokens",
        "cached_tokens",
        "deadlines_s",
        "models",
        "output_tokens",
        "prefixes",
        "priorities",
        "prompt_tokens",
        "sessions",
        "tenants",
    )

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        self.block_tokens = block_tokens
        self.arrived_s = array("d")
        self.prompt_tokens = array("i")
        self.output_tokens = array("i")
        self.models: Names[ModelId] | None = None
        self.tenants: Names[FlowId] | None = None
        self.priorities: array[int] | None = None
        self.adapters: Names[str] | None = None
        self.sessions: Names[str] | None = None
        self.prefixes: Blocks | None = None
        self.cached_tokens: array[int] | None = None
        self.deadlines_s: array[float] | None = None

    def __repr__(self) -> str:
        return f"<Trace rows={len(self)} span_s={self.span_s:g} complete={self.is_complete}>"

    def __len__(self) -> int:
        return len(self.arrived_s)

    def __iter__(self) -> Iterator[Arrival]:
        return map(
            Arrival,
            self.arrived_s,
            _counts(self.prompt_tokens),
            _counts(self.output_tokens),
            self.models or repeat(None),
            self.tenants or repeat(None),
            self.priorities or repeat(0),
            self.adapters or repeat(None),
            self.sessions or repeat(None),
            self.prefixes or repeat(()),
            repeat(None) if self.cached_tokens is None else _counts(self.cached_tokens),
            repeat(None) if self.deadlines_s is None else _spans(self.deadlines_s),
        )

    def __getitem__(self, row: int) -> Arrival:
        return Arrival(
            self.arrived_s[row],
            _count(self.prompt_tokens[row]),
            _count(self.output_tokens[row]),
            None if self.models is None else self.models[row],
            None if self.tenants is None else self.tenants[row],
            0 if self.priorities is None else self.priorities[row],
            None if self.adapters is None else self.adapters[row],
            None if self.sessions is None else self.sessions[row],
            () if self.prefixes is None else self.prefixes[row],
            None if self.cached_tokens is None else _count(self.cached_tokens[row]),
            None if self.deadlines_s is None else _span(self.deadlines_s[row]),
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Trace)
            and self.block_tokens == other.block_tokens
            and len(self) == len(other)
            and all(mine == theirs for mine, theirs in zip(self, other, strict=True))
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def span_s(self) -> float:
        """From the first arrival to the last; 0 without two rows."""
        return self.arrived_s[-1] - self.arrived_s[0] if self.arrived_s else 0.0

    @property
    def is_complete(self) -> bool:
        """True when every row says how long its prompt and its answer are."""
        return UNKNOWN not in self.prompt_tokens and UNKNOWN not in self.output_tokens

    def take(self, rows: Sequence[int]) -> Trace:
        """These rows, in this order; the caller keeps the order of arrival."""
        taken = Trace(self.block_tokens)
        taken.arrived_s = array("d", map(self.arrived_s.__getitem__, rows))
        taken.prompt_tokens = _taken(self.prompt_tokens, rows)
        taken.output_tokens = _taken(self.output_tokens, rows)
        taken.models = self.models and self.models.take(rows)
        taken.tenants = self.tenants and self.tenants.take(rows)
        taken.adapters = self.adapters and self.adapters.take(rows)
        taken.sessions = self.sessions and self.sessions.take(rows)
        taken.prefixes = self.prefixes and self.prefixes.take(rows)
        taken.priorities = self.priorities and _taken(self.priorities, rows)
        taken.cached_tokens = self.cached_tokens and _taken(self.cached_tokens, rows)
        if self.deadlines_s is not None:
            taken.deadlines_s = array("d", map(self.deadlines_s.__getitem__, rows))
        return taken

    def at(self, arrived_s: array[float]) -> Trace:
        """The same rows at other moments, which must be in order. The other columns are shared."""
        if len(arrived_s) != len(self):
            message = f"{len(arrived_s)} moments for {len(self)} rows"
            raise ValueError(message)
        moved = Trace(self.block_tokens)
        for column in self.__slots__:
            setattr(moved, column, getattr(self, column))
        moved.arrived_s = arrived_s
        return moved


def _taken(column: array[int], rows: Sequence[int]) -> array[int]:
    return array(column.typecode, map(column.__getitem__, rows))


def _count(number: int) -> int | None:
    return None if number == UNKNOWN else number


def _counts(column: array[int]) -> Iterator[int | None]:
    # A column without gaps, which is the usual one, is walked without a test a row.
    return map(_count, column) if UNKNOWN in column else iter(column)


def _span(seconds: float) -> float | None:
    return None if math.isnan(seconds) else seconds


def _spans(column: array[float]) -> Iterator[float | None]:
    return map(_span, column)
