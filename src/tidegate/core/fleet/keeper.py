"""The keeper of the replicas: its parts, what time does to replicas, and what others say of them.

It carries out numbers and decides none. The parts share one ``Roster``: ``Seeing`` takes in what was seen,
``Casting`` says who is to serve where a model has variants, ``Staffing`` brings each model to its number, ``Leaving`` sees
to the ends, ``Adapting`` to LoRA adapters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.core.effects import Promote
from tidegate.core.fleet import drain
from tidegate.core.fleet.adapting import Adapting
from tidegate.core.fleet.casting import Casting
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.leaving import Leaving
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.pooling import SLEEP_WITHIN_S, Pools
from tidegate.core.fleet.replacing import FailureBook
from tidegate.core.fleet.replicas import Replica, size_in
from tidegate.core.fleet.roster import Order, Roster
from tidegate.core.fleet.seeing import Seeing
from tidegate.core.fleet.staffing import Staffing
from tidegate.core.lifecycle import Seen, State
from tidegate.core.types import DemandReport, ModelId


class Keeper:
    """Owns the parts that give orders about replicas."""

    def __init__(self, demand: DemandBook) -> None:
        self.roster = Roster(demand)
        self.leaving = Leaving(self.roster)
        self.pools = Pools(self.roster.replicas, demand, self.roster.cold, self.leaving)
        self.seeing = Seeing(self.roster, self.leaving)
        self.casting = Casting(self.roster)
        self.staffing = Staffing(self.roster, self.pools, self.leaving)
        self.adapting = Adapting(self.roster.replicas)
        self._failing = FailureBook()

    def __repr__(self) -> str:
        return f"<Keeper {self.roster!r}>"

    def configure(self, plans: Mapping[ModelId, Plan]) -> None:
        """These models exist now."""
        self.roster.plans = plans
        self.pools.reserves.keep_only(plans)
        self.adapting.configure()
        self.casting.keep_only(plans)

    def hear(self, report: DemandReport, now_s: float) -> None:
        """A gateway's report: what failed where."""
        self._failing.hear(report, now_s)
        self.adapting.hear_report(report)

    # ---- what time brings ----

    def forget_gone(self, now_s: float) -> None:
        """Drop what gateways and replicas that have long been gone have left."""
        self._failing.forget_gone(now_s)
        self.roster.replicas.forget_ended(now_s)

    def look_after(self, now_s: float) -> list[Order]:
        """Give up starts that took too long, promote what is ready, forgive what has proven itself."""
        effects: list[Order] = []
        short = self._short()
        for replica in self.roster.replicas:
            if replica.state is State.SERVING:
                if not replica.is_forgiven:
                    self.roster.forgive(replica, now_s)
            elif replica.is_coming_up and now_s >= self._start_due_s(replica):
                effects.append(self._give_up(replica, now_s))
            # One that is ready without an address stays warm: no request can be sent there.
            elif replica.state is State.WARM and replica.address is not None:
                left = short.get(replica.model)
                if left is None:
                    # One that waited in a pool that is no more costs more from now on: that is looked at with the rest.
                    if replica.size == size_in(replica.spec, State.SERVING):
                        replica.move(Seen.PROMOTED, now_s)
                elif left and replica.since_s == now_s:
                    short[replica.model] = left - 1
                    if replica.has_served:
                        effects.append(Promote(replica.replica_id, replica.model, "it is awake, and wanted"))
                    replica.move(Seen.PROMOTED, now_s)
            if replica.sleep_ordered_s is not None and now_s >= replica.sleep_ordered_s + SLEEP_WITHIN_S:
                replica.move(Seen.UNRESPONSIVE, now_s)
                effects.append(
                    self.leaving.stop(replica, f"it has not gone to sleep in {SLEEP_WITHIN_S:g} s", now_s)
                )
        return effects

    def _short(self) -> dict[ModelId, int]:
        """Of models with a pool, how many more should serve: what has just come up serves or waits in the pool. With
        variants the line-up of this turn says who does."""
        short = {
            model: 0 if plan.variants.is_mixed else plan.desired
            for model, plan in self.roster.plans.items()
            if plan.spec.pool.is_used
        }
        if short:
            for replica in self.roster.replicas:
                if replica.state is State.SERVING and replica.model in short:
                    short[replica.model] = max(0, short[replica.model] - 1)
        return short

    def _give_up(self, replica: Replica, now_s: float) -> Order:
        before = replica.state
        deadline_s = self.roster.spec_of(replica).start_deadline_s
        what = "order to wake" if before is State.WAKING else "launch"
        detail = f"not ready {deadline_s:g} s after its {what}, last seen {before.value}"
        if replica.detail:
            detail += f": {replica.detail}"
        replica.move(Seen.GAVE_UP, now_s)
        self.roster.note_failure(replica, before, detail, now_s)
        return self.leaving.stop(replica, detail, now_s)

    # ---- what others say of a replica ----

    def replace_failing(self, by_model: Mapping[ModelId, Sequence[Replica]], now_s: float) -> None:
        """Begin to drain a replica at which request after request fails; see ``replacing`` for when not.

        Each plan gets a remark: what was done, or why nothing was.
        """
        for model, plan in self.roster.plans.items():
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
            elif not self.leaving.is_replacing(plan, by_model[model], now_s):
                self.leaving.replace([replica], verdict.because, now_s)
                self.roster.note_failure(replica, State.SERVING, verdict.because, now_s)
                plan.remark = f"{replica.replica_id} is replaced: {verdict.because}"

    # ---- the next moment ----

    def moments(self, now_s: float) -> list[float | None]:
        """When each replica is to be looked at again."""
        return [
            *self.staffing.leaves_s,
            self.adapting.due_s,
            *(self._due_s(replica, now_s) for replica in self.roster.replicas.not_serving()),
        ]

    def _start_due_s(self, replica: Replica) -> float:
        begun_s = replica.since_s if replica.state is State.WAKING else replica.start_counts_from_s
        return begun_s + self.roster.spec_of(replica).start_deadline_s

    def _due_s(self, replica: Replica, now_s: float) -> float | None:
        if replica.is_coming_up:
            return self._start_due_s(replica)
        if replica.stopped_s is not None and not replica.is_gone:
            return replica.stopped_s + drain.STOP_AGAIN_S
        if replica.state in (State.WARM, State.SLEEPING):
            return self.pools.due_s(replica, now_s)
        return replica.drain_due_s if replica.is_emptying else None
