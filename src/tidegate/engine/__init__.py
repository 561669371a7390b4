"""A pure model of one inference engine: what it batches, what it caches, how long each step takes.

The simulator drives it with virtual time and the emulator against the wall clock. It has no clock, no
socket and no dice of its own.
"""
