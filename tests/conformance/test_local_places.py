"""The real controller places replicas of real processes on this machine's GPUs, before and after a restart."""

from dataclasses import replace
from pathlib import Path

from conformance.worlds import Hand, fake_model, fleet_id_of
from engines.waiting import wait_until
from tidegate.backends.local import processes
from tidegate.backends.local.fleet import LocalFleet
from tidegate.core.events import FleetConfigured
from tidegate.core.nodes import LOCAL, Gpu, Node
from tidegate.core.scaling_settings import Scaling
from tidegate.core.settings import FleetLimits, FleetModel

GPUS = (Gpu(0, kind="h100"), Gpu(1, kind="h100"), Gpu(2, kind="l40s"))
ANY = FleetModel("vllm", slots=4, gpus=1, scaling=Scaling(min_replicas=1, max_replicas=1))
PAIR = replace(ANY, gpus=2, kind="h100")


class Machine(Hand):
    """Two models on three GPUs."""

    def __init__(self, state_dir):
        self.state_dir = state_dir
        models = [fake_model(model="any", gpus_per_replica=1), fake_model(model="pair", gpus_per_replica=2)]
        super().__init__(LocalFleet(models, state_dir=state_dir, gpus=GPUS, scrape_every_s=0.2), None)

    async def begin(self, **specs):
        await self.fleet.open(self.see)
        self.on(FleetConfigured(specs, FleetLimits(), (Node(LOCAL, GPUS),)))

    def serve(self):
        return sorted(route.replica_id for route in self.serving())

    def devices(self):
        """Of each replica's processes, what they were given."""
        found = {}
        for replica_id, each in processes.marked(fleet_id_of(self.state_dir)).items():
            text = Path(f"/proc/{each[0].identity.pid}/environ").read_bytes().decode()
            found[replica_id] = next(
                line[21:] for line in text.split("\0") if line.startswith("CUDA_VISIBLE")
            )
        return found


async def test_each_process_gets_the_gpus_that_were_chosen_for_it(tmp_path):
    machine = Machine(tmp_path / "state")
    try:
        await machine.begin(any=ANY, pair=PAIR)
        await wait_until(lambda: machine.serve() == ["any-1", "pair-1"], 15.0, machine.ids)
        assert machine.devices() == {"any-1": "2", "pair-1": "0,1"}
    finally:
        await machine.fleet.close()


async def test_what_a_former_run_left_keeps_its_place_and_others_go_beside_it(tmp_path):
    first = Machine(tmp_path / "state")
    await first.begin(pair=PAIR)
    await wait_until(lambda: first.serve() == ["pair-1"], 15.0, first.ids)
    await first.fleet.close(leave_running=True)

    second = Machine(tmp_path / "state")
    try:
        two = replace(ANY, scaling=Scaling(min_replicas=2, max_replicas=2))
        await second.begin(any=two, pair=PAIR)
        await wait_until(lambda: second.serve() == ["any-1", "pair-1"], 15.0, second.ids)
        assert second.devices() == {"any-1": "2", "pair-1": "0,1"}
        (held,) = [view for view in second.brain.state(0.0).models if view.model == "any"]
        assert (held.desired, held.decision.held_by) == (1, "fleet.gpus")
    finally:
        await second.fleet.close()
    assert list((tmp_path / "state" / "replicas").iterdir()) == []
