"""The nodes, and who waits for a place on them.

A start for which there is no place is tried again in every turn, so as soon as something goes. Smaller ones may take
what is free meanwhile, but not for ever: once a model has waited for ``PASSED_OVER_S``, the node on which the fewest GPUs
have to become free for it is kept for it. Nobody else is started there for ``KEPT_FOR_S``; after that it waits anew,
behind whoever else waits, so that what runs there for days does not hold back the small ones for days. One node is
kept at a time, for the one that has waited longest. Who sleeps there may wake.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.core.fleet.demand import DemandBook
from tidegate.core.fleet.placement import Ground, Outlook
from tidegate.core.fleet.plan import Plan
from tidegate.core.fleet.replicas import Replica, Replicas
from tidegate.core.fleet.scaling.wishes import NO_PLACE, Grant, Wish
from tidegate.core.fleet.sizes import Size
from tidegate.core.fleet.warmpool import Crew
from tidegate.core.nodes import NOWHERE, Node, Place
from tidegate.core.types import ModelId
from tidegate.core.values import value

PASSED_OVER_S = 60.0
"""Longer than most drains: what makes room of itself needs no node kept."""
KEPT_FOR_S = 300.0
"""As long as an idle replica usually stays. Of six minutes, the node is free for all in one at least."""


@value
class Kept:
    """A node that is kept free for one model's next start."""

    node: str
    model: ModelId
    until_s: float


