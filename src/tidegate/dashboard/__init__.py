"""The admin pages: live view, ``/fleet``, ``/metrics``. They only show; nothing is decided here."""

from tidegate.dashboard.assemble import Ledger, decision_page, fleet_page
from tidegate.dashboard.latency import LatencyWindow
from tidegate.dashboard.page import DecisionPage, FleetPage
from tidegate.dashboard.server import AdminServer

__all__ = [
    "AdminServer",
    "DecisionPage",
    "FleetPage",
    "LatencyWindow",
    "Ledger",
    "decision_page",
    "fleet_page",
]
