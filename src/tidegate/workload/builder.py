"""Makes a trace row by row; a row is added whole or, with BadValue, not at all."""

from __future__ import annotations

import math
from array import array

from tidegate.core.types import FlowId, ModelId
from tidegate.workload.arrival import (
    Arrival,
    check_hashes,
    check_moment,
    check_name,
    check_rest,
    check_tokens,
)
from tidegate.workload.columns import Blocks, Names, Text
from tidegate.workload.traces import BLOCK_TOKENS, UNKNOWN, Trace


class TraceBuilder:
    """Rows come in any order; ``build`` sorts them by arrival, ties as they came."""

    def __init__(self, block_tokens: int = BLOCK_TOKENS) -> None:
        self._trace = Trace(block_tokens)
        self._is_sorted = True
        self._last_s = -math.inf

    def __repr__(self) -> str:
        return f"<TraceBuilder rows={len(self)} sorted={self._is_sorted}>"

    def __len__(self) -> int:
        return len(self._trace)

    def add(
        self,
        arrived_s: float,
        prompt_tokens: int | None,
        output_tokens: int | None,
        *,
        model: str | None = None,
        tenant: str | None = None,
        priority: int = 0,
        adapter: str | None = None,
        session: str | None = None,
        prefix_hashes: tuple[int, ...] = (),
        cached_tokens: int | None = None,
        deadline_s: float | None = None,
    ) -> None:
        """Add one row with the fields of ``Arrival``, or raise BadValue and add nothing."""
        check_moment(arrived_s)
        check_tokens("prompt_tokens", prompt_tokens)
        check_tokens("output_tokens", output_tokens)
        is_named = not (model is tenant is adapter is session is None)
        if is_named:
            check_name("model", model)
            check_name("tenant", tenant)
            check_name("adapter", adapter)
            check_name("session", session)
        check_hashes(prefix_hashes)
        check_tokens("cached_tokens", cached_tokens)
        check_rest(priority, deadline_s)
        if is_named:
            self._add_names(model, tenant, adapter, session)
        if prefix_hashes or priority or cached_tokens is not None or deadline_s is not None:
            self._add_extras(prefix_hashes, priority, cached_tokens, deadline_s)
        self._add_core(arrived_s, prompt_tokens, output_tokens)

    def append(self, arrival: Arrival) -> None:
        """Add one row from a value."""
        self.add(
            arrival.arrived_s,
            arrival.prompt_tokens,
            arrival.output_tokens,
            model=arrival.model,
            tenant=arrival.tenant,
            priority=arrival.priority,
            adapter=arrival.adapter,
            session=arrival.session,
            prefix_hashes=arrival.prefix_hashes,
            cached_tokens=arrival.cached_tokens,
            deadline_s=arrival.deadline_s,
        )

    def build(self, *, from_first: bool = False) -> Trace:
        """The trace, in order of arrival; the builder is empty afterwards.

        With ``from_first`` the first arrival becomes moment 0: for records that carry a clock's time.
        """
        trace, self._trace = self._trace, Trace(self._trace.block_tokens)
        _pad(trace)
        if not self._is_sorted:
            # sorted() is stable: equal moments keep the order in which the rows were added.
            trace = trace.take(sorted(range(len(trace)), key=trace.arrived_s.__getitem__))
        self._is_sorted, self._last_s = True, -math.inf
        if from_first and trace.arrived_s:
            first_s = trace.arrived_s[0]
            trace = trace.at(array("d", [moment - first_s for moment in trace.arrived_s]))
        return trace

    def _add_core(self, arrived_s: float, prompt_tokens: int | None, output_tokens: int | None) -> None:
        trace = self._trace
        trace.arrived_s.append(arrived_s)
        trace.prompt_tokens.append(UNKNOWN if prompt_tokens is None else prompt_tokens)
        trace.output_tokens.append(UNKNOWN if output_tokens is None else output_tokens)
        if arrived_s < self._last_s:
            self._is_sorted = False
        self._last_s = arrived_s

    # A column begins with the first row that has a value for it, and only those rows touch it: before
    # the value it is padded to the row's number. A plain trace pays for none of them.

    def _add_names(
        self, model: str | None, tenant: str | None, adapter: str | None, session: str | None
    ) -> None:
        trace, row = self._trace, len(self._trace)
        if model is not None:
            trace.models = _named(trace.models, ModelId(model), row)
        if tenant is not None:
            trace.tenants = _named(trace.tenants, FlowId(tenant), row)
        if adapter is not None:
            trace.adapters = _named(trace.adapters, adapter, row)
        if session is not None:
            trace.sessions = _named(trace.sessions, session, row)

    def _add_extras(
        self, hashes: tuple[int, ...], priority: int, cached_tokens: int | None, deadline_s: float | None
    ) -> None:
        trace, row = self._trace, len(self._trace)
        if hashes:
            trace.prefixes = Blocks() if trace.prefixes is None else trace.prefixes
            trace.prefixes.pad(row - len(trace.prefixes))
            trace.prefixes.append(hashes)
        if priority:
            trace.priorities = _numbered(trace.priorities, priority, row, 0)
        if cached_tokens is not None:
            trace.cached_tokens = _numbered(trace.cached_tokens, cached_tokens, row, UNKNOWN)
        if deadline_s is not None:
            column = trace.deadlines_s if trace.deadlines_s is not None else array("d")
            column.extend([math.nan] * (row - len(column)))
            column.append(deadline_s)
            trace.deadlines_s = column


def _named(column: Names[Text] | None, name: Text, row: int) -> Names[Text]:
    column = Names() if column is None else column
    column.pad(row - len(column))
    column.append(name)
    return column


def _numbered(column: array[int] | None, number: int, row: int, absent: int) -> array[int]:
    column = array("i") if column is None else column
    column.extend([absent] * (row - len(column)))
    column.append(number)
    return column


def _pad(trace: Trace) -> None:
    """Bring every column that has begun to the full number of rows."""
    rows = len(trace)
    for names in (trace.models, trace.tenants, trace.adapters, trace.sessions):
        if names is not None:
            names.pad(rows - len(names))
    if trace.prefixes is not None:
        trace.prefixes.pad(rows - len(trace.prefixes))
    if trace.priorities is not None:
        trace.priorities.extend([0] * (rows - len(trace.priorities)))
    if trace.cached_tokens is not None:
        trace.cached_tokens.extend([UNKNOWN] * (rows - len(trace.cached_tokens)))
    if trace.deadlines_s is not None:
        trace.deadlines_s.extend([math.nan] * (rows - len(trace.deadlines_s)))
