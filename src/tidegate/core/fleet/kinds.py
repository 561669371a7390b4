"""Which starts can be expected to take equally long: those of one variant on one kind of node.

A node with a slow disk and one with a fast one are told apart by the kind of GPUs that they have. Where nodes are not
known, or say no kind, the variant is all there is; and a variant that names the kind of its GPUs says both.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.core.fleet.replicas import Replica
from tidegate.core.nodes import Node, Place
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId


class StartKinds:
    """Knows which GPUs are of which kind, and where the next replica of each variant would go."""

    def __init__(self) -> None:
        self._gpus: dict[tuple[str, int], str] = {}
        self._next: dict[tuple[ModelId, str], str] = {}

    def __repr__(self) -> str:
        return f"<StartKinds {len(self._gpus)} GPUs>"

    def configure(self, nodes: Iterable[Node]) -> None:
        """These are the nodes."""
        self._gpus = {(node.name, gpu.index): gpu.kind for node in nodes for gpu in node.gpus}
        self._next = {}

    def at(self, variant: str, spec: FleetModel, place: Place) -> str:
        """Of one that stands there."""
        says_both = bool(variant and spec.kind)
        gpus = [] if says_both else place.gpus[:1]  # all GPUs of a replica are of one kind
        return "/".join(filter(None, (variant, *(self._gpus.get((place.node, gpu), "") for gpu in gpus))))

    def of(self, replica: Replica) -> str:
        """Of this replica, where it stands."""
        return self.at(replica.variant, replica.spec, replica.place)

    def expect(self, model: ModelId, variant: str, spec: FleetModel, place: Place) -> None:
        """The next replica of this variant would go there."""
        self._next[model, variant] = self.at(variant, spec, place)

    def of_next(self, model: ModelId, variant: str) -> str:
        """Of the next replica of this variant."""
        return self._next.get((model, variant), variant)
