"""After the turmoil of ``caps`` nobody meddles any more, every start succeeds, and the same load is reported again and again.

Then whoever is asked for must come to serve, or its clients be told why not; and once that is so nothing may move any more
but what the pools' times move.
"""

from __future__ import annotations

import random
from typing import Any

from benchmarks.fleet.driven import World
from benchmarks.fleet.frame import Asked
from tidegate.core.effects import Demote, Launch, Promote, Sleep, Stop, Wake
from tidegate.core.events import DemandReported, Tick
from tidegate.core.lifecycle import Seen, State
from tidegate.core.types import DemandReport, ModelDemand, ReplicaId, ReplicaLoad

WORLDS = {"small": 40, "medium": 400, "full": 2_000}
TURMOIL = 250
"""Turns of it."""
SETTLES_S, WATCHED_S, EVERY_S = 700.0, 300.0, 2.0
MOVES_MOST = 12
"""Orders in the time watched. Warm ones that come to the end of their time to live, and others for them, are some."""


def run(asked: Asked) -> dict[str, Any]:
    """The table and its figures."""
    seeds = range(WORLDS[asked.size])
    answers = asked.in_order(played, seeds, "calm")
    unserved = [
        f"world {seed}: {what}" for seed, (found, _) in zip(seeds, answers, strict=True) for what in found
    ]
    restless = [seed for seed, (_, moves) in zip(seeds, answers, strict=True) if moves > MOVES_MOST]
    asked.say(f"  {len(answers)} worlds: {len(unserved)} models neither served nor told why")
    asked.say(
        f"  {len(restless)} worlds with more than {MOVES_MOST} orders in {WATCHED_S:g} s of the same load"
    )
    for line in (*unserved[:5], *(f"restless: world {seed}" for seed in restless[:5])):
        asked.say(f"    {line}")
    return {"worlds": len(answers), "unserved": unserved, "restless": restless}


def played(seed: int) -> tuple[list[str], int]:
    """Models without a replica that are told to wait for one; orders while the load is the same."""
    world = Calming(seed)
    while world.steps < TURMOIL:
        world.step()
    world.is_calm = True
    load = random.Random(seed).choice([2, 9])
    world.rest(SETTLES_S, load)
    view = world.brain.state(world.now_s)
    unserved = [
        f"{model.model}: {model.decision.because if model.decision else 'nothing decided'}"
        for model in view.models
        if model.hand is None
        and model.can_serve
        and not any(replica.state is State.SERVING for replica in model.replicas)
    ]
    before = world.moves
    world.rest(WATCHED_S, load)
    return unserved, world.moves - before


class Calming(World):
    """A world in which chance ends at some moment."""

    def __init__(self, seed: int) -> None:
        self.is_calm = False
        self.moves = 0
        super().__init__(seed)

    def _order(self, effect: object) -> None:
        super()._order(effect)
        if not isinstance(effect, Launch | Stop | Sleep | Wake | Promote | Demote):
            return
        self.moves += 1
        if self.is_calm:
            self._goes_well(effect.replica_id, is_start=isinstance(effect, Launch))

    def _goes_well(self, replica_id: ReplicaId, *, is_start: bool) -> None:
        if is_start:
            self.doing[replica_id] = self.now_s + 5.0, Seen.READY
        elif replica_id in self.doing:
            self.doing[replica_id] = self.now_s + 1.0, self.doing[replica_id][1]

    def rest(self, span_s: float, load: int) -> None:
        """So many requests for each model all the time, none of them at any replica for long."""
        for replica_id, (at_s, seen) in self.doing.items():
            self.doing[replica_id] = min(at_s, self.now_s + 5.0), seen
        until_s = self.now_s + span_s
        while self.now_s < until_s:
            self.wait(EVERY_S)
            self.on(Tick())
            demands = tuple(
                ModelDemand(model, 0, load, load, 0, 0, 0, 0, 0, 0.0, self.now_s) for model in self.specs
            )
            routes = self.table.routes if self.table else ()
            loads = tuple(ReplicaLoad(route.replica_id, 0, 0) for route in routes)
            version = self.table.version if self.table else 0
            self.on(DemandReported(DemandReport("g", version, demands, loads)))
