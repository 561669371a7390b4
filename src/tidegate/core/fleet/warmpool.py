"""The pool of one model's loaded replicas without traffic, and its sleepers: who comes, who goes, in which order.

The rule (the worked case ``warm_pool``): first in, first out. Activation takes the one that has been warm for
longest, at once. One that is not needed any more goes back to the end of the line, and its time to live begins
anew, unless the line holds ``max_warm`` already. An empty line activates nothing. ``min_warm`` are always held;
what the cheapest mix of tiers asks for beyond that is held within the maxima.

Everything here is a choice among records; nothing is remembered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.fleet import drain
from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.scaling.limits import PoolGrant
from tidegate.core.fleet.tiers import Held
from tidegate.core.lifecycle import State
from tidegate.core.settings import Pool

FOR_POOL = "the pool"
"""So begins the reason of each order that is given to keep a pool, and of no other."""


def in_line(replicas: Iterable[Replica]) -> list[Replica]:
    """Those that could serve at once: the one that has been warm for longest first."""
    return sorted((r for r in replicas if r.is_warm), key=lambda r: (r.since_s, r.number))


@dataclass(frozen=True, slots=True)
class Crew:
    """One model's replicas, by what can be done with them."""

    serving: list[Replica]
    coming: list[Replica]
    warm: list[Replica]
    """In the pool's order."""
    dozing: list[Replica]
    """Told to sleep."""
    asleep: list[Replica]
    """The one that has slept for longest first."""
    kept: list[Replica]
    """Draining, and could be kept."""

    @classmethod
    def of(cls, replicas: Iterable[Replica]) -> Crew:
        """Sorted out, each in order of number but for the pool's own."""
        serving: list[Replica] = []
        coming: list[Replica] = []
        warm: list[Replica] = []
        dozing: list[Replica] = []
        asleep: list[Replica] = []
        kept: list[Replica] = []
        for replica in replicas:
            if replica.state is State.SERVING:
                serving.append(replica)
            elif replica.is_nearly_up:
                coming.append(replica)
            elif replica.state is State.WARM:
                (dozing if replica.sleep_ordered_s is not None else warm).append(replica)
            elif replica.state is State.SLEEPING:
                asleep.append(replica)
            elif replica.can_be_kept:
                kept.append(replica)
        warm = in_line(warm)
        asleep.sort(key=lambda replica: (replica.since_s, replica.number))
        return cls(serving, coming, warm, dozing, asleep, kept)

    def by_staying(self, demand: DemandBook) -> list[Replica]:
        """Those that are awake, who would be kept longest first."""
        serving = drain.victims(self.serving, len(self.serving), demand)
        return [*reversed(serving), *self.warm, *self.coming, *drain.kept_first(self.kept), *self.dozing]

    def beside(self, plan: Plan) -> Beside:
        """What is left for the pool when all that are to serve have been taken out."""
        if plan.lineup is None:
            filled = min(len(self.serving), plan.desired)
            warm = self.warm[max(0, plan.desired - filled) :]
        else:
            named = plan.named
            filled = sum(replica.replica_id in named for replica in self.serving)
            warm = [replica for replica in self.warm if replica.replica_id not in named]
        missing = plan.desired - filled - (len(self.warm) - len(warm))
        coming = self.coming[max(0, missing) :]
        return Beside(warm, self.dozing, self.asleep, coming, len(self.serving) - filled)


