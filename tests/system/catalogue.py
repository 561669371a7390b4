"""All stories by name, with the size that each has in the tests and in the full demonstration."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from system import journals
from system.figures import Figure
from system.stories.burst import burst
from system.stories.disconnects import disconnects
from system.stories.errors import errors
from system.stories.first_request import first_request, make_serve
from system.stories.flash_crowd import flash_crowd
from system.stories.growth import growth
from system.stories.replica_kills import engine_manners, replica_kills
from system.stories.restarts import restarts
from system.stories.stopping import stopping


@dataclass(frozen=True, slots=True)
class World:
    """Where a story happens."""

    folder: Path
    weights: Path
    """Of the tiny model."""
    dice: random.Random


@dataclass(frozen=True, slots=True)
class Story:
    """One story. Its size is a number of rounds, kills, requests or clients."""

    title: str
    tell: Callable[[World, int], Awaitable[list[Figure]]]
    small: int
    full: int
    kills_the_product: bool = False
    is_quick: bool = True
    """Fit for ``make test`` at its small size."""

    def size(self, scale: float) -> int:
        """Between small and full; the small size at least."""
        return max(self.small, round(self.full * scale))


STORIES: dict[str, Story] = {
    "make-serve": Story(
        "The policy of make serve answers from zero replicas",
        lambda world, _: make_serve(world.folder),
        small=1,
        full=1,
    ),
    "first-request": Story(
        "The first request arrives at zero replicas",
        lambda world, rounds: first_request(world.folder, world.weights, rounds),
        small=1,
        full=5,
    ),
    "errors": Story(
        "Every error status raises the SDK's right exception",
        lambda world, _: errors(world.folder, world.weights),
        small=1,
        full=1,
    ),
    "growth": Story(
        "24 clients grow the fleet from 1 to 3; idle brings it to zero",
        lambda world, requests: growth(world.folder, world.weights, 200, requests),
        small=100,
        full=1_000,
    ),
    "flash-crowd": Story(
        "Starts are predicted, and a flash crowd is met: 1, 3, 0",
        lambda world, deaths: flash_crowd(world.folder, deaths),
        small=1,
        full=8,
    ),
    "replica-kills": Story(
        "kill -9 of replicas under load",
        lambda world, kills: replica_kills(world.folder, world.weights, kills, world.dice),
        small=3,
        full=20,
    ),
    "engine-manners": Story(
        "SIGTERM of replicas under load, by somebody else",
        lambda world, kills: engine_manners(world.folder, world.weights, kills, world.dice),
        small=1,
        full=5,
        is_quick=False,
    ),
    "restarts": Story(
        "kill -9 of Tidegate",
        lambda world, kills: restarts(world.folder, world.weights, kills, world.dice),
        small=3,
        full=20,
        kills_the_product=True,
    ),
    "stopping": Story(
        "SIGTERM under load",
        lambda world, streams: stopping(world.folder, streams),
        small=12,
        full=60,
    ),
    "disconnects": Story(
        "Clients leave in every phase",
        lambda world, count: disconnects(world.folder, count, world.dice),
        small=150,
        full=2_000,
    ),
    "burst": Story(
        "A burst on 4 replicas with 8 slots, with old engine metrics",
        lambda world, requests: burst(world.folder, requests),
        small=100,
        full=400,
    ),
}


async def tell(name: str, world: World, size: int) -> list[Figure]:
    """One story, and the replay of every journal that it wrote."""
    story = STORIES[name]
    figures = await story.tell(world, size)
    killed = size if story.kills_the_product else 0
    for folder in sorted(world.folder.rglob("journal")):
        figures += await journals.replayed(folder, killed=killed)
    return figures
