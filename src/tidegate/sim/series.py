"""Queue and load over time, as the gateway reported them."""

from __future__ import annotations

from array import array

from tidegate.core.types import DemandReport


class Series:
    """One place a report, in order of time."""

    def __init__(self) -> None:
        self.at_s = array("d")
        self.queued = array("i")
        self.in_flight = array("i")

    def __repr__(self) -> str:
        return f"<Series of {len(self.at_s)} reports>"

    def note(self, now_s: float, report: DemandReport) -> None:
        """Keep a report's numbers, all models together."""
        queued = in_flight = 0
        for demand in report.models:
            queued += demand.queued
            in_flight += demand.in_flight
        self.at_s.append(now_s)
        self.queued.append(queued)
        self.in_flight.append(in_flight)
