"""The fleet that a recorded day would have had: found running in one variant, it goes on in that one."""

import pytest

from tidegate.core.events import DemandReported, FleetConfigured, ReplicaAdopted, Tick
from tidegate.core.scaling_settings import Scaling, ScalingPolicy
from tidegate.core.settings import FleetLimits, FleetModel, Variant
from tidegate.core.types import Address, DemandReport, ModelDemand, ModelId, ReplicaId
from tidegate.runtime.imagined import Imagined

M = ModelId("m")
SMALL = Variant("small", slots=16, gpus=1, kind="l40s", price_per_h=1.0)
SPEC = FleetModel(
    "vllm",
    slots=64,
    gpus=1,
    kind="h100",
    price_per_h=4.0,
    scaling=Scaling(ScalingPolicy.CONCURRENCY, 1, 4, window_s=10, scale_down_delay_s=30),
    variants=(SMALL,),
)


def report(in_flight):
    demand = ModelDemand(M, 0, in_flight, in_flight, 0, 0, 0, 0, 0, 0.0, None)
    return DemandReported(DemandReport("g", 0, (demand,), ()))


def day(in_flight, until_s):
    """One large replica and one small one were there when the controller came back."""
    here = Address("127.0.0.1", 9000)
    yield 0.0, ReplicaAdopted(ReplicaId("m-1"), M, here), []
    yield 0.0, ReplicaAdopted(ReplicaId("m-2"), M, here, variant="small"), []
    yield 0.0, FleetConfigured({M: SPEC}, FleetLimits()), []
    for second in range(1, until_s):
        yield float(second), report(in_flight), []
        yield float(second), Tick(), []


def test_whoever_was_found_running_is_of_the_variant_that_it_was_found_in():
    imagined = Imagined({M: SPEC}, FleetLimits(), (), {M: {"": 20.0, "small": 20.0}})
    imagined.play(list(day(in_flight=70, until_s=3_601)))
    judged, steps = imagined.courses[M].judged, imagined.courses[M].steps

    assert [step.desired for step in steps] == [2]
    assert judged.replica_hours == pytest.approx(2.0, rel=0.01)
    assert judged.cost == pytest.approx(5.0, rel=0.01), "a large one and a small one for an hour"


def test_when_little_is_asked_for_the_large_one_goes():
    imagined = Imagined({M: SPEC}, FleetLimits(), (), {M: {"": 20.0, "small": 20.0}})
    imagined.play(list(day(in_flight=3, until_s=3_601)))

    assert imagined.courses[M].starts == 0, "a small one is there"
    assert imagined.courses[M].judged.cost == pytest.approx(1.0, abs=0.1)
