"""Simulated replicas' engines: each is looked at exactly when there is something to see.

An engine says when its next token of interest comes (``wake_s``). Until then it costs nothing, however
many steps it takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, nextafter, prod

from tidegate.core.types import ModelId, ReplicaId, RequestId
from tidegate.engine.batch import Engine
from tidegate.engine.latency import Slowed
from tidegate.engine.sequence import Sequence
from tidegate.sim.kernel import Kernel
from tidegate.sim.pace import Pace


@dataclass(frozen=True, slots=True)
class Outlet:
    """Who is told what a replica's engine sends back."""

    first_byte: Callable[[Sequence, ReplicaId], None]
    ended: Callable[[Sequence, ReplicaId], None]
    cut: Callable[[Sequence, ReplicaId, int], None]
    """The connection of this request broke off after so many tokens."""


class SimEngine:
    """One replica's engine, with the requests it works on."""

    def __init__(
        self,
        replica_id: ReplicaId,
        model: ModelId,
        engine: Engine,
        kernel: Kernel,
        outlet: Outlet,
        pace: Pace,
    ) -> None:
        self.replica_id = replica_id
        self.model = model
        self.engine = engine
        self.sequences: dict[RequestId, Sequence] = {}
        self._kernel = kernel
        self._first_byte = outlet.first_byte
        self._ended = outlet.ended
        self._pace = pace
        self._alarm = kernel.alarm(self._look)
        self._is_looking = False
        self._hangs_since_s: float | None = None
        self._hung_by = 0
        """Faults that let it hang now."""
        self._mute_by = 0
        """Of these, faults that let nothing of it answer."""
        self._slower: list[float] = []
        """Factors of the faults that slow it down now."""
        self._held: list[Sequence] = []
        """Sent to it while it hangs."""
        self._plain_law = engine.law
        self._seen = (0.0, 0, 0)
        """Busy time, steps and tokens when it was looked at before."""
        engine.now_s = kernel.now_s

    def __repr__(self) -> str:
        return f"<SimEngine {self.replica_id} {self.engine!r}>"

    @property
    def hangs(self) -> bool:
        return self._hangs_since_s is not None

    @property
    def is_mute(self) -> bool:
        """It hangs, and not even its health or its metrics answer."""
        return self._mute_by > 0

    def tokens_out(self, sequence: Sequence) -> int:
        """Tokens of an answer that have been sent back by now."""
        now_s = self._kernel.now_s if self._hangs_since_s is None else self._hangs_since_s
        return 0 if sequence in self._held else self.engine.tokens_out(sequence, now_s)

    def send(self, sequence: Sequence) -> None:
        """Take on a request, known by its key.

        Raises:
            ValueError: it does not fit into the engine's cache.
        """
        if self._hangs_since_s is not None:
            self._held.append(sequence)
        elif self._is_looking:
            # It follows an answer that has just ended. An engine does not wait for that: its next step has begun.
            self.engine.add(sequence, nextafter(self._kernel.now_s, inf))
        else:
            self.engine.add(sequence, self._kernel.now_s)
            self._arm()
        self.sequences[sequence.key] = sequence  # type: ignore[index]  # keys are request ids here

    def cancel(self, request_id: RequestId) -> None:
        """Nobody waits for this answer any more. One that has ended is ignored."""
        sequence = self.sequences.pop(request_id, None)
        if sequence is None:
            return
        if sequence in self._held:
            self._held.remove(sequence)
            return
        self.catch_up()
        self.engine.abort(sequence)
        if not self._is_looking and not self.hangs:
            self._arm()

    def catch_up(self) -> None:
        """Let its figures be those of now. Between two looks it stands at an earlier moment."""
        if not self.hangs:
            self.engine.catch_up(self._kernel.now_s)

    def kill(self) -> list[tuple[Sequence, int]]:
        """It is gone. What was cut off, and after how many tokens."""
        if not self.hangs:
            self._look()
        self._alarm.cancel()
        cut = [(sequence, self.tokens_out(sequence)) for sequence in self.sequences.values()]
        self.sequences.clear()
        return cut

    def slow_down(self, factor: float) -> None:
        """Steps that begin from now on take ``factor`` times as long as they would, until ``speed_up``."""
        self._slower.append(factor)
        self._obey()

    def speed_up(self, factor: float) -> None:
        """One slowing down is over. What else slows it down does so still."""
        self._slower.remove(factor)
        self._obey()

    def hang(self, *, is_mute: bool) -> None:
        """Stop giving anything back, until ``go_on``; when mute, answer nothing else either."""
        if not self.hangs:
            self._look()
            self._hangs_since_s = self._kernel.now_s
            self._alarm.cancel()
        self._hung_by += 1
        self._mute_by += is_mute

    def go_on(self, *, is_mute: bool) -> None:
        """One hang is over. With the last, the step under way ends as much later as it stood still."""
        self._hung_by -= 1
        self._mute_by -= is_mute
        if self._hung_by or self._hangs_since_s is None:
            return
        self.engine.now_s += self._kernel.now_s - self._hangs_since_s
        self._hangs_since_s = None
        held, self._held = self._held, []
        for sequence in held:
            self.engine.add(sequence, self._kernel.now_s)
        self._arm()

    def _obey(self) -> None:
        """From the next step on, the law with all that slows it down."""
        if not self.hangs:
            self._look()
        self.engine.law = Slowed(self._plain_law, prod(self._slower)) if self._slower else self._plain_law
        if not self.hangs:
            self._arm()

    def _look(self) -> None:
        self._is_looking = True
        engine = self.engine
        told = engine.advance(self._kernel.now_s)
        # The tokens since the last look, at the mean step time since then.
        busy_s, steps, tokens = self._seen
        sums = engine.decoding
        if sums.steps != steps:
            self._seen = (engine.busy_s, sums.steps, sums.entered + sums.decoded)
            self._pace.add((engine.busy_s - busy_s) / (sums.steps - steps), self._seen[2] - tokens)
        for sequence in told.started:
            self._first_byte(sequence, self.replica_id)
        for sequence in told.ended:
            # One that was cancelled during the step that ended it is not there any more.
            if self.sequences.pop(sequence.key, None) is not None:  # type: ignore[call-overload]
                self._ended(sequence, self.replica_id)
        self._is_looking = False
        self._arm()

    def _arm(self) -> None:
        wake_s = self.engine.wake_s
        if wake_s is None:
            self._alarm.cancel()
        else:
            self._alarm.set(wake_s)
