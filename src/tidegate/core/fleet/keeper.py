"""The keeper of the replicas: what was seen of them, what time does to them, and the orders about them.

It carries out numbers and decides none. Its records are the only ones; each failure is remembered with
its reason, at its model's gate and for the admin page.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from tidegate.core.effects import Demote, Launch, Promote, Sleep, Stop, Wake
from tidegate.core.events import EngineReported, ReplicaAdopted, ReplicaSeen
from tidegate.core.fleet import drain
from tidegate.core.fleet.coldstart import ColdStarts
from tidegate.core.fleet.demand import DemandBook, known
from tidegate.core.fleet.launching import Launching
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.pooling import SLEEP_WITHIN_S, WAKE_AGAIN_S, Pools
from tidegate.core.fleet.replacing import FailureBook
from tidegate.core.fleet.replicas import Replica, Replicas
from tidegate.core.fleet.view import Failure
from tidegate.core.fleet.warmpool import Crew, may_return
from tidegate.core.lifecycle import Seen, State
from tidegate.core.settings import FleetModel
from tidegate.core.tiers import Tier
from tidegate.core.types import DemandReport, ModelId

FAILURES_KEPT = 50
"""How many failures of the whole fleet can be looked at; each model's last one is always kept."""

Order = Launch | Promote | Demote | Sleep | Wake | Stop


