"""The tiers of capacity: how far a replica is from serving."""

from __future__ import annotations

from enum import Enum


class Tier(Enum):
    """How far a replica is from serving, nearest first."""

    SERVING = "serving"
    WARM = "warm"
    """Loaded, no traffic: routing is all that it takes."""
    SLEEPING = "sleeping"
    """The process stays, its GPUs are free; the weights are in host memory, or at level 2 on the disk."""
    CACHED = "cached"
    """Nothing runs; the weights and the compiled engine are on the node's disk."""
    COLD = "cold"
    """Nothing is there yet."""

    __hash__ = object.__hash__
