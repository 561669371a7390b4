"""What a model's policy wishes for, and what it is granted: the words of the final clamp (``limits``)."""

from __future__ import annotations

from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import Place
from tidegate.core.types import ModelId
from tidegate.core.values import value

NO_PLACE = "fleet.gpus"
"""The rule that is broken by a replica for which there is no place."""


@value
class Wish:
    """What one model's policy proposes, and what the model has."""

    model: ModelId
    wanted: int
    min_replicas: int
    max_replicas: int
    held: int
    """Replicas that run or come up, or drain and could be kept: no start is needed for these."""
    size: Size
    can_start: bool = True
    """False while starts of this model fail: others get the room first."""
    asleep: int = 0
    """Of those held, the ones that sleep: no start, but their GPUs may be somebody else's by now."""
    sizes: tuple[Size, ...] = ()
    """What each one takes, in the order in which they get room, where they differ; the rest take ``size``."""
    places: tuple[Place, ...] = ()
    """Of those held and awake, where they stand, in the order in which they are kept. Said where nodes are known and
    somebody is to be started."""
    beds: tuple[Place, ...] = ()
    """Of those asleep, where each can wake."""
    is_kept_for: bool = False
    """A node is kept free for a start of this model."""
    is_owed: bool = False
    """One of its own has gone for another that is to take its place, and that has not been started yet."""

    @property
    def bounded(self) -> int:
        """The wish within the model's own minimum and maximum."""
        return max(self.min_replicas, min(self.wanted, self.max_replicas))

    def size_of(self, number: int) -> Size:
        """What the replica after so many takes."""
        return self.sizes[number] if number < len(self.sizes) else self.size

    def all_of(self, number: int) -> tuple[int, float]:
        """GPUs and price of so many."""
        if not self.sizes:  # nearly always
            return number * self.size.gpus, number * self.size.price_per_h
        sizes = [self.size_of(n) for n in range(number)]
        return sum(size.gpus for size in sizes), sum(size.price_per_h for size in sizes)

    @property
    def awake(self) -> int:
        """Those held that have their room."""
        return self.held - self.asleep


@value
class Grant:
    """How many replicas a model gets, and the limit that made it another number than was wished for."""

    desired: int
    held_by: str | None
