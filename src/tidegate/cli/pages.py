"""What the admin page shows, gathered from the owners of the brains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidegate.config.settings import Settings
from tidegate.core.effects import Record
from tidegate.core.types import DemandReport, ModelId, ReplicaId
from tidegate.dashboard import LatencyWindow, Ledger, decision_page, fleet_page
from tidegate.dashboard.page import DecisionPage, FleetPage
from tidegate.gateway import Meters
from tidegate.runtime.controlling import ControlOwner


class Pages:
    """Keeps the last report and the latencies of the last seconds."""

    def __init__(
        self,
        control: ControlOwner,
        meters: Meters,
        last_words: Callable[[ModelId, ReplicaId], str],
        findings: Callable[[], Sequence[str]],
    ) -> None:
        """``findings`` are what is wrong now, beside the warnings of the policy file."""
        self._control = control
        self._last_words = last_words
        self._meters = meters
        self._findings = findings
        self._report: DemandReport | None = None
        self._latency = LatencyWindow()
        self.gateway = ""

    def note(self, report: DemandReport) -> None:
        """A report that goes to the controller."""
        self._report = report

    def record(self, record: Record, now_s: float) -> None:
        """A request that has ended."""
        self._latency.record(record, now_s)

    def fleet(self, settings: Settings) -> FleetPage:
        """Everything at this moment."""
        view = self._control.view()
        return fleet_page(
            view,
            Ledger.of(self._report, self._latency.summaries(view.at_s)),
            settings.models,
            gateway=self.gateway,
            outcomes=self._meters.outcomes(),
            warnings=(*settings.warnings, *self._findings()),
            last_words=self._last_words,
        )

    def decisions(self) -> Sequence[DecisionPage]:
        """The last decisions, oldest first."""
        return [decision_page(decided.at_s, decided.decision) for decided in self._control.decisions]
