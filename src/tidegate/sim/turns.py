"""One brain's turns under virtual time: an event in, its effects carried out, both in the journal.

The same order of things as in ``runtime.turns``: events that come up while a turn is under way wait until
it is over, and there is one timer, set by the last ``WakeAt``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tidegate.core.effects import WakeAt
from tidegate.core.events import Tick
from tidegate.sim.kernel import Kernel

TICK = Tick()


class Brain(Protocol):
    """Facts in, orders out."""

    def on(self, event: Any, now_s: float) -> Sequence[Any]:
        """Decide."""


class Journal(Protocol):
    """Where turns are kept. A run without one does no work for it."""

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Keep one turn."""


class Turns:
    """Takes turns with one brain and keeps its timer."""

    def __init__(
        self,
        name: str,
        brain: Brain,
        kernel: Kernel,
        journal: Journal | None,
        carry: Mapping[type, Callable[[Any], None]],
    ) -> None:
        """``name`` is the brain's name in the journal; ``carry`` says who carries out which order."""
        self._name = name
        self._on = brain.on
        self._kernel = kernel
        self._journal = journal
        self._timer = kernel.alarm(self._woken)
        self._carry: dict[type, Callable[[Any], None]] = {**carry, WakeAt: self._wake_at}
        self._later: deque[object] = deque()
        self._in_turn = False
        self.count = 0
        """Turns taken so far."""

    def handle(self, event: object) -> None:
        """Report a fact. Its orders have been carried out when this returns, unless a turn is under way."""
        if self._in_turn:
            self._later.append(event)
            return
        self._in_turn = True
        later = self._later
        while True:
            self.count += 1
            effects = self._on(event, self._kernel.now_s)
            if self._journal is not None:
                self._journal.turn(self._name, self._kernel.now_s, event, effects)
            for effect in effects:
                self._carry[type(effect)](effect)
            if not later:
                break
            event = later.popleft()
        self._in_turn = False

    def _wake_at(self, effect: WakeAt) -> None:
        self._timer.set(effect.at_s)

    def _woken(self) -> None:
        self.handle(TICK)
