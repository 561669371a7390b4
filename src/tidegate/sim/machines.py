"""Nodes, their GPUs, and what is already on their disks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import Build
from tidegate.sim.scenario import Machines


@dataclass(slots=True)
class Node:
    """One machine."""

    number: int
    free_gpus: int
    has: set[ModelId] = field(default_factory=set)
    """Models whose files are on its disk."""
    compiled: set[Build] = field(default_factory=set)

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
    that is full is passed over."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._nodes: list[Node] = []
        self._line: deque[Waiter] = deque()
        for _ in range(machines.nodes or 0):
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
