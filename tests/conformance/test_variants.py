"""A model that is run in several ways: which engine a replica gets, and what is known of it after a restart."""

from dataclasses import replace

from conformance.worlds import Observer, fake_model, fake_spec, free_ports
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.static import StaticFleet, StaticModel
from tidegate.core.effects import Launch, Stop
from tidegate.core.events import ReplicaAdopted
from tidegate.core.lifecycle import Seen
from tidegate.core.types import Address


def variants_of_one():
    own = fake_model()
    small = replace(own, spec=replace(own.spec, slots=1, env={"WAY": "small"}))
    return replace(own, variants={"small": small})


async def test_a_replica_is_started_in_the_way_that_was_ordered_and_adopted_as_that(tmp_path):
    model, observer = variants_of_one(), Observer()
    first = LocalFleet([model], state_dir=tmp_path)
    await first.open(observer)
    first.launch(Launch("r1", "m", "a test asks", "small"))
    first.launch(Launch("r2", "m", "a test asks"))
    first.launch(Launch("r3", "m", "a test asks", "large"))
    for name in ("r1", "r2"):
        await observer.until(name, Seen.READY)
    exited = await observer.until("r3", Seen.EXITED)

    assert (first.spec_of("r1").slots, first.spec_of("r2").slots) == (1, 4)
    assert "model m, variant large, is not configured here" in exited.detail

    await first.close(leave_running=True)
    heir, second = Observer(), LocalFleet([model], state_dir=tmp_path)
    await second.open(heir)
    try:
        adopted = {e.replica_id: e.variant for e in heir.events if isinstance(e, ReplicaAdopted)}
        assert adopted == {"r1": "small", "r2": ""}
        assert second.spec_of("r1").slots == 1
    finally:
        await second.close()


async def test_a_variant_that_is_not_configured_any_more_is_not_adopted(tmp_path):
    model, observer = variants_of_one(), Observer()
    first = LocalFleet([model], state_dir=tmp_path)
    await first.open(observer)
    first.launch(Launch("r1", "m", "a test asks", "small"))
    await observer.until("r1", Seen.READY)
    await first.close(leave_running=True)

    heir, second = Observer(), LocalFleet([replace(model, variants={})], state_dir=tmp_path)
    await second.open(heir)
    await second.close()

    assert not any(isinstance(event, ReplicaAdopted) for event in heir.events)
    assert "variant small of model m is no longer configured" in heir.seen("r1", Seen.EXITED).detail


async def test_each_variant_of_engines_that_run_anyway_has_addresses_of_its_own():
    ports, adapter, spec = free_ports(2), ADAPTERS["vllm"], fake_spec()
    one, other = (StaticModel("m", adapter, (Address("127.0.0.1", port),), spec, 0.2) for port in ports)
    fleet, observer = StaticFleet([replace(one, variants={"small": other})]), Observer()
    await fleet.open(observer)
    try:
        fleet.launch(Launch("r1", "m", "a test asks", "small"))
        fleet.launch(Launch("r2", "m", "a test asks"))
        fleet.launch(Launch("r3", "m", "a test asks", "small"))
        fleet.launch(Launch("r4", "m", "a test asks", "large"))
        gone = {name: (await observer.until(name, Seen.EXITED)).detail for name in ("r1", "r2", "r3", "r4")}
        fleet.stop(Stop("r1", "a test asks"))
    finally:
        await fleet.close()

    assert f"127.0.0.1:{ports[1]} was not ready" in gone["r1"]
    assert f"127.0.0.1:{ports[0]} was not ready" in gone["r2"]
    assert "all 1 addresses of m, variant small are in use" in gone["r3"]
    assert "model m, variant large is not configured here" in gone["r4"]
