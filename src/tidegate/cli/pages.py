"""What the admin page shows, gathered from the owners of the brains."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.config.settings import Settings
from tidegate.core.types import DemandReport, LatencySummary, ModelId
from tidegate.dashboard.assemble import Ledger, decision_page, fleet_page
from tidegate.dashboard.page import DecisionPage, FleetPage
from tidegate.gateway import Meters
from tidegate.runtime.controlling import ControlOwner


class Pages:
    """Keeps the last report and the last latencies of each model."""

    def __init__(self, control: ControlOwner, meters: Meters) -> None:
        self._control = control
        self._meters = meters
        self._report: DemandReport | None = None
        self._latency: dict[ModelId, LatencySummary] = {}
        self.gateway = ""

    def note(self, report: DemandReport) -> None:
        """A report that goes to the controller."""
        self._report = report
        for demand in report.models:
            if demand.latency.samples:
                self._latency[demand.model] = demand.latency

    def fleet(self, settings: Settings) -> FleetPage:
        """Everything at this moment."""
        return fleet_page(
            self._control.view(),
            Ledger.of(self._report, self._latency),
            settings.models,
            gateway=self.gateway,
            outcomes=self._meters.outcomes(),
            warnings=settings.warnings,
        )

    def decisions(self) -> Sequence[DecisionPage]:
        """The last decisions, oldest first."""
        return [decision_page(decided.at_s, decided.decision) for decided in self._control.decisions]
