"""Which GPUs and cores replicas get."""

import pytest

from tidegate.backends.local.devices import Claim, Devices, NoDevice
from tidegate.core.nodes import LOCAL, Gpu, Place

GIB = 2**30


def on(*gpus, memory=None):
    return Place(LOCAL, gpus, memory)


def test_a_replica_gets_the_gpus_that_it_was_told():
    devices = Devices([Gpu(0), Gpu(1), Gpu(2)])

    assert devices.take(2, on(0, 2), 0) == Claim((0, 2))
    with pytest.raises(NoDevice, match="GPU 2 has no room: another replica is there"):
        devices.take(1, on(2), 0)
    assert devices.take(1, on(1), 0).gpus == (1,)


def test_shares_of_a_gpu_are_taken_while_they_fit():
    devices = Devices([Gpu(0, 24 * GIB)])

    for _ in range(2):
        assert devices.take(1, on(0, memory=10 * GIB), 0) == Claim((0,), 10 * GIB)
    with pytest.raises(NoDevice, match=r"GPU 0 has no room for 10\.0 GiB more"):
        devices.take(1, on(0, memory=10 * GIB), 0)
    with pytest.raises(NoDevice, match="GPU 0 has no room: another replica is there"):
        devices.take(1, on(0), 0)


@pytest.mark.parametrize(
    "place, because",
    [
        (None, "it needs 2 GPUs of this machine, and its order names none"),
        (on(0), "its order names 1 of local"),
        (Place("n1", (0, 1)), "its order names 2 of n1"),
        (on(0, 7), "GPU 7 is not among the 2 in fleet.gpus"),
    ],
)
def test_an_order_that_cannot_be_obeyed_is_refused_with_its_reason(place, because):
    devices = Devices([Gpu(0), Gpu(1)])

    with pytest.raises(NoDevice, match=because):
        devices.take(2, place, 0)
    assert devices.take(2, on(0, 1), 0).gpus == (0, 1)


def test_what_is_given_back_can_be_taken_again():
    devices = Devices([Gpu(0)])
    claim = devices.take(1, on(0), 0)
    devices.give_back(claim)
    devices.give_back(claim)

    assert devices.take(1, on(0), 0).gpus == (0,)


def test_an_adopted_replica_keeps_its_gpus_if_they_are_still_ours():
    devices = Devices([Gpu(0), Gpu(1)])

    assert devices.claim(Claim(gpus=(0,)))
    assert not devices.claim(Claim(gpus=(0,)))
    assert not devices.claim(Claim(gpus=(7,)))
    with pytest.raises(NoDevice):
        devices.take(1, on(0), 0)


def test_cores_are_shared_evenly():
    devices = Devices(cores=[0, 1, 2])
    first = devices.take(0, None, 2)
    second = devices.take(0, None, 2)

    assert (first.cores, second.cores) == ((0, 1), (0, 2))
    devices.give_back(first)
    assert devices.take(0, None, 1).cores == (1,)
