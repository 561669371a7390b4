"""What one replica of a model carries with the promise kept: learned, doubted, and asked for other lengths than come now."""

from __future__ import annotations

from dataclasses import replace

from tidegate.core.fleet.scaling.fullest import Full, full_replica
from tidegate.core.fleet.scaling.past import Past
from tidegate.core.fleet.scaling.perreplica import Pace
from tidegate.core.fleet.scaling.policies.base import Situation
from tidegate.core.fleet.scaling.worth import Lengths
from tidegate.core.knowledge import KnownPace
from tidegate.core.scaling_settings import Scaling

LENGTHS_S = (30.0, 60.0, 150.0, 600.0)
LENGTHS_LEAST = 500
"""Answers whose mean length is known to a twentieth, when lengths vary as much as their mean."""
FULL_EVERY_S = 5.0
KEPT_FOR_S = 60.0
"""So long a promise is broken, or kept with somebody waiting, before anything follows from it."""
DERATE, RERATE, DERATE_LEAST = 0.97, 1.003, 0.5
"""Each ten seconds: while a promise is broken that should be kept, and while it is kept."""
DERATE_EVERY_S = 10.0


class Carrying:
    """Of one model's replicas. Owns the learned pace, and how far it is trusted."""

    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._pace = Pace()
        self._full: Full | None = None
        self._then: tuple[Lengths, Full] | None = None
        """The same of other lengths, as last asked."""
        self._until_s, self._slots = 0.0, 0
        """Both are good until then, for a replica of so many slots."""
        self._trust = 1.0
        """In what a replica is thought to carry; below 1 when promises were broken at less."""
        self._trust_next_s = 0.0

    def __repr__(self) -> str:
        return f"{self._pace!r} trust={self._trust:.2f}"

    def under(self, scaling: Scaling) -> None:
        """Go on with other settings."""
        self._scaling, self._full = scaling, None

    def remember(self) -> tuple[KnownPace, float]:
        """What outlives this process: the pace, and how far it is trusted."""
        return self._pace.remember(), self._trust

    def restore(self, pace: KnownPace, trust: float, now_s: float) -> None:
        """Go on from what a former process knew."""
        self._pace.restore(pace, now_s)
        self._trust = trust if DERATE_LEAST <= trust <= 1.0 else 1.0
        self._full = None

    def look(self, seen: Situation, room: float | None, now_s: float) -> Full:
        """Learn from the last minute; the fullest replica that keeps the promise with requests as they come now. ``room`` is
        how many of them fit into its memory, None where engines do not say."""
        demand = seen.demand
        self._pace.look(
            demand.past, seen.strength, seen.slots, demand.capacity, now_s, has_others=seen.has_others
        )
        if self._full is None or now_s >= self._until_s or seen.slots != self._slots:
            self._until_s, self._slots, self._then = now_s + FULL_EVERY_S, seen.slots, None
            gave_up = self._full is not None and self._full.token_alone_s is not None
            lengths, most_per_s = lengths_of(demand.past, now_s), self._pace.most_per_s(now_s)
            self._full = self._fullest(seen, lengths, _room(seen, lengths, room), most_per_s, gave_up=gave_up)
        return self._trusted(self._full)

    def look_at(self, seen: Situation, lengths: Lengths, room: float | None, now_s: float) -> Full:
        """The same with requests of these lengths, by what is known of those that come now."""
        if self._then is None or self._then[0] != lengths:
            now = lengths_of(seen.demand.past, now_s)
            most_per_s = self._pace.most_per_s(now_s)
            if now is not None and room is not None:
                room *= _held(now) / _held(lengths)
            if now is not None and most_per_s is not None:
                batch = 1.0 if self._full is None else self._full.batch
                took_s, takes_s = self._pace.answer_s(batch, *now), self._pace.answer_s(batch, *lengths)
                most_per_s *= took_s / takes_s if took_s and takes_s else 1.0
            gave_up = self._full is not None and self._full.token_alone_s is not None
            full = self._fullest(seen, lengths, _room(seen, lengths, room), most_per_s, gave_up=gave_up)
            self._then = lengths, full
        return self._trusted(self._then[1])

    def doubt(
        self, asks: float | None, ledger: float, strength: float, broken_s: float, now_s: float
    ) -> None:
        """A promise broken at a load that should be fine says that a replica carries less than was thought. ``asks`` and
        ``ledger`` are how many latencies and the ledger ask for, ``broken_s`` is for how long the promise has been broken."""
        if now_s < self._trust_next_s or asks is None or not strength:
            return
        self._trust_next_s = now_s + DERATE_EVERY_S
        is_fine = ledger <= strength and self._pace.settled_s(now_s) > 2 * KEPT_FOR_S
        if broken_s > KEPT_FOR_S and is_fine:
            self._trust = max(DERATE_LEAST, DERATE * self._trust)
        elif asks <= strength:
            self._trust = min(1.0, RERATE * self._trust)

    def _fullest(
        self,
        seen: Situation,
        lengths: Lengths | None,
        room: float | None,
        most_per_s: float | None,
        *,
        gave_up: bool,
    ) -> Full:
        return full_replica(
            self._pace,
            seen.demand.capacity,
            lengths,
            seen.promise,
            self._most(seen),
            room,
            seen.serving,
            most_per_s,
            gave_up=gave_up,
        )

    def _most(self, seen: Situation) -> tuple[float, str]:
        target = self._scaling.concurrency_target
        if target is not None and target < seen.slots:
            return target, "concurrency_target"
        return float(seen.slots), "slots"

    def _trusted(self, full: Full) -> Full:
        trust = self._trust
        if trust >= 1.0 or full.requests_per_s is None:
            return full
        brim = full.brim_per_s or full.requests_per_s
        return replace(
            full,
            batch=max(1.0, trust * full.batch),
            requests_per_s=trust * full.requests_per_s,
            brim_per_s=trust * brim,
        )


def lengths_of(past: Past, now_s: float) -> Lengths | None:
    """Mean prompt and answer over the shortest span that has enough of them, or over the longest."""
    for span_s in LENGTHS_S:
        if (past.ended_per_s(span_s, now_s) or 0.0) * span_s >= LENGTHS_LEAST:
            break
    prompt, output = past.mean_prompt_tokens(span_s, now_s), past.mean_output_tokens(span_s, now_s)
    return None if prompt is None or output is None else (prompt, output)


def _room(seen: Situation, lengths: Lengths | None, room: float | None) -> float | None:
    """Requests of these lengths that fit into a replica, by what the gateways know of its memory where pages do not say."""
    capacity = seen.demand.capacity
    if room is not None or lengths is None or capacity is None or capacity.kv_tokens is None:
        return room
    return capacity.kv_tokens / _held(lengths)


def _held(lengths: Lengths) -> float:
    """Tokens that one holds in memory, at the mean."""
    return max(1.0, lengths[0] + lengths[1] / 2)
