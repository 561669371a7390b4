"""What one replica takes."""

from __future__ import annotations

from tidegate.core.values import value


@value
class Size:
    """What one replica takes of GPUs and money."""

    gpus: int
    price_per_h: float
    kind: str = ""
    """Of GPUs; empty: any."""
    memory_bytes: int | None = None
    """On each of its GPUs; None: they are its own."""
    is_elsewhere: bool = False
    """Its engine runs where somebody else put it: its GPUs are counted and not placed."""

    @property
    def needs_place(self) -> bool:
        """GPUs have to be found for it."""
        return self.gpus > 0 and not self.is_elsewhere

    @property
    def on_gpus(self) -> Size:
        """What matters to where it may stand: the same for all that take the same GPUs, whatever they cost."""
        return Size(self.gpus, 0.0, self.kind, self.memory_bytes)
