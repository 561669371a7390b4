"""A replica joins: how soon it is used, and what its cold first half minute does to everybody's wait."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.dispatch_queue.world import Ask, World
from tidegate.core.settings import DispatchConfig
from tidegate.core.windows import percentile

SLOTS = 64
JOINS_S = 60.0
COLD_S = 30.0
COLD_FACTOR = 5.0
MEAN_PROMPT, MEAN_OUTPUT = 500, 200


@dataclass(frozen=True, slots=True)
class Joined:
    """How soon a newcomer was used by those who waited."""

    first_s: float
    full_s: float
    in_order: bool


def joined(seed: int) -> Joined:
    """A fifth replica beside four that are full, with many waiting."""
    world = World(SLOTS, seed)
    for number in range(4):
        world.engine(f"m-{number + 1}")
    world.publish()
    for number in range(4 * SLOTS + 400):
        world.ask(Ask(number, MEAN_PROMPT, 4_000))
    waited = len(world.sent)

    def join() -> None:
        world.engine("m-5")
        world.publish()

    world.kernel.at(1.0, join)
    world.run(3.0)
    at_s = [moment for moment, replica_id, _ in world.sent[waited:] if replica_id == "m-5"]
    numbers = [int(name.split(".")[0]) for _, replica_id, name in world.sent[waited:] if replica_id == "m-5"]
    return Joined(at_s[0] - 1.0, at_s[SLOTS - 1] - 1.0, numbers == sorted(numbers))


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """Waits for the first token, at the 99th percentile."""

    steady_s: float
    during_s: float

    @property
    def ratio(self) -> float:
        """Above 1: the newcomer made it worse."""
        return self.during_s / self.steady_s


def scale_up(seed: int, per_s: float, *, ramp: bool) -> ScaleUp:
    """Three replicas under a steady load; a fourth joins that is five times slower for half a minute."""
    world = World(SLOTS, seed, None if ramp else DispatchConfig(slow_start_s=0.0))
    for number in range(3):
        world.engine(f"m-{number + 1}")
    world.publish()
    asks: list[Ask] = []

    def arrive() -> None:
        dice = world.dice
        prompt, output = (
            1 + int(dice.expovariate(1 / MEAN_PROMPT)),
            1 + int(dice.expovariate(1 / MEAN_OUTPUT)),
        )
        asks.append(Ask(len(asks), prompt, output))
        world.ask(asks[-1])
        world.kernel.at(world.kernel.now_s + dice.expovariate(per_s), arrive)

    def join() -> None:
        world.engine("m-4", COLD_FACTOR)
        world.publish()
        engine = world.engines[max(world.engines)]
        world.kernel.at(world.kernel.now_s + COLD_S, lambda: engine.speed_up(COLD_FACTOR))

    world.kernel.at(0.0, arrive)
    world.kernel.at(JOINS_S, join)
    world.run(JOINS_S + COLD_S + 60.0)
    return ScaleUp(_p99(asks, 20.0, JOINS_S), _p99(asks, JOINS_S, JOINS_S + COLD_S))


def _p99(asks: list[Ask], from_s: float, until_s: float) -> float:
    return percentile(sorted(ask.ttft_s for ask in asks if from_s <= ask.first_s < until_s), 0.99) or 0.0
