"""Brings the faults of a scenario about at their moments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from tidegate.sim.engines import SimEngine
from tidegate.sim.faults import Fault, FaultKind
from tidegate.sim.fleet import SimFleet
from tidegate.sim.kernel import Kernel

HUNG_TIMEOUT_S = 60.0
"""The gateway's ``stream_idle_timeout``: after so long without a byte it gives an attempt up."""


class Troubles:
    """Schedules what hits engines; what hits starts, pages and clients is asked for there."""

    def __init__(
        self, faults: tuple[Fault, ...], kernel: Kernel, fleet: SimFleet, silent: Callable[[SimEngine], None]
    ) -> None:
        """``silent`` is told of an engine that has not sent a byte for the gateway's timeout."""
        self._kernel = kernel
        self._fleet = fleet
        self._silent = silent
        for fault in faults:
            if fault.kind in (FaultKind.KILL, FaultKind.SLOW, FaultKind.HANG):
                kernel.at(fault.at_s, partial(self._begin, fault))

    def _begin(self, fault: Fault) -> None:
        engines = list(self._fleet.engines.values())
        if not engines:
            return
        victim = engines[fault.replica % len(engines)]
        match fault.kind:
            case FaultKind.KILL:
                self._fleet.end(victim.replica_id, "killed")
            case FaultKind.SLOW:
                victim.slow_down(fault.factor)
                self._later(fault, victim, lambda: victim.slow_down(1))
            case _:
                victim.hang()
                self._watch(victim)
                self._later(fault, victim, victim.go_on)

    def _later(self, fault: Fault, victim: SimEngine, undo: Callable[[], None]) -> None:
        until_s = fault.at_s + fault.for_s
        if until_s < inf:
            self._kernel.at(until_s, lambda: undo() if self._is_there(victim) else None)

    def _is_there(self, victim: SimEngine) -> bool:
        return self._fleet.engines.get(victim.replica_id) is victim

    def _watch(self, victim: SimEngine) -> None:
        """Let the gateway lose patience, again and again, for as long as it hangs."""

        def look() -> None:
            if victim.hangs and self._is_there(victim):
                self._silent(victim)
                alarm.set(self._kernel.now_s + HUNG_TIMEOUT_S)

        alarm = self._kernel.at(self._kernel.now_s + HUNG_TIMEOUT_S, look)
