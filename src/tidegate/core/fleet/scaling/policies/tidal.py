"""The default law: the fewest replicas that keep the promise until more could serve.

Up, at once and by model. What is needed at a lead time from now is

    ledger rate / what a full replica carries  +  what demand has grown by within a lead time, but for a stated risk

and at least what any other healthy source asks for now. What comes up already counts. Down, step by step, only when

1. every source that has ever spoken speaks, and with the survivors the promise would be kept with something to spare,
2. that has been so for the scale-down delay,
3. and the change of direction can be afforded (``swings``).

When nobody has been there for the whole delay, all go at once; to zero whether it can be afforded or not.

There is no utilisation to be tuned: "grow when every replica is at maximum concurrency" and "shrink when enough of them
are half full" follow from the first two lines.
"""

from __future__ import annotations

from math import ceil

from tidegate.core.fleet.scaling.policies.base import Proposal, Situation
from tidegate.core.fleet.scaling.reading import Reader, Reading
from tidegate.core.fleet.scaling.reasons import because, inputs_of, said
from tidegate.core.fleet.scaling.sliding import Hold
from tidegate.core.fleet.scaling.spikes import Spikes
from tidegate.core.fleet.scaling.swings import Swings
from tidegate.core.knowledge import KnownTidal
from tidegate.core.scaling_settings import Scaling

OVER_SHARE = 0.01
"""A need that is so little above a whole number is that number."""
SPARE_SHARE = 0.05
"""Of what is needed, what the survivors of a step down must have to spare."""
SETTLED_S = 60.0
"""Latencies are of the last minute: so long after a change of capacity they speak of the time before it."""
BROKEN_S = 30.0
LATENCY_STEP = 0.25
"""A promise that is broken for no known reason adds at most this share, and at least one."""
STEP_LEADS, STEP_LEAST_S, STEP_MOST_S = 0.2, 2.0, 30.0
"""Between two steps down, in lead times."""
STEP_SHARE = 0.25
"""Of those that stand, what one step takes away at most; one at least. By ones a flood of sixty would ebb for half an hour."""
LATE_P = 0.5
"""A replica that comes up and has less than this chance to serve within a lead time does not count."""


