"""One replica's LoRA adapters: what it can be asked for, what is to come and to go, what failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.core.events import AdapterSeen
from tidegate.core.settings import FleetModel, Restarts

WITHIN_S = 900.0
"""An order that nothing has been heard of for so long was lost: a backend gives up before."""
UNLOADS_MAX = 3
"""After so many failures what is not wanted stays where it is. vLLM cannot unload one that has had to leave its host memory
for others; nobody asks for it any more, and it costs a name."""


@dataclass(slots=True)
class Trouble:
    """An adapter that could not be loaded, or unloaded."""

    failures: int
    because: str
    again_s: float


class Aboard:
    """One replica's adapters."""

    def __init__(self, has: Mapping[str, str], before: Mapping[str, str] | None = None) -> None:
        """Both by name, each with the mark of its source; ``before`` are all that it ever had."""
        self.has = dict(has)
        """It can be asked for these."""
        self.names: tuple[str, ...] = tuple(sorted(has))
        """The same, for whoever only reads."""
        self.before = {**(before or {}), **has}
        self.troubles: dict[str, Trouble] = {}
        self._leaving: dict[str, None] = {}
        """Not to be asked for any more, and still there."""
        self._ordered: str | None = None
        """The adapter about which an order is under way ..."""
        self._loads = False
        """... to load it, or else to unload it."""
        self._ordered_s = 0.0

    def __repr__(self) -> str:
        return f"<Aboard {', '.join(self.names)}; leaving={len(self._leaving)} troubles={len(self.troubles)}>"

    @property
    def told(self) -> dict[str, str]:
        """What could not be loaded or unloaded, and why."""
        return {name: trouble.because for name, trouble in self.troubles.items()}

    def clashes(self, spec: FleetModel) -> bool:
        """It has had the name of an adapter that is wanted now, from another source."""
        return any(self.before.get(name, mark) != mark for name, mark in spec.adapters or ())

    def settle(self, wanted: Mapping[str, str]) -> None:
        """These are wanted."""
        for name in [name for name in self.has if name not in wanted]:
            del self.has[name]
            self._leaving[name] = None
        for name in [name for name in self._leaving if name in wanted]:
            if self._ordered != name:  # it has not been told to go
                del self._leaving[name]
                self.has[name] = self.before[name]
        for name in [name for name in self.troubles if name not in wanted and name not in self._leaving]:
            del self.troubles[name]
        self._name()

    def _name(self) -> None:
        names = tuple(sorted(self.has))
        if names != self.names:  # the same tuple as long as it is the same: whoever reads it looks for that
            self.names = names

    def next_order(
        self, wanted: Mapping[str, str], awaited: Iterable[str], now_s: float
    ) -> tuple[str, bool] | None:
        """The adapter about which to give an order now, and whether to load it; None: nothing is to do, or not yet.

        First those that somebody waits for, then those that are to go, then the others that are missing.
        """
        if self._ordered is not None and now_s < self._ordered_s + WITHIN_S:
            return None
        missing = [name for name in wanted if name not in self.has and name not in self._leaving]
        first = [name for name in awaited if name in missing]
        for name in (*first, *self._leaving, *missing):
            trouble = self.troubles.get(name)
            if trouble is None or now_s >= trouble.again_s:
                return name, name not in self._leaving
        return None

    def ordered(self, name: str, mark: str | None, now_s: float) -> None:
        """An order about it was given: to load it from the source with this mark, or to unload it."""
        self._ordered, self._loads, self._ordered_s = name, mark is not None, now_s
        if mark is not None:
            self.before[name] = mark

    def hear(self, event: AdapterSeen, restarts: Restarts, now_s: float) -> None:
        """What came of an order. One that nobody remembers says what is there all the same."""
        name = event.adapter
        loads = self._loads if self._ordered == name else name not in self._leaving
        if self._ordered == name:
            self._ordered = None
        if not event.is_there:
            self.has.pop(name, None)
            self._leaving.pop(name, None)
        elif loads and name in self.before:
            self.has[name] = self.before[name]
        if event.failed:
            self._fail(name, event.failed, restarts, now_s, loads=loads)
        else:
            self.troubles.pop(name, None)
        self._name()

    def _fail(self, name: str, because: str, restarts: Restarts, now_s: float, *, loads: bool) -> None:
        failures = self.troubles[name].failures + 1 if name in self.troubles else 1
        if not loads and failures >= UNLOADS_MAX:
            self._leaving.pop(name, None)
            self.troubles.pop(name, None)
            return
        pause_s = min(restarts.backoff_max_s, restarts.backoff_first_s * 2.0 ** (failures - 1))
        if failures >= restarts.give_up_after:
            pause_s = restarts.retry_failed_s
        self.troubles[name] = Trouble(failures, because, now_s + pause_s)

    def due_s(self) -> float | None:
        """When there may be something to do by the passing of time alone."""
        if self._ordered is not None:
            return self._ordered_s + WITHIN_S
        return min((trouble.again_s for trouble in self.troubles.values()), default=None)
