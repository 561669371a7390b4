"""What recorded tables are like, without drawing a single request from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.workload.figures import percentile
from tidegate.workload.formats.azure_functions import FunctionMinutes
from tidegate.workload.servegen import SLOT_S, Clients, Rates

RARELY = 24
"""A function that is active in fewer minutes than this (of 480, in the recorded sample) is called rarely."""


@dataclass(frozen=True, slots=True)
class RatesDescription:
    """Of the slots up to the last one with a request: some workloads were recorded for a day only."""

    slots: int
    requests: float
    mean_per_s: float
    max_per_s: float
    min_per_s: float
    empty_slots: int
    peak_to_mean: float


@dataclass(frozen=True, slots=True)
class ClientsDescription:
    """How unevenly the clients ask."""

    clients: int
    requests: float
    top_client_ratio: float
    top_10_ratio: float


@dataclass(frozen=True, slots=True)
class MinutesDescription:
    """Functions by their calls a minute."""

    functions: int
    calls: int
    mean_per_minute: float
    max_per_minute: int
    min_per_minute: int
    function_p50: float
    function_p90: float
    function_max: int
    active_ratio_p50: float
    active_ratio_p90: float
    rarely_active: int
    triggers: dict[str, int]


def describe_rates(rates: Rates) -> RatesDescription:
    """Raises ValueError for a table without a request."""
    found = list(rates.rates_per_s)
    while found and not found[-1]:
        found.pop()
    if not found:
        raise ValueError("the table of rates has no request")
    mean = sum(found) / len(found)
    return RatesDescription(
        slots=len(found),
        requests=sum(found) * SLOT_S,
        mean_per_s=mean,
        max_per_s=max(found),
        min_per_s=min(found),
        empty_slots=found.count(0.0),
        peak_to_mean=max(found) / mean,
    )


def describe_clients(clients: Clients) -> ClientsDescription:
    """Raises ValueError for a table without a client."""
    if not clients.slots:
        raise ValueError("the table of clients is empty")
    shares = clients.shares()
    return ClientsDescription(
        clients=len(shares),
        requests=sum(clients.expected(client) for client in clients.slots),
        top_client_ratio=shares[0],
        top_10_ratio=sum(shares[:10]),
    )


def describe_minutes(functions: Sequence[FunctionMinutes]) -> MinutesDescription:
    """Raises ValueError for a table without a function or without a minute."""
    totals = [sum(column) for column in zip(*(one.per_minute for one in functions), strict=True)]
    if not totals:
        raise ValueError("the table of functions is empty")
    calls = sorted(one.calls for one in functions)
    active = sorted(one.active_minutes for one in functions)
    return MinutesDescription(
        functions=len(functions),
        calls=sum(totals),
        mean_per_minute=sum(totals) / len(totals),
        max_per_minute=max(totals),
        min_per_minute=min(totals),
        function_p50=percentile(calls, 0.50),
        function_p90=percentile(calls, 0.90),
        function_max=calls[-1],
        active_ratio_p50=percentile(active, 0.50) / len(totals),
        active_ratio_p90=percentile(active, 0.90) / len(totals),
        rarely_active=sum(1 for minutes in active if minutes < RARELY),
        triggers=dict(Counter(one.trigger for one in functions).most_common()),
    )
