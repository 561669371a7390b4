"""Which LoRA adapters each replica has, which it is to have, and what becomes of the orders about them.

A replica is to have all adapters of its model. Where its engine can load them while it runs, it is ordered to, one at a
time: those that requests wait for first, then in the order of the policy file. Those that were taken out of the policy
are unloaded, and no longer routed to from the same moment on. What fails is tried again as starts are (``Restarts``):
after a pause that doubles, and less often once that has been in vain; meanwhile the others go on.

A name stands for one source in the life of an engine. vLLM finds the prompts that it has computed under an adapter by
that adapter's name (vllm#42125), so one that is loaded from elsewhere under its old name would answer from the old one's
cache. A replica that has had the name from another source is replaced instead (``Plan.is_outdated``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.core.effects import LoadAdapter, UnloadAdapter
from tidegate.core.events import AdapterSeen
from tidegate.core.fleet.aboard import Aboard
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, Replicas
from tidegate.core.lifecycle import State
from tidegate.core.types import AdapterTrouble, DemandReport, ModelId


class Adapting:
    """Gives the orders, one at a time for each replica. The records are the replicas' own."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._awaited: dict[str, dict[ModelId, tuple[str, ...]]] = {}
        """By gateway: adapters that requests wait for."""
        self._has_news = False
        self._due_s: float | None = None

    def __repr__(self) -> str:
        return f"<Adapting awaited={len(self._awaited)} due_s={self._due_s}>"

    @property
    def due_s(self) -> float | None:
        """When to look again without news."""
        return self._due_s

    def look_again(self) -> None:
        """A replica came up, or is another's."""
        self._has_news = True

    def configure(self) -> None:
        """Other settings: what failed may go well now."""
        self._has_news = True
        for replica in self._replicas:
            if replica.aboard is not None:
                replica.aboard.troubles.clear()

    def hear_report(self, report: DemandReport) -> None:
        """What requests wait for at a gateway."""
        said = {demand.model: demand.adapters_awaited for demand in report.models if demand.adapters_awaited}
        if said != self._awaited.get(report.gateway, {}):
            self._has_news = True
            self._awaited[report.gateway] = said

    def hear(self, event: AdapterSeen, now_s: float) -> None:
        """What came of an order."""
        replica = self._replicas.get(event.replica_id)
        if replica is None or replica.aboard is None:
            return
        replica.aboard.hear(event, replica.spec.restarts, now_s)
        self._has_news = True

    def orders(self, plans: Mapping[ModelId, Plan], now_s: float) -> list[LoadAdapter | UnloadAdapter]:
        """Those that can be given now."""
        if not self._has_news and (self._due_s is None or now_s < self._due_s):
            return []  # nearly always
        self._has_news = False
        effects: list[LoadAdapter | UnloadAdapter] = []
        moments: list[float] = []
        for replica in self._replicas:
            plan, aboard = plans.get(replica.model), replica.aboard
            if plan is None or aboard is None or replica.state not in (State.SERVING, State.WARM):
                continue
            if plan.spec.loads_adapters and not plan.is_outdated(replica):
                effects += self._orders_to(replica, aboard, plan, now_s)
            due_s = aboard.due_s()
            if due_s is not None:
                moments.append(due_s)
        self._due_s = min(moments, default=None)
        return effects

    def _orders_to(
        self, replica: Replica, aboard: Aboard, plan: Plan, now_s: float
    ) -> list[LoadAdapter | UnloadAdapter]:
        wanted = dict(plan.spec.adapters or ())
        aboard.settle(wanted)
        awaited = [name for said in self._awaited.values() for name in said.get(plan.model, ())]
        order = aboard.next_order(wanted, awaited, now_s)
        if order is None:
            return []
        name, loads = order
        aboard.ordered(name, wanted[name] if loads else None, now_s)
        if not loads:
            return [UnloadAdapter(replica.replica_id, name, f"{plan.model} has it no longer")]
        because = "requests wait for it" if name in awaited else f"{plan.model} has it"
        trouble = aboard.troubles.get(name)
        if trouble is not None:
            because += f"; attempt {trouble.failures + 1}"
        return [LoadAdapter(replica.replica_id, name, because)]


def troubles_of(plan: Plan, replicas: Iterable[Replica]) -> tuple[AdapterTrouble, ...]:
    """The adapters of a model that no replica has, and none that serves will have soon."""
    if not plan.spec.loads_adapters:
        return ()
    serving = [replica.aboard for replica in replicas if replica.state is State.SERVING]
    if not any(aboard is not None and aboard.troubles for aboard in serving):
        return ()  # nearly always
    found = []
    most = plan.spec.restarts.give_up_after
    for name, _ in plan.spec.adapters or ():
        told = [aboard.troubles.get(name) if aboard is not None else None for aboard in serving]
        given_up = [trouble for trouble in told if trouble is not None and trouble.failures >= most]
        if len(given_up) == len(serving):
            soonest = min(given_up, key=lambda trouble: trouble.again_s)
            because = f"the adapter {name!r} could not be loaded: {soonest.because}"
            found.append(AdapterTrouble(name, because, soonest.again_s))
    return tuple(found)
