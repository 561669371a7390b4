"""Tidegate: the right number of model replicas, and each request to the one that will answer it soonest.

Two pure brains decide: `tidegate.core.dispatch` for every request, `tidegate.core.fleet` for the replicas. Everything
around them turns the world into events and carries out the effects they ask for.
"""

__version__ = "0.1.0"
