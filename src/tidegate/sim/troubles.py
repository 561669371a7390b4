"""Brings the faults of a scenario about at their moments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf

from tidegate.core.events import ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.sim.engines import SimEngine
from tidegate.sim.faults import Fault, FaultKind
from tidegate.sim.fleet import SimFleet
from tidegate.sim.kernel import Kernel
from tidegate.sim.scenario import Scenario

HUNG_TIMEOUT_S = 60.0
"""The gateway's ``stream_idle_timeout``: after so long without a byte it gives an attempt up."""


class Troubles:
    """Schedules what hits engines; what hits starts, pages and clients is asked for there."""

    def __init__(
        self,
        scenario: Scenario,
        kernel: Kernel,
        fleet: SimFleet,
        silent: Callable[[SimEngine], None],
        tell: Callable[[object], None],
    ) -> None:
        """``silent`` is told of an engine that has not sent a byte for the gateway's timeout; ``tell`` takes what
        the backend sees."""
        self._models = scenario.models
        self._kernel = kernel
        self._fleet = fleet
        self._silent = silent
        self._tell = tell
        for fault in scenario.faults:
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
                self._later(fault, victim, lambda: victim.speed_up(fault.factor))
            case _:
                is_mute = not fault.health
                victim.hang(is_mute=is_mute)
                self._watch(victim, HUNG_TIMEOUT_S, lambda: victim.hangs, self._silent)
                if is_mute:
                    silent_s = self._models[victim.model].silent_after_s
                    self._watch(victim, silent_s, lambda: victim.is_mute, self._unresponsive)
                self._later(fault, victim, lambda: victim.go_on(is_mute=is_mute))

    def _later(self, fault: Fault, victim: SimEngine, undo: Callable[[], None]) -> None:
        until_s = fault.at_s + fault.for_s
        if until_s < inf:
            self._kernel.at(until_s, lambda: undo() if self._is_there(victim) else None)

    def _is_there(self, victim: SimEngine) -> bool:
        return self._fleet.engines.get(victim.replica_id) is victim

    def _watch(
        self, victim: SimEngine, span_s: float, lasts: Callable[[], bool], lost: Callable[[SimEngine], None]
    ) -> None:
        """Let somebody lose patience, again and again, for as long as it lasts."""

        def look() -> None:
            if self._is_there(victim) and lasts():
                lost(victim)
                alarm.set(self._kernel.now_s + span_s)

        alarm = self._kernel.at(self._kernel.now_s + span_s, look)

    def _unresponsive(self, victim: SimEngine) -> None:
        """What the local backend says of a replica whose health check gets no answer."""
        silent_s = self._models[victim.model].silent_after_s
        detail = f"no answer for {silent_s:.1f} s, last: no answer in time"
        self._tell(ReplicaSeen(victim.replica_id, Seen.UNRESPONSIVE, detail=detail))
