"""Ends: a replica begins to drain, is stopped, and is asked for its end again until that is seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.core.effects import Stop
from tidegate.core.fleet import drain
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, size_in
from tidegate.core.fleet.roster import Order, Roster
from tidegate.core.lifecycle import Seen, State
from tidegate.core.types import ModelId


class Leaving:
    """Begins and completes the ends of replicas."""

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._replaced_s: dict[ModelId, float] = {}
        """When a replica of the model was last replaced."""

    def __repr__(self) -> str:
        return f"<Leaving replaced={len(self._replaced_s)}>"

    def drain(self, replicas: Iterable[Replica], because: str, now_s: float) -> list[Order]:
        """Begin the end of these. One that never served has nothing to wait for."""
        effects: list[Order] = []
        for replica in replicas:
            served = replica.state is State.SERVING or (replica.state is State.WARM and replica.has_served)
            replica.move(Seen.UNWANTED, now_s)
            replica.stop_because = because
            replica.drain_due_s = now_s + self._roster.spec_of(replica).drain_deadline_s
            if not served:
                effects.append(self.stop(replica, because, now_s))
        return effects

    def call_back(self, replicas: Iterable[Replica], launching: Launching, now_s: float) -> int:
        """These drain and are wanted again, as far as the caps let them: one that drains out of the pool costs less than
        one that serves. How many of them serve now."""
        called = 0
        for replica in replicas:
            if launching.exchange(replica.size, size_in(replica.spec, State.SERVING)) is None:
                replica.move(Seen.WANTED_AGAIN, now_s)
                replica.drain_due_s = None
                called += 1
        return called

    def replace(self, replicas: Iterable[Replica], because: str, now_s: float) -> list[Order]:
        """Drain these for others that take their place: they are not kept, whatever is wanted later."""
        chosen = list(replicas)
        effects = self.drain(chosen, because, now_s)
        for replica in chosen:
            self._note_replaced(replica, now_s)
        return effects

    def is_replacing(self, plan: Plan, replicas: Sequence[Replica], now_s: float) -> bool:
        """One is on its way out or the one for it on its way up, or its start fails: no other follows yet."""
        if plan.variants.block(now_s) is not None or any(r.is_replaced and not r.is_gone for r in replicas):
            return True
        since_s = self._replaced_s.get(plan.model)
        return since_s is not None and any(r.is_coming_up and r.launched_s >= since_s for r in replicas)

    def stop(self, replica: Replica, because: str, now_s: float) -> Order:
        """Order its end now."""
        replica.stopped_s = now_s
        replica.stop_because = because
        return Stop(replica.replica_id, because)

    def stop_drained(self, now_s: float) -> list[Order]:
        """End what has drained, and once more what should have ended."""
        effects: list[Order] = []
        for replica in self._roster.replicas.not_serving():
            if replica.state is State.DRAINING or (replica.stopped_s is not None and not replica.is_gone):
                because = drain.stop_because(replica, self._roster.demand, now_s)
                if because is not None:
                    replica.stopped_s = now_s
                    effects.append(Stop(replica.replica_id, because))
        return effects

    def note_published(self, version: int) -> None:
        """The table of this version is the first that shows what has begun to drain."""
        for replica in self._roster.replicas.not_serving():
            is_emptying = replica.is_emptying or replica.state is State.WARM
            if is_emptying and replica.drain_version is None:
                replica.drain_version = version

    def begin_drains_anew(self) -> None:
        """Versions have jumped: only a table still to be published proves that a gateway knows."""
        for replica in self._roster.replicas:
            replica.drain_version = None

    def _note_replaced(self, replica: Replica, now_s: float) -> None:
        replica.is_replaced = True
        self._replaced_s[replica.model] = now_s
