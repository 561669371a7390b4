"""ServeGen's statistics, as tables of rates, of clients and of length histograms.

None of the three holds requests; ``workload.servegen`` draws them.
"""

from __future__ import annotations

from tidegate.workload.arrival import BadValue
from tidegate.workload.formats.reading import (
    Broken,
    Source,
    each_row,
    header_of,
    moment,
    numbered,
    real,
    whole,
)
from tidegate.workload.gaps import Gaps
from tidegate.workload.lengths import Histogram
from tidegate.workload.servegen import SLOT_S, Clients, ClientSlot, LengthTable, Rates, gaps_named


def read_rates(source: Source) -> tuple[Rates, Broken]:
    """``ts_s, rate_rps``: the whole workload's rate in each slot, in order of time."""
    lines = numbered(source)
    header = header_of(lines)
    start, rate = header.places("ts_s", "rate_rps")
    slots: dict[float, float] = {}

    def take(row: str) -> None:
        cell = header.split(row)
        start_s = _slot(cell[start])
        _once(start_s in slots, f"slot {start_s:g}")
        slots[start_s] = moment(cell[rate], "rate_rps")

    broken = each_row(lines, take)
    starts = sorted(slots)
    return Rates(tuple(starts), tuple(slots[start_s] for start_s in starts)), broken


def read_clients(source: Source) -> tuple[Clients, Broken]:
    """``client, ts_s, rate_rps, cv, arrival, p1, p2``: one client's rate and gaps in one slot."""
    lines = numbered(source)
    header = header_of(lines)
    client, start, rate, arrival, shape = header.places("client", "ts_s", "rate_rps", "arrival", "p1")
    slots: dict[str, dict[float, ClientSlot]] = {}

    def take(row: str) -> None:
        cell = header.split(row)
        slot = ClientSlot(_slot(cell[start]), real(cell[rate], "rate_rps"), _gaps(cell[arrival], cell[shape]))
        if slot.rate_per_s <= 0:
            message = f"rate_rps is {slot.rate_per_s:g}; it must be above 0"
            raise BadValue(message)
        own = slots.setdefault(cell[client].strip(), {})
        _once(slot.start_s in own, f"slot {slot.start_s:g} of client {cell[client].strip()}")
        own[slot.start_s] = slot

    broken = each_row(lines, take)
    return Clients({name: tuple(own[at] for at in sorted(own)) for name, own in slots.items()}), broken


def read_lengths(source: Source) -> tuple[LengthTable, Broken]:
    """``field, window_s, bin_lo, bin_hi, expected_requests``: a bin of one field in one window."""
    lines = numbered(source)
    header = header_of(lines)
    field, window, low, high, weight = header.places(
        "field", "window_s", "bin_lo", "bin_hi", "expected_requests"
    )
    bins: dict[str, dict[float, list[tuple[int, int, float]]]] = {}

    def take(row: str) -> None:
        cell = header.split(row)
        found = (
            whole(cell[low], "bin_lo"),
            whole(cell[high], "bin_hi"),
            moment(cell[weight], "expected_requests"),
        )
        if not 0 <= found[0] <= found[1]:
            message = f"the bin goes from {found[0]} to {found[1]}"
            raise BadValue(message)
        windows = bins.setdefault(cell[field].strip(), {})
        windows.setdefault(moment(cell[window], "window_s"), []).append(found)

    broken = each_row(lines, take)
    return LengthTable({name: _histograms(windows) for name, windows in bins.items()}), broken


def _histograms(windows: dict[float, list[tuple[int, int, float]]]) -> dict[float, Histogram]:
    """Windows in order; one in which nothing was counted says nothing and is left out."""
    return {
        start_s: Histogram(tuple(sorted(bins)))
        for start_s, bins in sorted(windows.items())
        if any(weight > 0 for _, _, weight in bins)
    }


def _slot(cell: str) -> float:
    start_s = moment(cell, "ts_s")
    if start_s % SLOT_S:
        message = f"ts_s is {start_s:g}; slots start at multiples of {SLOT_S:g}"
        raise BadValue(message)
    return start_s


def _gaps(kind: str, shape: str) -> Gaps:
    try:
        return gaps_named(kind.strip(), real(shape, "p1"))
    except ValueError as error:
        raise BadValue(str(error)) from None


def _once(is_known: bool, what: str) -> None:
    if is_known:
        message = f"{what} is there twice"
        raise BadValue(message)
