"""Virtual time: a clock, a heap of alarms and one stream of arrivals.

Things that are due at the same moment happen in the order in which they were scheduled; arrivals count
as scheduled at the beginning. An alarm that is moved or cancelled leaves its old place in the heap,
where it is passed over: nothing is ever searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf
from random import Random

NOT_SET = 0


class Alarm:
    """Rings once at the moment it was last set to."""

    __slots__ = ("_kernel", "at_s", "number", "ring")

    def __init__(self, kernel: Kernel, ring: Callable[[], None]) -> None:
        self._kernel = kernel
        self.ring = ring
        self.at_s = inf
        """When it rings; infinite when it is not set."""
        self.number = NOT_SET
        """Of its valid place in the heap."""

    def __repr__(self) -> str:
        return f"<Alarm at {self.at_s:g} s>"

    def set(self, at_s: float) -> None:
        """Ring at ``at_s`` and not at any other moment. A moment that has passed means now."""
        if at_s == self.at_s:
            return
        kernel = self._kernel
        if at_s < kernel.now_s:
            at_s = kernel.now_s
        self.at_s = at_s
        self.number = number = kernel.scheduled = kernel.scheduled + 1
        heappush(kernel.heap, (at_s, number, self))

    def cancel(self) -> None:
        """Do not ring."""
        self.at_s = inf
        self.number = NOT_SET


class Kernel:
    """The clock. Time moves only in ``run``."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.heap: list[tuple[float, int, Alarm]] = []
        self.scheduled = NOT_SET
        self._is_stopped = False

    def __repr__(self) -> str:
        return f"<Kernel at {self.now_s:.3f} s, {len(self.heap)} alarms>"

    def alarm(self, ring: Callable[[], None]) -> Alarm:
        """A new alarm, not set."""
        return Alarm(self, ring)

    def at(self, at_s: float, ring: Callable[[], None]) -> Alarm:
        """A new alarm, set."""
        alarm = Alarm(self, ring)
        alarm.set(at_s)
        return alarm

    def every(self, period_s: float, ring: Callable[[], None]) -> None:
        """Ring at each multiple of the period from now on, for as long as the run lasts."""
        count = 0
        began_s = self.now_s

        def again() -> None:
            nonlocal count
            count += 1
            ring()
            alarm.set(began_s + (count + 1) * period_s)

        alarm = self.at(began_s + period_s, again)

    def stop(self) -> None:
        """End the run after what happens now."""
        self._is_stopped = True

    def run(self, moments: Sequence[float], arrive: Callable[[int], None]) -> None:
        """Let time pass until ``stop`` is called or nothing is left to happen.

        ``arrive`` is called with each row of ``moments``, which are in order.
        """
        heap = self.heap
        row, rows = 0, len(moments)
        next_s = moments[0] if rows else inf
        while not self._is_stopped:
            if heap and heap[0][0] < next_s:
                at_s, number, alarm = heappop(heap)
                if alarm.number == number:
                    self.now_s = at_s
                    alarm.at_s = inf
                    alarm.number = NOT_SET
                    alarm.ring()
            elif row < rows:
                self.now_s = next_s
                arrive(row)
                row += 1
                next_s = moments[row] if row < rows else inf
            else:
                return


class SeededDice:
    """The one source of randomness of a run: the same seed, the same run."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.uniform = self._random.random
        """A float in [0, 1)."""

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1``."""
        return self._random.randrange(bound)
