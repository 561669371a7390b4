"""The faults in force, each begun and ended at its moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tidegate.emulator.faults import OF_A_REQUEST, Fault, FaultKind, Ordered

Switch = Callable[[bool, Fault], None]
"""Called with True when a fault of the whole engine begins and with False when it ends."""


class Board:
    """Owns all faults of one emulator."""

    def __init__(self, switches: Mapping[FaultKind, Switch]) -> None:
        self._switches = switches
        self._ordered: list[Ordered] = []
        self._timers: list[asyncio.TimerHandle] = []
        self._received = 0

    def order(self, fault: Fault) -> None:
        """From now on, at once or when its moment comes."""
        ordered = Ordered(fault, self._received)
        self._ordered.append(ordered)
        if fault.after_s > 0:
            self._later(fault.after_s, lambda: self._begin(ordered))
        elif not fault.after_requests:
            self._begin(ordered)

    def clear(self) -> None:
        """End all faults and forget those that have not begun."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        for ordered in list(self._ordered):
            self._end(ordered)

    def on_request(self) -> Fault | None:
        """Count a request; the fault that hits it, if any does."""
        self._received += 1
        for ordered in list(self._ordered):
            if ordered.is_due_at(self._received):
                self._begin(ordered)
        hits = [
            ordered.fault
            for ordered in self._ordered
            if ordered.is_active and ordered.fault.kind in OF_A_REQUEST and ordered.meets()
        ]
        return hits[0] if hits else None

    def names(self) -> list[str]:
        """The kinds in force."""
        return [ordered.fault.kind.value for ordered in self._ordered if ordered.is_active]

    def _begin(self, ordered: Ordered) -> None:
        ordered.is_active = True
        self._switch(True, ordered.fault)
        if ordered.fault.for_s is not None:
            self._later(ordered.fault.for_s, lambda: self._end(ordered))

    def _end(self, ordered: Ordered) -> None:
        if ordered in self._ordered:
            self._ordered.remove(ordered)
            if ordered.is_active:
                self._switch(False, ordered.fault)

    def _switch(self, is_on: bool, fault: Fault) -> None:
        switch = self._switches.get(fault.kind)
        if switch:
            switch(is_on, fault)

    def _later(self, delay_s: float, act: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(delay_s, act))