class Places:
    """Knows the nodes; owns the line of those who wait."""

    def __init__(self) -> None:
        self._nodes: tuple[Node, ...] = ()
        self._outlook = Outlook()
        self._since_s: dict[ModelId, float] = {}
        """Since when each model waits for a place."""
        self._kept: Kept | None = None
        self._kinds = 0
        self._looked: tuple[list[Place], Kept | None] | None = None
        """What stood, and was kept, when it was last said where the next ones would go."""

    def __repr__(self) -> str:
        return f"<Places {len(self._nodes)} nodes, {len(self._since_s)} wait>"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Empty: not known, and GPUs are only counted."""
        return self._nodes

    @property
    def kept(self) -> Kept | None:
        """The node that is kept free at present."""
        return self._kept

    @property
    def due_s(self) -> float | None:
        """When the line moves by itself."""
        if self._kept is not None:
            return self._kept.until_s
        return min(self._since_s.values()) + PASSED_OVER_S if self._since_s else None

    def configure(self, nodes: tuple[Node, ...], sizes: Iterable[Size]) -> None:
        """These are the nodes, and replicas of these sizes may be started."""
        self._nodes = nodes
        self._kinds = len({gpu.kind for node in nodes for gpu in node.gpus})
        self._looked = None
        self._outlook = Outlook(sizes)
        if self._kept is not None and all(node.name != self._kept.node for node in nodes):
            self._kept = None

    def ground(self, replicas: Replicas) -> Ground | None:
        """With all that stands there at this moment; None where nodes are not known."""
        ground = self.bare()
        if ground is not None:
            for place in replicas.places():
                ground.hold(place)
        return ground

    def bare(self) -> Ground | None:
        """With nothing on it."""
        if not self._nodes:
            return None
        return Ground(self._nodes, self._outlook, self._kept.node if self._kept else None)

    def is_kept_for(self, model: ModelId) -> bool:
        """A node is kept free for this model."""
        return self._kept is not None and self._kept.model == model

    def next_starts(self, plans: Iterable[Plan], replicas: Replicas) -> Iterator[tuple[Plan, str, Place]]:
        """Where the next replica of each variant would go: now, or on empty nodes while there is no place for it. Nothing
        where that is as it was at the last look, as it always is on nodes of one kind."""
        look = (replicas.places(), self._kept) if self._kinds > 1 else ([], None)
        if look == self._looked:
            return
        empty = self.bare()
        if empty is None:
            return
        self._looked = look
        ground = self.ground(replicas) or empty
        for plan in plans:
            is_kept_for = self.is_kept_for(plan.model)
            for variant, size in plan.variants.sizes.items():
                if size.needs_place and (
                    place := ground.find(size, is_kept_for=is_kept_for) or empty.find(size, is_kept_for=True)
                ):
                    yield plan, variant, place

    def ground_beside(
        self,
        leaving: Iterable[Replica],
        wishes: list[Wish],
        plans: Mapping[ModelId, Plan],
        by_model: Mapping[ModelId, Sequence[Replica]],
        demand: DemandBook,
    ) -> Ground | None:
        """The nodes with what leaves, for the final clamp; the wishes then say where their own stand. None where nodes
        are not known, or nobody is to be started or woken: what stands has its place."""
        if all(wish.bounded <= wish.awake for wish in wishes):
            return None
        ground = self.bare()
        if ground is None:
            return None
        for replica in leaving:
            if replica.holds_place:
                ground.hold(replica.place)
        for index, wish in enumerate(wishes):
            crew, lineup = Crew.of(by_model.get(wish.model, ())), plans[wish.model].lineup
            staying = crew.by_staying(demand)
            if lineup is not None:
                places = {replica.replica_id: replica.place for replica in staying}
                named = [part.replica_id for part in lineup.parts if part.replica_id is not None]
                there = len(named) - lineup.asleep
                standing = [places.get(replica_id, NOWHERE) for replica_id in named[:there]]
                asleep = [replica for replica in crew.asleep if replica.replica_id in named[there:]]
            else:
                standing, asleep = [replica.place for replica in staying], crew.asleep
            wishes[index] = replace(
                wish,
                places=tuple(standing),
                beds=tuple(replica.place for replica in asleep if replica.place.gpus),
                is_kept_for=self.is_kept_for(wish.model),
            )
        return ground

    def clear(
        self,
        ground: Ground | None,
        leaving: Iterable[Replica],
        wishes: Iterable[Wish],
        grants: Mapping[ModelId, Grant],
    ) -> None:
        """What leaves is gone from this ground, and who waits for a place has it. What is left is for the pools: what
        a pool gives up for somebody must not go back to it."""
        if ground is None:
            return
        for replica in leaving:
            if replica.holds_place:
                ground.free(replica.place)
        for wish in wishes:
            granted = grants[wish.model]
            if granted.held_by != NO_PLACE or not wish.can_start:
                continue
            for number in range(granted.desired, wish.bounded):
                place = ground.find(wish.size_of(number), is_kept_for=wish.is_kept_for)
                if place is None:
                    break
                ground.hold(place)

    def note(
        self, wishes: Iterable[Wish], grants: Mapping[ModelId, Grant], replicas: Replicas, now_s: float
    ) -> None:
        """What was granted: whoever got less because there is no place waits for one."""
        if not self._nodes:
            return
        waiting = {
            wish.model: wish.size_of(grants[wish.model].desired)
            for wish in wishes
            if grants[wish.model].held_by == NO_PLACE and wish.can_start
        }
        self._since_s = {model: self._since_s.get(model, now_s) for model in waiting}
        if self._kept is not None and self._kept.model not in waiting:
            self._kept = None
        if self._kept is not None and now_s >= self._kept.until_s:
            self._since_s[self._kept.model] = now_s
            self._kept = None
        if self._kept is None and waiting:
            self._keep_one(waiting, replicas, now_s)

    def _keep_one(self, waiting: Mapping[ModelId, Size], replicas: Replicas, now_s: float) -> None:
        model = min(self._since_s, key=lambda each: (self._since_s[each], each))
        if now_s < self._since_s[model] + PASSED_OVER_S:
            return
        ground = self.ground(replicas)
        node = ground.most_free(waiting[model]) if ground else None
        if node is None:  # it fits on none, so none is of use to it
            self._since_s[model] = now_s
        else:
            self._kept = Kept(node, model, now_s + KEPT_FOR_S)
