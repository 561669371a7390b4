"""What all replicas of one fleet on this machine share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.backends.base import Report
from tidegate.backends.engine_client import EngineClient
from tidegate.backends.local.devices import Devices
from tidegate.backends.local.logs import Logs
from tidegate.backends.local.ports import Ports
from tidegate.backends.local.provisions import Provisions
from tidegate.backends.local.state import StateFolder


@dataclass(frozen=True, slots=True)
class Site:
    """One of each for the whole fleet."""

    state: StateFolder
    ports: Ports
    devices: Devices
    logs: Logs
    client: EngineClient
    host: str
    environment: Mapping[str, str]
    report: Report
    provisions: Provisions
