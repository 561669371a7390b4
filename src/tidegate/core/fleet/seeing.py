"""What was seen of replicas: their backends' facts, those that were found running, their engines' own figures."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from tidegate.core.effects import Stop
from tidegate.core.events import EngineReported, ReplicaAdopted, ReplicaSeen
from tidegate.core.fleet.aboard import Aboard
from tidegate.core.fleet.heard import known
from tidegate.core.fleet.leaving import Leaving
from tidegate.core.fleet.levers import named
from tidegate.core.fleet.pooling import WAKE_AGAIN_S
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.roster import Order, Roster
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import NOWHERE
from tidegate.core.settings import FleetModel
from tidegate.core.tiers import Tier

_STATES = {Tier.SERVING: State.SERVING, Tier.WARM: State.WARM, Tier.SLEEPING: State.SLEEPING}
"""Of what runs and is found again."""


class Seeing:
    """Takes facts about replicas into their records."""

    def __init__(self, roster: Roster, leaving: Leaving) -> None:
        self._roster = roster
        self._leaving = leaving

    def __repr__(self) -> str:
        return f"<Seeing {self._roster!r}>"

    def adopt(self, event: ReplicaAdopted, now_s: float) -> list[Order]:
        """One that runs already joins in its tier. Those that serve are kept by the autoscaler until it has seen data."""
        known = self._roster.replicas.get(event.replica_id)
        if known is not None and not known.is_ended:
            known.address = event.address
            return []
        plan = self._roster.plans.get(event.model)
        place = event.place or NOWHERE
        alien = FleetModel(engine="", gpus=len(place.gpus), memory_bytes=place.memory_bytes)
        spec = plan.spec_as(event.variant) if plan else alien
        aboard = None if event.adapters is None else Aboard(event.adapters, event.adapters_before)
        if aboard is not None and aboard.clashes(spec):
            spec = replace(spec)  # a copy: it was not started as one would be now
        replica = self._roster.replicas.adopt(
            event.replica_id,
            event.model,
            spec,
            event.address,
            now_s,
            _STATES[event.tier],
            event.variant,
            place,
            aboard,
        )
        if plan is None:
            replica.move(Seen.UNWANTED, now_s)
            return [self._leaving.stop(replica, f"no model {event.model!r} is configured", now_s)]
        if event.tier is not Tier.SERVING:
            return []  # what waits in the pool is nobody's need
        mine = self._roster.replicas.by_model()[event.model]
        standing = [replica for replica in mine if replica.is_live and replica.state is not State.WARM]
        carried = sum(plan.variants.share_of(replica) for replica in standing)
        plan.need.adopt(carried)
        plan.autoscaler.adopt(ceil(carried), now_s)
        return []

    def see(self, event: ReplicaSeen, now_s: float) -> list[Order]:
        """A backend saw something. What runs without a record is ended: nobody would ever stop it."""
        self._roster.replicas.note_id(event.replica_id)
        if self._roster.replicas.get(event.replica_id) is None:
            if event.seen in (Seen.EXITED, Seen.GAVE_UP):
                return []
            return [Stop(event.replica_id, "not a replica of this fleet")]
        before_s = self._roster.replicas.since_s(event.replica_id)
        changed = self._roster.replicas.see(event, now_s)
        if changed is None:
            return []
        replica, before = changed
        if event.seen is Seen.READY:
            self._note_ready(replica, event, now_s)
        elif event.seen is Seen.SLEPT and before is State.WAKING:
            replica.wake_again_s = now_s + WAKE_AGAIN_S
        elif event.seen is Seen.WOKEN:
            self._note_woken(replica, before_s, now_s)
        if replica.state is State.FAILED:
            self._roster.note_failure(replica, before, event.detail or event.seen.value, now_s)
        if event.by_hand and replica.state is State.FAILED and before is State.SERVING:
            plan = self._roster.plans.get(replica.model)
            if plan is not None:
                plan.ended_by_hand(now_s)
        if event.seen is Seen.GAVE_UP:
            return [self._leaving.stop(replica, "its backend gave up on its start", now_s)]
        if event.seen is Seen.UNRESPONSIVE:
            return [self._leaving.stop(replica, f"it is unresponsive: {event.detail or 'no answer'}", now_s)]
        return []

    def hear_engine(self, event: EngineReported, now_s: float) -> None:
        """An engine's own figures, for the admin page and the laws that read them. What is no number is not known."""
        replica = self._roster.replicas.get(event.replica_id)
        if replica is None:
            return
        replica.engine_s = now_s
        usage = known(event.kv_usage_ratio)
        if usage != event.kv_usage_ratio:
            event = EngineReported(event.replica_id, event.running, event.waiting, usage, event.adapters)
        replica.engine = event
        plan, load = self._roster.plans.get(replica.model), self._roster.demand.load(replica.replica_id)
        if replica.batch.note(event, load.in_flight if load else 0) and plan is not None:
            mine = self._roster.replicas.by_model()[replica.model]
            plan.batches.learn(replica.variant, [each for each in mine if not plan.is_outdated(each)])

    def _note_ready(self, replica: Replica, event: ReplicaSeen, now_s: float) -> None:
        replica.ready_s = now_s
        took_s = now_s - replica.launched_s - (replica.fetch_s or 0.0)
        stages = named(replica.stages_s, dict(event.parts))
        cold = self._roster.cold
        kind = cold.kinds.of(replica)
        cold.learn(replica.model, took_s, kind=kind, stages=stages, beside=replica.is_beside)
        plan = self._roster.plans.get(replica.model)
        if plan is not None:
            plan.variants.gate(replica.variant).succeed()

    def _note_woken(self, replica: Replica, since_s: float, now_s: float) -> None:
        cold = self._roster.cold
        cold.learn(replica.home, now_s - since_s, Tier.SLEEPING, cold.kinds.of(replica))
        plan = self._roster.plans.get(replica.model)
        if plan is not None:
            plan.variants.gate(replica.variant).succeed()
