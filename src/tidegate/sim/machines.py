"""Nodes, their GPUs, and what is already on their disks.

Either the controller knows the nodes and says where each replica goes: then places are taken and given back here, and one
that is not free is refused. Or it does not, and whoever needs GPUs gets the next that are free.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidegate.core import nodes
from tidegate.core.fleet.placement import Ground, Outlook
from tidegate.core.fleet.replicas import size_in
from tidegate.core.lifecycle import State
from tidegate.core.nodes import NOWHERE, Place
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import Build
from tidegate.sim.scenario import Machines, ModelSetup, Scenario


@dataclass(slots=True)
class Node:
    """One machine."""

    number: int
    free_gpus: int
    has: set[ModelId] = field(default_factory=set)
    """Models whose files are on its disk."""
    compiled: set[Build] = field(default_factory=set)
    name: str = ""

    def tier_for(self, model: ModelId) -> Tier:
        """How much of a cold start is left here."""
        return Tier.CACHED if model in self.has else Tier.COLD


@dataclass(slots=True)
class Waiter:
    """Somebody who needs GPUs."""

    gpus: int
    model: ModelId
    got: Callable[[Node], None]
    node: Node | None = None
    """On this node alone: a sleeper's process lives there."""


class Inventory:
    """All nodes. Who finds no room waits in line and is served first come, first served; whoever is bound to a node
    that is full is passed over. Whoever is told its place does not wait."""

    def __init__(self, machines: Machines, named: Iterable[nodes.Node] = ()) -> None:
        self._machines = machines
        self._nodes: list[Node] = []
        self._line: deque[Waiter] = deque()
        named = tuple(named)
        self._ground = Ground(named, Outlook())
        self.usage = Usage(named)
        for node in named:
            self._nodes.append(Node(len(self._nodes) + 1, len(node.gpus), name=node.name))
        for _ in range(0 if named else machines.nodes or 0):
            self._add()

    def __repr__(self) -> str:
        return f"<Inventory nodes={len(self._nodes)} waiting={len(self._line)}>"

    def take(self, gpus: int, model: ModelId, got: Callable[[Node], None]) -> None:
        """Call ``got`` with a node on which so many GPUs have been taken: now, or when some are free."""
        self._line.append(Waiter(gpus, model, got))
        self._serve()

    def take_at(self, node: Node, gpus: int, model: ModelId, got: Callable[[Node], None]) -> None:
        """Call ``got`` when so many GPUs of this node have been taken: now, or when they are free."""
        self._line.append(Waiter(gpus, model, got, node))
        self._serve()

    def withdraw(self, got: Callable[[Node], None]) -> None:
        """Whoever waits with this does not want one any more."""
        self._line = deque(waiter for waiter in self._line if waiter.got != got)

    def give_back(self, node: Node, gpus: int) -> None:
        """These GPUs are free again."""
        node.free_gpus += gpus
        self._serve()

    # ---- places that were chosen ----

    def fits(self, place: Place) -> bool:
        """Nobody else has this place."""
        return self._ground.fits(place)

    def hold(self, place: Place, now_s: float) -> Node | None:
        """Take this place: its node, or None when somebody else has it, or there is none of that name."""
        node = next((node for node in self._nodes if node.name == place.node), None)
        if node is None or not self._ground.fits(place):
            return None
        self._ground.hold(place)
        self.usage.change(place, 1, now_s)
        return node

    def free(self, place: Place, now_s: float) -> None:
        """Give this place back."""
        self._ground.free(place)
        self.usage.change(place, -1, now_s)

    def _serve(self) -> None:
        while (found := self._next()) is not None:
            waiter, node = found
            self._line.remove(waiter)
            node.free_gpus -= waiter.gpus
            waiter.got(node)

    def _next(self) -> tuple[Waiter, Node] | None:
        for waiter in self._line:
            if waiter.node is not None:
                if waiter.node.free_gpus >= waiter.gpus:
                    return waiter, waiter.node
                continue
            node = self._node_for(waiter.gpus, waiter.model)
            return None if node is None else (waiter, node)
        return None

    def _node_for(self, gpus: int, model: ModelId) -> Node | None:
        """The fullest node with room, one that has the files before one that has not."""
        fitting = [node for node in self._nodes if node.free_gpus >= gpus]
        if fitting:
            return min(fitting, key=lambda node: (model not in node.has, node.free_gpus, node.number))
        if self._machines.nodes is None:
            return self._add(max(gpus, self._machines.gpus_per_node))
        return None

    def _add(self, gpus: int | None = None) -> Node:
        node = Node(len(self._nodes) + 1, self._machines.gpus_per_node if gpus is None else gpus)
        self._nodes.append(node)
        return node


class Usage:
    """For how long GPUs carried anything, by node. One that several share counts once."""

    def __init__(self, named: Iterable[nodes.Node]) -> None:
        self.gpu_seconds = {node.name: 0.0 for node in named}
        self._carried: dict[tuple[str, int], int] = {}
        self._busy = dict.fromkeys(self.gpu_seconds, 0)
        self._at_s = dict.fromkeys(self.gpu_seconds, 0.0)

    def __repr__(self) -> str:
        return f"<Usage {self._busy}>"

    def change(self, place: Place, by: int, now_s: float) -> None:
        """A replica came to this place, or left it."""
        self._pass(place.node, now_s)
        for index in place.gpus:
            before = self._carried.get((place.node, index), 0)
            self._carried[place.node, index] = before + by
            self._busy[place.node] += (before + by > 0) - (before > 0)

    def close(self, now_s: float) -> None:
        """The run is over."""
        for name in self.gpu_seconds:
            self._pass(name, now_s)

    def _pass(self, name: str, now_s: float) -> None:
        self.gpu_seconds[name] += self._busy[name] * (now_s - self._at_s[name])
        self._at_s[name] = now_s


def first_ground(scenario: Scenario) -> Ground:
    """The nodes before anything runs on them."""
    ways = [way for setup in scenario.models.values() for way in setup.ways.values()]
    sizes = [size_in(way.fleet, State.SERVING) for way in ways]
    return Ground(scenario.nodes, Outlook(sizes))


def first_place(ground: Ground, setup: ModelSetup) -> Place | None:
    """Where one that runs from the beginning stands, which is taken; None when there is no place left."""
    size = size_in(setup.fleet, State.SERVING)
    if not size.needs_place or not ground.is_known:
        return NOWHERE
    place = ground.find(size)
    if place is not None:
        ground.hold(place)
    return place
