"""One model's autoscaler: its policy, and the rules that hold for every policy.

- Nothing queued or in flight is ever met with zero replicas, whatever a window says.
- The last replica goes only when the idle time is over. It counts from the end of the last request and
  from the first readiness: a replica that takes longer to load than the idle time would otherwise be
  stopped before it ever served.
- Never below what the schedule says for this hour, begun early enough for replicas to be ready in it.
- No shrinking until a full window of data has been seen: after the controller's start, after an
  adoption, after a change of settings, after a gap.
"""

from __future__ import annotations

from dataclasses import field, replace
from math import ceil

from tidegate.core.fleet.coldstart import Readiness
from tidegate.core.fleet.scaling.policies import Coming, Demand, EngineSeen, Proposal, Situation, policy_for
from tidegate.core.fleet.scaling.policies.largest import learners
from tidegate.core.fleet.scaling.schedule import floor_at
from tidegate.core.knowledge import KnownTidal
from tidegate.core.scaling_settings import Scaling
from tidegate.core.values import value

SCHEDULE_RISK = 0.9
"""Replicas that the schedule asks for are ready in time with this probability."""


@value
class Standing:
    """One model's replicas, counted."""

    coming_up: float = 0
    """This and the next, ``live`` and ``kept`` are in replicas of the first variant where there are several."""
    serving: float = 0
    serving_slots: int = 0
    first_ready_s: float | None = None
    """When the first of those that serve now became ready; None when none serves."""
    live: float = 0
    """Serving or on the way to it."""
    kept: float = 0
    """Draining, and could be kept."""
    there: int = 0
    """All that could serve without a start: live, kept, warm and asleep."""
    coming: tuple[Coming, ...] = ()
    """Those that come up."""
    engines: tuple[EngineSeen, ...] = field(default=(), compare=False)
    """What those that serve say of themselves, where the law reads that. Two are equal whatever it is: pages come all the
    time, and are no reason to ask the law anew."""
    readiness: Readiness = Readiness()
    slots: int = 8
    """Of one replica started now, as the next one is."""
    price_per_h: float = 0.0
    asleep: int = 0
    """Of those there, the ones that sleep."""
    bounds: tuple[int, int] | None = None
    """Between which the number can be, where that is not what the settings say: of variants that carry less or more."""
    is_owed: bool = False
    """One has gone for another that is to take its place, and that has not been started yet."""
    has_others: bool = False
    """Some of those that serve are not of the first variant."""


