"""One brain's turns: an event in, its effects carried out, both in the journal.

Everything happens on the event loop's thread. An order that fails at once (a connection that cannot
be made) reports its failure while the orders before it are still being carried out; such events wait
until the turn is over, so a brain is never entered twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tidegate.core.effects import WakeAt
from tidegate.core.events import Tick
from tidegate.runtime.clock import Clock

log = logging.getLogger("tidegate.runtime")


class Brain(Protocol):
    """Facts in, orders out."""

    def on(self, event: Any, now_s: float) -> Sequence[Any]:
        """Decide."""


class Journal(Protocol):
    """Where turns are kept."""

    def turn(self, brain: str, now_s: float, event: object, effects: Sequence[object]) -> None:
        """Keep one turn. Never blocks and never raises."""


class Turns:
    """Takes turns with one brain and keeps its timer."""

    def __init__(
        self,
        name: str,
        brain: Brain,
        clock: Clock,
        journal: Journal,
        carry: Mapping[type, Callable[[Any], None]],
        *,
        failed: Callable[[object, Exception], None] = lambda _effect, _error: None,
    ) -> None:
        """``name`` is the brain's name in the journal; ``carry`` says who carries out which order.

        ``failed`` hears of an order whose carrying out raised, and may report it as a fact.
        """
        self._name = name
        self._brain = brain
        self._clock = clock
        self._journal = journal
        self._failed = failed
        self._carry: dict[type, Callable[[Any], None]] = {**carry, WakeAt: self._wake_at}
        self._later: deque[object] = deque()
        self._in_turn = False
        self._timer: asyncio.TimerHandle | None = None

    def handle(self, event: object) -> None:
        """Report a fact.

        Its orders have been carried out when this returns; when a turn is under way already, they
        will have been when that one returns.
        """
        if self._in_turn:
            self._later.append(event)
            return
        self._in_turn = True
        try:
            self._turn(event)
            while self._later:
                self._turn(self._later.popleft())
        finally:
            self._in_turn = False

    def cease(self) -> None:
        """No tick comes from here any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _turn(self, event: object) -> None:
        now_s = self._clock.now_s()
        effects = self._brain.on(event, now_s)
        self._journal.turn(self._name, now_s, event, effects)
        for effect in effects:
            try:
                self._carry[type(effect)](effect)
            except Exception as error:
                # One order that cannot be carried out is no reason to lose the others of its turn.
                log.exception("%s could not be carried out", type(effect).__name__)
                self._failed(effect, error)

    def _wake_at(self, effect: WakeAt) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(
            max(0.0, effect.at_s - self._clock.now_s()), self._woken, effect.at_s
        )

    def _woken(self, at_s: float) -> None:
        self._timer = None
        if self._clock.now_s() < at_s:
            # uvloop counts in milliseconds and may be one early; to the brain that is no time at all.
            self._timer = asyncio.get_running_loop().call_later(0.001, self._woken, at_s)
            return
        self.handle(Tick())
