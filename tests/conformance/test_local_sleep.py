"""Sleep as the local backend carries it out, on the emulated engine: vLLM's own requests over a real socket."""

import pytest

from conformance.worlds import Observer, launch, stop
from engines.waiting import wait_until
from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.core.effects import Sleep, Wake
from tidegate.core.events import ReplicaAdopted
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import LOCAL, Gpu, Place
from tidegate.core.tiers import Tier
from tidegate.core.types import Route, RouteTable

TIMES = ("--time-scale", "50", "--cold-start", "weights=10s,wake=5s,sleep=5s")


def fleet_in(folder, *args, gpus=1):
    """One GPU for two models of one GPU each, unless said otherwise."""
    specs = [
        EngineSpec(name, weights="", slots=4, extra_args=(*TIMES, *args), sleeps=True) for name in ("m", "n")
    ]
    models = [
        LocalModel(spec.model_name, ADAPTERS["emulated"], spec, gpus_per_replica=1, stop_grace_s=2.0)
        for spec in specs
    ]
    return LocalFleet(models, state_dir=folder, gpus=[Gpu(n) for n in range(gpus)], scrape_every_s=0.2)


@pytest.mark.parametrize("level", [1, 2])
async def test_it_sleeps_gives_its_gpu_away_and_wakes_with_a_token(tmp_path, level):
    fleet, observer = fleet_in(tmp_path), Observer()
    await fleet.open(observer)
    try:
        launch(fleet, "m-1", gpus=(0,))
        await observer.until("m-1", Seen.READY)
        fleet.sleep(Sleep("m-1", level, "a test asks"))
        await observer.until("m-1", Seen.SLEPT)

        launch(fleet, "n-1", "n", (0,))  # on the very GPU
        await observer.until("n-1", Seen.READY)
        stop(fleet, "n-1")
        await observer.until("n-1", Seen.EXITED)

        fleet.wake(Wake("m-1", "a test asks"))
        woken = await observer.until("m-1", Seen.WOKEN)
        assert woken.address is not None
        assert Seen.UNRESPONSIVE not in observer.history("m-1")
    finally:
        await fleet.close()


async def test_it_sleeps_on_while_somebody_else_has_its_gpu_and_says_so(tmp_path):
    fleet, observer = fleet_in(tmp_path), Observer()
    await fleet.open(observer)
    try:
        launch(fleet, "m-1", gpus=(0,))
        await observer.until("m-1", Seen.READY)
        fleet.sleep(Sleep("m-1", 1, "a test asks"))
        await observer.until("m-1", Seen.SLEPT)
        launch(fleet, "n-1", "n", (0,))
        await observer.until("n-1", Seen.READY)
        fleet.wake(Wake("m-1", "a test asks"))
        await wait_until(
            lambda: observer.history("m-1").count(Seen.SLEPT) == 2, 10.0, lambda: observer.events
        )
        assert "in use" in observer.events[-1].detail
        stop(fleet, "n-1")
        await observer.until("n-1", Seen.EXITED)
        fleet.wake(Wake("m-1", "a test asks"))
        await observer.until("m-1", Seen.WOKEN)
    finally:
        await fleet.close()


async def test_an_engine_without_sleep_mode_is_a_fact_with_its_reason(tmp_path):
    fleet, observer = fleet_in(tmp_path, "--no-sleep-mode"), Observer()
    await fleet.open(observer)
    try:
        launch(fleet, "m-1", gpus=(0,))
        await observer.until("m-1", Seen.READY)
        fleet.sleep(Sleep("m-1", 1, "a test asks"))
        unwilling = await observer.until("m-1", Seen.UNRESPONSIVE)
        assert "/sleep" in unwilling.detail
    finally:
        await fleet.close()


async def test_a_sleeper_of_a_former_run_is_adopted_asleep_and_can_be_woken(tmp_path):
    first, observer = fleet_in(tmp_path), Observer()
    await first.open(observer)
    launch(first, "m-1", gpus=(0,))
    await observer.until("m-1", Seen.READY)
    first.sleep(Sleep("m-1", 1, "a test asks"))
    await observer.until("m-1", Seen.SLEPT)
    await first.close(leave_running=True)

    second, later = fleet_in(tmp_path), Observer()
    await second.open(later)
    try:
        (adopted,) = [event for event in later.events if isinstance(event, ReplicaAdopted)]
        assert adopted.tier is Tier.SLEEPING
        assert adopted.place == Place(LOCAL, (0,))
        second.wake(Wake("m-1", "a test asks"))
        await later.until("m-1", Seen.WOKEN)
    finally:
        await second.close()


async def test_a_replica_of_a_former_run_is_adopted_in_the_tier_that_the_gateways_were_told_last(tmp_path):
    """Two came up for the pool; one was given traffic since, the other left the pool and was on its way out."""

    def told(first, second):
        routes = (("m-1", "m", first), ("n-1", "n", second))
        return RouteTable(
            1, (), tuple(Route(name, model, state, None, 0, "") for name, model, state in routes)
        )

    fleet, observer = fleet_in(tmp_path, gpus=2), Observer()
    await fleet.open(observer)
    fleet.note_routes(told(State.STARTING, State.STARTING))  # of those that this backend does not know
    launch(fleet, "m-1", gpus=(0,))
    launch(fleet, "n-1", "n", (1,))
    for name in ("m-1", "n-1"):
        await observer.until(name, Seen.READY)
    fleet.note_routes(told(State.WARM, State.WARM))
    fleet.note_routes(told(State.SERVING, State.DRAINING))
    await fleet.close(leave_running=True)

    second, later = fleet_in(tmp_path, gpus=2), Observer()
    await second.open(later)
    try:
        adopted = {
            event.replica_id: event.tier for event in later.events if isinstance(event, ReplicaAdopted)
        }
        assert adopted == {"m-1": Tier.SERVING, "n-1": Tier.WARM}
    finally:
        await second.close()


async def test_a_sleeper_can_be_stopped(tmp_path):
    fleet, observer = fleet_in(tmp_path), Observer()
    await fleet.open(observer)
    try:
        launch(fleet, "m-1", gpus=(0,))
        await observer.until("m-1", Seen.READY)
        fleet.sleep(Sleep("m-1", 1, "a test asks"))
        await observer.until("m-1", Seen.SLEPT)
        stop(fleet, "m-1")
        await observer.until("m-1", Seen.EXITED)
        launch(fleet, "n-1", "n", (0,))
        await observer.until("n-1", Seen.READY)
    finally:
        await fleet.close()