class Autoscaler:
    """Proposes a number for one model. Owns the policy's memory."""

    def __init__(self, scaling: Scaling, now_s: float, least: int | None = None) -> None:
        """``least`` is what it begins with, where that is not the minimum of the settings."""
        self._scaling = scaling
        self._proposed = 0
        self._begin(scaling.min_replicas if least is None else least, now_s)

    def __repr__(self) -> str:
        return f"<Autoscaler {self._scaling.policy.value} proposes {self._proposed}>"

    @property
    def reads_engines(self) -> bool:
        """The law looks at the engines' own pages."""
        return bool(getattr(self._policy, "reads_engines", False))

    def configure(self, scaling: Scaling, now_s: float) -> None:
        """New settings. What stands keeps standing until the new ones have seen a full window."""
        if scaling != self._scaling:
            self._scaling = scaling
            self._begin(self._proposed, now_s)

    def adopt(self, live: int, now_s: float) -> None:
        """So many run already. Somebody wanted them: keep them until data says otherwise."""
        self._begin(max(live, self._proposed), now_s)

    def remember(self, now_s: float) -> KnownTidal | None:
        """What the policy has learned and outlives this process; None when it learns nothing."""
        return next((one.remember(now_s) for one in learners(self._policy)), None)

    def restore(self, known: KnownTidal | None, now_s: float) -> None:
        """Go on from what a former process knew. The full window before a replica may go begins anew all the same."""
        if known is not None:
            for one in learners(self._policy):
                one.restore(known, now_s)

    def propose(self, demand: Demand, standing: Standing, now_s: float) -> Proposal:
        """How many replicas this model should have, before the limits of the whole fleet."""
        scaling = self._scaling
        least, most = standing.bounds or (scaling.min_replicas, scaling.max_replicas)
        scheduled, schedule_due_s = self._schedule_floor(standing, now_s)
        # The law is told, and does not try at each of its turns to go where it may not.
        own_least, least = least, max(least, min(scheduled, most))
        floor, floor_by, idle_due_s = self._floor(demand, standing, now_s)
        shrink_from_s = self._shrink_from_s(demand)
        seen = Situation(
            demand=demand,
            standing=max(least, min(self._proposed, most)),
            min_replicas=least,
            max_replicas=most,
            floor=min(floor, most),
            floor_by=floor_by,
            live=ceil(standing.coming_up + standing.serving),
            serving=ceil(standing.serving),
            serving_slots=standing.serving_slots,
            may_shrink=shrink_from_s is not None and now_s >= shrink_from_s,
            slots=standing.slots,
            price_per_h=standing.price_per_h,
            promise=scaling.promise,
            coming=standing.coming,
            readiness=standing.readiness,
            engines=standing.engines,
            exact=standing.serving if standing.bounds else None,
            has_others=standing.has_others,
        )
        proposal = self._policy.propose(seen, now_s)
        if scaling.schedule.floors:
            proposal = _scheduled(
                proposal, scheduled, max(own_least, min(proposal.asked, most)), schedule_due_s
            )
        self._proposed = seen.within(proposal.wanted)
        if proposal.held_by is None:
            return proposal
        moments = (proposal.due_at_s, idle_due_s, shrink_from_s)
        ahead = [moment for moment in moments if moment is not None and moment > now_s]
        # Not dataclasses.replace: this is done in nearly every turn, and that takes longer than the law.
        return Proposal(
            proposal.wanted,
            proposal.asked,
            proposal.because,
            proposal.held_by,
            min(ahead, default=None),
            proposal.inputs,
            proposal.needed,
        )

    def _schedule_floor(self, standing: Standing, now_s: float) -> tuple[int, float | None]:
        """The least number that the schedule has for now, and when that changes; begun early enough to be ready by then."""
        schedule = self._scaling.schedule
        if not schedule.floors:
            return 0, None
        lead_s = standing.readiness.quantile_s(SCHEDULE_RISK) or 0.0
        return floor_at(schedule, now_s, lead_s)

    def _begin(self, standing: int, now_s: float) -> None:
        before = getattr(self, "_policy", None)
        self._policy = policy_for(self._scaling, standing, now_s)
        for one in learners(self._policy):
            for former in learners(before):
                one.inherit(former)
        self._proposed = standing
        self._since_s = now_s

    def _shrink_from_s(self, demand: Demand) -> float | None:
        if demand.complete_since_s is None:
            return None
        window_s = max(self._scaling.window_s, self._scaling.scale_down_delay_s)
        return max(demand.complete_since_s, self._since_s) + window_s

    def _floor(
        self, demand: Demand, standing: Standing, now_s: float
    ) -> tuple[int, str | None, float | None]:
        """The least number, the rule that sets it, and when that rule ends by itself."""
        if demand.concurrency > 0:
            return 1, "in_use", None
        if self._proposed == 0:
            return 0, None, None
        if standing.first_ready_s is None:
            # Nothing came of the wake-up so far. While it is still on its way, it may.
            return (1, "coming_up", None) if standing.coming_up else (0, None, None)
        idle_since_s = max(standing.first_ready_s, demand.last_active_s or standing.first_ready_s)
        idle_due_s = idle_since_s + self._scaling.scale_down_delay_s
        return (1, "idle_time", idle_due_s) if now_s < idle_due_s else (0, None, None)


def _scheduled(proposal: Proposal, floor: int, alone: int, next_s: float | None) -> Proposal:
    """The proposal with the schedule's reason, where it is the schedule that lifts it above what is asked ``alone``."""
    if floor < proposal.wanted or floor <= alone:
        # The next floor may be the one that lifts it.
        dues = [due_s for due_s in (proposal.due_at_s, next_s) if due_s is not None]
        return replace(proposal, due_at_s=min(dues, default=None))
    because = f"{proposal.because}; the schedule says {floor}"
    return Proposal(floor, proposal.asked, because, "schedule", next_s, proposal.inputs)
