"""Where replicas stand: machines, and the GPUs in them."""

from __future__ import annotations

from tidegate.core.values import value


@value
class Gpu:
    """One GPU that replicas may be given."""

    index: int
    """On its node, as in CUDA_VISIBLE_DEVICES."""
    memory_bytes: int | None = None
    """None: not known, so it carries one replica at a time."""
    kind: str = ""
    """Any word. A model that names one goes on GPUs of that kind only."""


@value
class Node:
    """One machine."""

    name: str
    gpus: tuple[Gpu, ...]
    price_per_h: float | None = None
    """Of the whole machine. None: not known."""


@value
class Place:
    """The GPUs of one replica. All are on one node."""

    node: str
    gpus: tuple[int, ...]
    """Their indexes there."""
    memory_bytes: int | None = None
    """What it takes on each of them; None: they are its own."""

    def __str__(self) -> str:
        """As people read it: ``GPUs 0, 1 of n1``."""
        which = "GPU" if len(self.gpus) == 1 else "GPUs"
        return f"{which} {', '.join(map(str, self.gpus))} of {self.node}"


NOWHERE = Place("", ())
"""Of a replica that needs no GPUs, or whose GPUs nobody chooses."""

LOCAL = "local"
"""The name of the machine that Tidegate runs on."""
