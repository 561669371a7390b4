"""The brain that decides about replicas."""

from tidegate.core.fleet.byhand import HandNumber
from tidegate.core.fleet.coldstart import StartsView
from tidegate.core.fleet.controller import FleetController
from tidegate.core.fleet.interface import FleetEffect, FleetEvent
from tidegate.core.fleet.view import Failure, FleetView, ModelView, ReplicaView, SpendingView

__all__ = [
    "Failure",
    "FleetController",
    "FleetEffect",
    "FleetEvent",
    "FleetView",
    "HandNumber",
    "ModelView",
    "ReplicaView",
    "SpendingView",
    "StartsView",
]