class Keeper:
    """Owns the records of all replicas."""

    def __init__(self, demand: DemandBook) -> None:
        self.replicas = Replicas()
        self.cold = ColdStarts()
        self.failures: deque[Failure] = deque(maxlen=FAILURES_KEPT)
        self.last_failure: dict[ModelId, Failure] = {}
        self.pools = Pools(self.replicas, demand, self.cold)
        self._demand = demand
        self._failing = FailureBook()
        self._replaced_s: dict[ModelId, float] = {}
        """When a replica of the model was last replaced."""
        self._plans: Mapping[ModelId, Plan] = {}
        self._leaves_s: list[float] = []
        """The moments at which those that are announced as leaving are to go."""

    def __repr__(self) -> str:
        return f"<Keeper {self.replicas!r} failures={len(self.failures)}>"

    def configure(self, plans: Mapping[ModelId, Plan]) -> None:
        """These models exist now."""
        self._plans = plans
        self.pools.keep_only(plans)

    def spec_of(self, replica: Replica) -> FleetModel:
        """Its model's settings as they are now; those it was launched with when the model is gone."""
        plan = self._plans.get(replica.model)
        return plan.spec if plan else replica.spec

    # ---- what was seen ----

    def adopt(self, event: ReplicaAdopted, now_s: float) -> list[Order]:
        """One that runs already joins as it is. The autoscaler keeps it until it has seen data."""
        known = self.replicas.get(event.replica_id)
        if known is not None and not known.is_ended:
            known.address = event.address
            return []
        plan = self._plans.get(event.model)
        spec = plan.spec if plan else FleetModel(engine="")
        state = State.SLEEPING if event.is_asleep else State.SERVING
        replica = self.replicas.adopt(event.replica_id, event.model, spec, event.address, now_s, state)
        if plan is None:
            replica.move(Seen.UNWANTED, now_s)
            return [self._stop(replica, f"no model {event.model!r} is configured", now_s)]
        if event.is_asleep:
            return []
        mine = self.replicas.by_model()[event.model]
        plan.autoscaler.adopt(sum(r.is_live for r in mine), now_s)
        return []

    def see(self, event: ReplicaSeen, now_s: float) -> list[Order]:
        """A backend saw something. What runs without a record is ended: nobody would ever stop it."""
        self.replicas.note_id(event.replica_id)
        if self.replicas.get(event.replica_id) is None:
            if event.seen in (Seen.EXITED, Seen.GAVE_UP):
                return []
            return [Stop(event.replica_id, "not a replica of this fleet")]
        before_s = self.replicas.since_s(event.replica_id)
        changed = self.replicas.see(event, now_s)
        if changed is None:
            return []
        replica, before = changed
        if event.seen is Seen.READY:
            self._note_ready(replica, now_s)
        elif event.seen is Seen.SLEPT and before is State.WAKING:
            replica.wake_again_s = now_s + WAKE_AGAIN_S
        elif event.seen is Seen.WOKEN:
            self._note_woken(replica, before_s, now_s)
        if replica.state is State.FAILED:
            self._note_failure(replica, before, event.detail or event.seen.value, now_s)
        if event.seen is Seen.GAVE_UP:
            return [self._stop(replica, "its backend gave up on its start", now_s)]
        if event.seen is Seen.UNRESPONSIVE:
            return [self._stop(replica, f"it is unresponsive: {event.detail or 'no answer'}", now_s)]
        return []

    def hear(self, report: DemandReport, now_s: float) -> None:
        """A gateway's report: what failed where."""
        self._failing.hear(report, now_s)

    def hear_engine(self, event: EngineReported, now_s: float) -> None:
        """An engine's own figures, for the admin page and the laws that read them. What is no number is not known."""
        replica = self.replicas.get(event.replica_id)
        if replica is None:
            return
        replica.engine_s = now_s
        usage = known(event.kv_usage_ratio)
        if usage != event.kv_usage_ratio:
            event = EngineReported(event.replica_id, event.running, event.waiting, usage)
        replica.engine = event

    def note_published(self, version: int) -> None:
        """The table of this version is the first that shows what has begun to drain."""
        for replica in self.replicas.not_serving():
            is_emptying = replica.is_emptying or replica.state is State.WARM
            if is_emptying and replica.drain_version is None:
                replica.drain_version = version

    def begin_drains_anew(self) -> None:
        """Versions have jumped: only a table still to be published proves that a gateway knows."""
        for replica in self.replicas:
            replica.drain_version = None

    def _note_ready(self, replica: Replica, now_s: float) -> None:
        replica.ready_s = now_s
        self.cold.learn(replica.model, now_s - replica.launched_s - (replica.fetch_s or 0.0))
        plan = self._plans.get(replica.model)
        if plan is not None:
            plan.gate.succeed()

    def _note_woken(self, replica: Replica, since_s: float, now_s: float) -> None:
        self.cold.learn(replica.home, now_s - since_s, Tier.SLEEPING)
        plan = self._plans.get(replica.model)
        if plan is not None:
            plan.gate.succeed()

    def _note_failure(self, replica: Replica, before: State, detail: str, now_s: float) -> None:
        """Failing to start counts against the model, and so does dying soon after being ready."""
        self._forgive(replica, now_s)
        replica.detail = detail
        failure = Failure(now_s, replica.model, replica.replica_id, before, detail)
        self.failures.append(failure)
        self.last_failure[replica.model] = failure
        plan = self._plans.get(replica.model)
        if plan is None or replica.is_forgiven:
            return
        line = " ".join(detail.split())[:300]
        plan.gate.fail(replica.number, self.replicas.highest(replica.model), line, now_s)

    # ---- what time brings ----

    def look_after(self, now_s: float) -> list[Order]:
        """Give up starts that took too long, promote what is ready, forgive what has proven itself."""
        effects: list[Order] = []
        short = self._short()
        for replica in self.replicas:
            if replica.state is State.SERVING:
                if not replica.is_forgiven:
                    self._forgive(replica, now_s)
            elif replica.is_coming_up and now_s >= self._start_due_s(replica):
                effects.append(self._give_up(replica, now_s))
            # One that is ready without an address stays warm: no request can be sent there.
            elif replica.state is State.WARM and replica.address is not None:
                left = short.get(replica.model)
                if left is None:
                    replica.move(Seen.PROMOTED, now_s)
                elif left and replica.since_s == now_s:
                    short[replica.model] = left - 1
                    if replica.has_served:
                        effects.append(Promote(replica.replica_id, replica.model, "it is awake, and wanted"))
                    replica.move(Seen.PROMOTED, now_s)
            if replica.sleep_ordered_s is not None and now_s >= replica.sleep_ordered_s + SLEEP_WITHIN_S:
                replica.move(Seen.UNRESPONSIVE, now_s)
                effects.append(
                    self._stop(replica, f"it has not gone to sleep in {SLEEP_WITHIN_S:g} s", now_s)
                )
        return effects

    def _short(self) -> dict[ModelId, int]:
        """Of models with a pool, how many more should serve: what has just come up serves or waits in the pool."""
        short = {model: plan.desired for model, plan in self._plans.items() if plan.spec.pool.is_used}
        if short:
            for replica in self.replicas:
                if replica.state is State.SERVING and replica.model in short:
                    short[replica.model] = max(0, short[replica.model] - 1)
        return short

    def _give_up(self, replica: Replica, now_s: float) -> Order:
        before = replica.state
        deadline_s = self.spec_of(replica).start_deadline_s
        what = "order to wake" if before is State.WAKING else "launch"
        detail = f"not ready {deadline_s:g} s after its {what}, last seen {before.value}"
        if replica.detail:
            detail += f": {replica.detail}"
        replica.move(Seen.GAVE_UP, now_s)
        self._note_failure(replica, before, detail, now_s)
        return self._stop(replica, detail, now_s)

    def _forgive(self, replica: Replica, now_s: float) -> None:
        """Once, when it has served for long enough."""
        forgiven_after_s = self.spec_of(replica).restarts.forgiven_after_s
        if replica.is_forgiven or replica.ready_s is None or now_s < replica.ready_s + forgiven_after_s:
            return
        replica.is_forgiven = True
        plan = self._plans.get(replica.model)
        if plan is not None:
            plan.gate.forgive()

    # ---- what others say of a replica ----

    def replace_failing(self, by_model: Mapping[ModelId, Sequence[Replica]], now_s: float) -> None:
        """Begin to drain a replica at which request after request fails; see ``replacing`` for when not.

        Each plan gets a remark: what was done, or why nothing was.
        """
        for model, plan in self._plans.items():
            plan.remark = ""
            if not self._failing:
                continue
            serving = [r for r in by_model.get(model, []) if r.state is State.SERVING]
            verdict = self._failing.verdict(serving, plan.spec.restarts.replace_after_failures, now_s)
            if verdict is None:
                continue
            replica = verdict.replica
            if replica is None:
                plan.remark = verdict.because
            elif not self._is_replacing(plan, by_model[model], now_s):
                self._replace([replica], verdict.because, now_s)
                self._note_failure(replica, State.SERVING, verdict.because, now_s)
                plan.remark = f"{replica.replica_id} is replaced: {verdict.because}"

    def _is_replacing(self, plan: Plan, replicas: Sequence[Replica], now_s: float) -> bool:
        """One is on its way out or the one for it on its way up, or its start fails: no other follows yet."""
        if plan.gate.block(now_s) is not None or any(r.is_replaced and not r.is_gone for r in replicas):
            return True
        since_s = self._replaced_s.get(plan.model)
        return since_s is not None and any(r.is_coming_up and r.launched_s >= since_s for r in replicas)

    def _note_replaced(self, replica: Replica, now_s: float) -> None:
        replica.is_replaced = True
        self._replaced_s[replica.model] = now_s

    # ---- the difference between wanted and there ----

    def act(
        self, by_model: Mapping[ModelId, Sequence[Replica]], launching: Launching, now_s: float
    ) -> list[Order]:
        """Keep, launch or drain until each model has its number, as far as room and gates allow."""
        unwanted = [
            r
            for r in self.replicas
            if r.model not in self._plans and (r.is_live or r.state is State.SLEEPING)
        ]
        effects = self._drain(unwanted, "its model was removed", now_s)
        self._leaves_s.clear()
        pooled: list[Plan] = []
        for model, plan in self._plans.items():
            replicas = by_model.get(model, [])
            if plan.spec.pool.group:  # one of them may have been lent in this very turn
                replicas = [replica for replica in replicas if replica.model == model]
            live = [replica for replica in replicas if replica.is_live]
            outdated = [r for r in live if r.spec is not plan.spec and plan.is_outdated(r)]
            if plan.desired and outdated:
                effects += self._renew(plan, replicas, launching, now_s)
                continue
            effects += self._staff(plan, replicas, launching, now_s)
            if plan.spec.pool.is_used or any(r.is_warm or r.state is State.SLEEPING for r in replicas):
                pooled.append(plan)
        # Last, so that what serves has had the room.
        for plan in pooled:
            effects += self._keep_pool(plan, launching, now_s)
        return effects

    def _staff(
        self, plan: Plan, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """Bring the number that serve, or come up to serve, to the one desired.

        Up, nearest first: promote, keep what drains, wake, launch. Down: what comes up and nobody waits for,
        then those with least to lose, into the pool if it takes them.
        """
        crew = Crew.of(replicas)
        effects: list[Order] = []
        leaving = self._leaving(plan, crew, now_s)
        missing = plan.desired - len(crew.serving)
        if missing > 0 and (crew.warm or plan.spec.pool.group):
            promoted = self.pools.promote(plan, missing, launching, now_s)
            effects += promoted
            missing -= len(promoted)
        lacking = missing - len(crew.coming)
        if lacking > 0:
            kept = drain.kept_first([r for r in crew.kept if not plan.is_outdated(r)])[:lacking]
            for replica in kept:
                self._keep(replica, now_s)
            lacking -= len(kept)
            woken = self.pools.wake(plan, crew, lacking, launching, plan.because, now_s)
            # One that is about to sleep is woken as soon as it does: sooner than any start would be over.
            lacking -= len(woken) + len(crew.dozing)
            coming_up = sum(r.is_coming_up for r in crew.coming)
            return effects + woken + self._launch(plan, lacking, coming_up, launching, now_s)
        idle = len(crew.coming) - max(0, missing)
        if idle > 0 and plan.spec.pool.is_used:
            idle -= min(idle, self.pools.short(plan, crew))
        if missing == 0 and not crew.coming:
            return effects  # nearly always
        standing = len(crew.serving) + len(crew.coming)
        because = f"{plan.desired} of {standing} wanted: {plan.because}"
        effects += self._drain(drain.victims(crew.coming, max(0, idle), self._demand), because, now_s)
        return effects + self._put_away(plan, crew, leaving, because, now_s)

    def _leaving(self, plan: Plan, crew: Crew, now_s: float) -> list[Replica]:
        """Of those that serve beyond the number desired, the ones to go in this turn; the others of them are announced.
        What a cap takes goes at once."""
        surplus = drain.victims(crew.serving, len(crew.serving) - plan.desired, self._demand)
        handover_s = 0.0 if plan.is_capped else plan.spec.handover_s
        gone = drain.due(crew.serving, surplus, handover_s, now_s)
        staying = [replica for replica in surplus if replica not in gone]
        self._leaves_s += [r.leaves_at_s for r in staying if r.leaves_at_s is not None]
        return gone

    def _put_away(
        self, plan: Plan, crew: Crew, replicas: Iterable[Replica], because: str, now_s: float
    ) -> list[Order]:
        """Into the pool as far as that takes them; the rest drains."""
        effects: list[Order] = []
        pool, grant = plan.spec.pool, self.pools.granted(plan.model)
        for replica in replicas:
            if pool.is_used and may_return(pool, crew, grant):
                crew.warm.append(replica)
                effects.append(self.pools.demote(replica, because, now_s))
            else:
                effects += self._drain([replica], because, now_s)
        return effects

    def _keep_pool(self, plan: Plan, launching: Launching, now_s: float) -> list[Order]:
        """Put to sleep, end, wake and start until the pool is as it should be."""
        effects: list[Order] = []
        mine = self.replicas.by_model().get(plan.model, [])
        waiting = [r for r in mine if r.is_warm or r.state is State.SLEEPING]
        outdated = [r for r in waiting if plan.is_outdated(r)]
        effects += self._drain(outdated, "its settings have changed", now_s)
        crew = Crew.of(mine)
        todo = self.pools.look_at(plan, crew, now_s)
        for replica, because in todo.to_end:
            effects += self._drain([replica], f"the pool: {because}", now_s)
        for replica, because in todo.to_sleep:
            effects.append(self.pools.put_to_sleep(plan, replica, f"the pool: {because}", now_s))
        if todo.to_wake:
            effects += self.pools.wake(plan, crew, todo.to_wake, launching, "the pool: one more warm", now_s)
        if todo.missing:
            coming_up = sum(r.is_coming_up for r in crew.coming)
            effects += self._launch(
                plan, todo.missing, coming_up, launching, now_s, "the pool is short of it"
            )
        return effects

    def _renew(
        self, plan: Plan, replicas: Sequence[Replica], launching: Launching, now_s: float
    ) -> list[Order]:
        """One step from replicas that were started under former settings to those of today.

        1. Old ones that serve stay until as many new ones serve; old ones on their way up go at once.
        2. New ones are launched one at a time, or as many as are missing.
        3. Where there is no room for one beside, an old one goes first, once nothing of its kind is on its
           way out or up and starts do not fail. What serves is worth more than what may never start.
        """
        live = [replica for replica in replicas if replica.is_live]
        for replica in live:
            replica.leaves_at_s = None  # who goes is another question now
        new = [replica for replica in live if not plan.is_outdated(replica)]
        old = [replica for replica in live if plan.is_outdated(replica)]
        unready = [replica for replica in old if replica.state is not State.SERVING]
        stay = max(0, plan.desired - sum(replica.state is State.SERVING for replica in new))
        effects = self._replace(unready, "its settings have changed", now_s)  # 1
        old = [replica for replica in old if replica.is_live]
        surplus = drain.victims(old, max(0, len(old) - stay), self._demand)
        effects += self._replace(surplus, "its settings have changed; a new one serves in its place", now_s)
        if any(replica.is_warm for replica in new):
            serving = sum(replica.state is State.SERVING for replica in new)
            effects += self.pools.promote(plan, plan.desired - serving, launching, now_s)
            new = [replica for replica in new if not replica.is_warm]
        excess = drain.victims(new, max(0, len(new) - plan.desired), self._demand)
        effects += self._drain(excess, f"{plan.desired} wanted: {plan.because}", now_s)
        old = [replica for replica in old if replica.is_live]
        coming_up = sum(replica.is_coming_up for replica in new if replica.is_live)
        missing = plan.desired - len(new) - len(old)
        if missing <= 0 and (not old or len(new) >= plan.desired or coming_up):
            return effects
        if missing > 0 or launching.has_room_beside(plan):
            return effects + self._launch(plan, max(1, missing), coming_up, launching, now_s)  # 2
        if not self._is_replacing(plan, replicas, now_s):
            first = drain.victims(old, 1, self._demand)
            why = "its settings have changed, and there is no room for a new one beside it"
            effects += self._replace(first, why, now_s)  # 3
        return effects

    def _replace(self, replicas: Iterable[Replica], because: str, now_s: float) -> list[Order]:
        chosen = list(replicas)
        effects = self._drain(chosen, because, now_s)
        for replica in chosen:
            self._note_replaced(replica, now_s)
        return effects

    def _keep(self, replica: Replica, now_s: float) -> None:
        replica.move(Seen.WANTED_AGAIN, now_s)
        replica.drain_due_s = None

    def _launch(
        self,
        plan: Plan,
        missing: int,
        coming_up: int,
        launching: Launching,
        now_s: float,
        because: str | None = None,
    ) -> list[Order]:
        effects: list[Order] = []
        for _ in range(plan.gate.allowed(missing, coming_up, now_s)):
            if not launching.take(plan):
                break
            replica = self.replicas.launch(plan.model, plan.spec, now_s)
            replica.fetch_s = self.cold.fetch_s(plan.model)
            effects.append(Launch(replica.replica_id, plan.model, because or plan.because))
        return effects

    def _drain(self, replicas: Iterable[Replica], because: str, now_s: float) -> list[Order]:
        """Begin the end of these. One that never served has nothing to wait for."""
        effects: list[Order] = []
        for replica in replicas:
            served = replica.state is State.SERVING or (replica.state is State.WARM and replica.has_served)
            replica.move(Seen.UNWANTED, now_s)
            replica.stop_because = because
            replica.drain_due_s = now_s + self.spec_of(replica).drain_deadline_s
            if not served:
                effects.append(self._stop(replica, because, now_s))
        return effects

    # ---- ends ----

    def stop_drained(self, now_s: float) -> list[Order]:
        """End what has drained, and once more what should have ended."""
        effects: list[Order] = []
        for replica in self.replicas.not_serving():
            if replica.state is State.DRAINING or (replica.stopped_s is not None and not replica.is_gone):
                because = drain.stop_because(replica, self._demand, now_s)
                if because is not None:
                    replica.stopped_s = now_s
                    effects.append(Stop(replica.replica_id, because))
        return effects

    def _stop(self, replica: Replica, because: str, now_s: float) -> Order:
        replica.stopped_s = now_s
        replica.stop_because = because
        return Stop(replica.replica_id, because)

    def moments(self, now_s: float) -> list[float | None]:
        """When each replica is to be looked at again."""
        return [*self._leaves_s, *(self._due_s(replica, now_s) for replica in self.replicas.not_serving())]

    def _start_due_s(self, replica: Replica) -> float:
        begun_s = replica.since_s if replica.state is State.WAKING else replica.start_counts_from_s
        return begun_s + self.spec_of(replica).start_deadline_s

    def _due_s(self, replica: Replica, now_s: float) -> float | None:
        if replica.is_coming_up:
            return self._start_due_s(replica)
        if replica.stopped_s is not None and not replica.is_gone:
            return replica.stopped_s + drain.STOP_AGAIN_S
        if replica.state in (State.WARM, State.SLEEPING):
            return self.pools.due_s(replica, now_s)
        return replica.drain_due_s if replica.is_emptying else None