@dataclass(frozen=True, slots=True)
class Beside:
    """One model's pool: whoever is in it, and whoever may come to it."""

    warm: list[Replica]
    """The one that has been warm for longest first."""
    dozing: list[Replica]
    asleep: list[Replica]
    """The one that has slept for longest first."""
    coming: list[Replica]
    """They come up, and nobody waits for them."""
    surplus: int = 0
    """So many serve that need not."""


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is to be done about a pool now. Nobody is in two of these."""

    to_sleep: list[tuple[Replica, str]]
    to_end: list[tuple[Replica, str]]
    to_wake: int
    missing: int
    """To be started for the pool."""
    warm: int
    asleep: int
    """So many are to be held."""
    mix: Held
    """What the cheapest mix asks for."""


def may_return(pool: Pool, crew: Crew | Beside, grant: PoolGrant) -> bool:
    """One that is not needed any more may go to the pool: among the warm, or through them to the sleepers."""
    if len(crew.warm) < min(pool.max_warm, grant.warm):
        return True
    return len(crew.asleep) + len(crew.dozing) + _surplus(crew, pool, grant) < min(
        pool.max_sleeping, grant.sleeping
    )


def upkeep(
    pool: Pool,
    crew: Beside,
    asked: Held,
    grant: PoolGrant,
    sleepable: Sequence[Replica],
    now_s: float,
    *,
    is_known: bool = True,
) -> Upkeep:
    """One look at the pool.

    1. Beyond the most that may be warm: those in whose place somebody is to start, then the oldest; to sleep if they
       may, else for good.
    2. Warm for longer than its time to live, and not asked for: it goes for good.
    3. Not asked for, for a while: it goes to sleep; at once when sleepers are asked for.
    4. Sleepers beyond the most there may be, or past their time to live and not asked for, go.
    5. What is asked for and not there is missing, as far as it was granted.

    ``asked``: what the cheapest mix asks for. ``sleepable`` are those of the warm whose requests have all ended. While the
    demand is not known (``is_known``), time takes nobody away: only the caps do.
    """
    most_warm, most_asleep = min(pool.max_warm, grant.warm), min(pool.max_sleeping, grant.sleeping)
    asked_warm = min(most_warm, max(pool.min_warm, asked.warm))
    asked_asleep = min(most_asleep, asked.sleeping)
    to_sleep: list[tuple[Replica, str]] = []
    to_end: list[tuple[Replica, str]] = []
    beds = most_asleep - len(crew.asleep) - len(crew.dozing)
    warm = sorted(crew.warm, key=lambda replica: replica.replica_id not in grant.in_the_way)
    while warm and (len(warm) > most_warm or warm[0].replica_id in grant.in_the_way):  # 1
        replica = warm.pop(0)
        is_in_the_way = replica.replica_id in grant.in_the_way
        because = "another replica is to have its place" if is_in_the_way else f"{most_warm} may be warm"
        if beds <= 0:
            to_end.append((replica, because))
        else:
            beds -= 1
            if replica in sleepable:
                to_sleep.append((replica, because))
    spare = len(warm) - asked_warm
    for replica in warm[: max(0, spare)] if is_known else ():
        is_short = len(crew.asleep) + len(crew.dozing) + len(to_sleep) < asked_asleep
        if now_s >= replica.since_s + pool.warm_ttl_s:  # 2
            to_end.append((replica, f"warm for {pool.warm_ttl_s:g} s, and not asked for"))
        elif (
            beds > 0 and replica in sleepable and (is_short or now_s >= replica.since_s + pool.sleep_after_s)
        ):  # 3
            beds -= 1
            to_sleep.append((replica, f"{asked_warm} warm ones are enough"))
    asleep = list(crew.asleep)
    while asleep and len(asleep) > most_asleep:  # 4
        to_end.append((asleep.pop(0), f"{most_asleep} may sleep"))
    for replica in asleep[: max(0, len(asleep) - asked_asleep)] if is_known else ():
        if now_s >= replica.since_s + pool.sleeping_ttl_s:
            because = f"asleep for {pool.sleeping_ttl_s:g} s, and not asked for"
            to_end.append((replica, because))
    coming = len(crew.coming)
    short = asked_warm - len(crew.warm) - coming  # 5
    to_wake = max(0, min(short, len(asleep) - asked_asleep))
    has = len(crew.warm) + coming + len(crew.asleep) + len(crew.dozing)
    missing = max(0, asked_warm + asked_asleep - has)
    return Upkeep(to_sleep, to_end, to_wake, missing, asked_warm, asked_asleep, asked)


def _surplus(crew: Crew | Beside, pool: Pool, grant: PoolGrant) -> int:
    """Warm ones that wait for a bed."""
    return max(0, len(crew.warm) - min(pool.max_warm, grant.warm))