class Tidal:
    """The law for one model, with what it has learned."""

    reads_engines = True

    def __init__(self, scaling: Scaling, standing: int, now_s: float) -> None:
        self._scaling = scaling
        self._reader = Reader(scaling)
        self._hold = Hold(scaling.scale_down_delay_s, standing)
        self._swings = Swings(now_s)
        self._spikes = Spikes()
        self._serving = 0.0
        self._changed_s = now_s
        """When the number that serves last changed."""
        self._fell_s = now_s - STEP_MOST_S

    def __repr__(self) -> str:
        return f"<Tidal {self._reader!r} {self._hold!r} {self._swings!r}>"

    @property
    def learned(self) -> tuple[Reader, Spikes, Swings]:
        """What another law of this kind may go on with."""
        return self._reader, self._spikes, self._swings

    def inherit(self, before: object) -> None:
        """What replicas carry, how demand grows and how long bursts last stays true under other settings."""
        if isinstance(before, Tidal):
            self._reader, self._spikes, self._swings = before.learned
            self._reader = self._reader.under(self._scaling)

    def remember(self, now_s: float) -> KnownTidal:
        """What outlives this process. The account of changes of direction does not: it is about the last minutes."""
        return self._reader.remember(self._spikes.remember(), now_s)

    def restore(self, known: KnownTidal, now_s: float) -> None:
        """Go on from what a former process knew."""
        self._reader.restore(known, now_s)
        self._spikes.restore(known.bursts_s)

    def propose(self, seen: Situation, now_s: float) -> Proposal:
        """The law's number.

        1. What the sources say, and what may come within a lead time.
        2. Up to what is needed, unless it would be there too late for anybody.
        3. Down by a step, if all three conditions hold.
        """
        if seen.strength != self._serving:
            self._serving, self._changed_s = seen.strength, now_s
        reading = self._reader.look(seen, now_s)
        needed, by = self._needed(seen, reading, now_s)
        is_late = needed > 0 and any(
            self._is_late(seen, one.launched_s, reading, now_s) for one in seen.coming
        )
        needed += is_late
        self._spikes.look(reading.ledger, seen.strength, reading.lead_s, now_s)
        asked = _whole(needed)
        held = self._hold.ask(_whole(needed * (1.0 + SPARE_SHARE)), now_s)
        wanted, held_by, due_at_s = self._step(seen, reading, asked, held, now_s)
        if wanted != seen.standing:
            self._swings.step(now_s, reading.lead_s, is_up=wanted > seen.standing)
            self._fell_s = now_s if wanted < seen.standing else self._fell_s
        why = said(self._scaling, seen, reading, by, asked, is_late=is_late)
        reason = because(self._scaling, why, reading, wanted, held_by)
        # As asked, beyond minimum and maximum too: the final clamp is the one that says so.
        number = asked if held_by is None and wanted == seen.within(asked) else wanted
        inputs = inputs_of(reading, needed, held)
        return Proposal(number, asked, reason, held_by, due_at_s, inputs, needed)

    # ---- 1. what is needed ----

    def _needed(self, seen: Situation, reading: Reading, now_s: float) -> tuple[float, str]:
        """Replicas at a lead time from now, and who says so."""
        needed, by = reading.ledger + reading.reserve, "ledger"
        for one in reading.estimates[1:]:
            if one.replicas is None or one.replicas <= needed:
                continue
            if one.name == "latency":
                number = self._by_latency(seen, reading, one.replicas, now_s)
                if number <= needed:
                    continue
                needed = number
            else:
                needed = one.replicas
            by = one.name
        return needed, by

    def _by_latency(self, seen: Situation, reading: Reading, asks: float, now_s: float) -> float:
        """What broken promises ask for: little, and only when nothing is on its way that may mend them."""
        if asks <= seen.strength:
            return asks
        is_settled = (
            not seen.coming and now_s >= self._changed_s + SETTLED_S and reading.calm_s > 1.5 * SETTLED_S
        )
        if not is_settled or reading.broken_s < BROKEN_S:
            return 0.0
        return min(asks, seen.strength + max(1.0, LATENCY_STEP * seen.strength))

    def _is_late(self, seen: Situation, launched_s: float, reading: Reading, now_s: float) -> bool:
        """It may never serve. Before a start has been measured, and within a lead time, another would be no sooner there."""
        if not seen.readiness.samples or now_s - launched_s <= reading.lead_s:
            return False
        p_ready = seen.readiness.p_ready(reading.lead_s, now_s - launched_s)
        return p_ready is not None and p_ready < LATE_P

    # ---- 2. and 3. the step ----

    def _step(
        self, seen: Situation, reading: Reading, asked: int, held: int, now_s: float
    ) -> tuple[int, str | None, float | None]:
        """The number, the rule that keeps it from what is asked, and when that rule ends by itself."""
        standing, asked = seen.standing, seen.within(asked)
        if asked > standing:
            if seen.serving and not self._spikes.is_worth(reading.lead_s, now_s):
                return max(standing, seen.floor), "short_burst", None
            return max(asked, seen.floor), None, None
        if standing <= max(asked, seen.floor, seen.min_replicas):
            number = max(standing, seen.floor)
            return number, seen.floor_by if number > asked else None, None
        if not seen.may_shrink:
            return standing, "window" if seen.is_complete else "no data", None
        if reading.silent is not None:
            return standing, f"{reading.silent}_unknown", None
        if not reading.knows_growth and seen.demand.concurrency > 0:
            return standing, "growth_unknown", None
        if held > standing - 1:
            return standing, "scale_down_delay" if asked < standing else None, self._hold.due_s
        # Nobody has been there for the whole delay: there is nothing that the last ones could be needed for.
        least = max(held, seen.floor, seen.min_replicas)
        number = max(least, standing - max(1, int(STEP_SHARE * standing))) if held else least
        if not self._survivors_keep(reading, number):
            number = standing - 1
        if not self._survivors_keep(reading, number):
            return standing, "survivors", None
        if not number and not held:
            return 0, None, None  # the idle time is over: an account of changes has no say in that
        free_s = self._swings.falls_at_s(now_s, reading.lead_s)
        if free_s is not None:
            return standing, "swings", free_s
        step_s = max(STEP_LEAST_S, min(STEP_MOST_S, STEP_LEADS * reading.lead_s))
        if now_s < self._fell_s + step_s:
            return standing, "step_by_step", self._fell_s + step_s
        return number, None if number <= asked else "step_by_step", now_s + step_s

    def _survivors_keep(self, reading: Reading, number: int) -> bool:
        """Every source that knows something allows so few."""
        return all(
            one.replicas is None or one.replicas * (1.0 + SPARE_SHARE) <= number for one in reading.estimates
        )


def _whole(needed: float) -> int:
    return ceil(needed * (1.0 - OVER_SHARE) - 1e-9)
