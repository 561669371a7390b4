"""Which GPUs and cores replicas get."""

import pytest

from tidegate.backends.local.devices import Claim, Devices, NoDevice
from tidegate.core.nodes import Gpu

GIB = 2**30


def test_without_memory_sizes_a_gpu_carries_one_replica():
    devices = Devices([Gpu(0), Gpu(1)])

    assert devices.take(1, None, 0).gpus == (0,)
    assert devices.take(1, None, 0).gpus == (1,)
    with pytest.raises(NoDevice, match="needs 1 GPUs; 0 of 2 are left"):
        devices.take(1, None, 0)


def test_small_replicas_share_a_gpu_and_leave_the_others_whole():
    devices = Devices([Gpu(0, 24 * GIB), Gpu(1, 24 * GIB)])

    taken = [devices.take(1, 10 * GIB, 0).gpus for _ in range(3)]

    assert taken == [(0,), (0,), (1,)]
    with pytest.raises(NoDevice, match=r"needs 1 GPUs with 20\.0 GiB free"):
        devices.take(1, 20 * GIB, 0)


def test_a_replica_that_wants_gpus_whole_shares_none():
    devices = Devices([Gpu(0, 24 * GIB), Gpu(1, 24 * GIB)])
    devices.take(1, 4 * GIB, 0)

    with pytest.raises(NoDevice):
        devices.take(2, None, 0)
    assert devices.take(1, None, 0).gpus == (1,)
    assert devices.take(1, 4 * GIB, 0).gpus == (0,)


def test_what_is_given_back_can_be_taken_again():
    devices = Devices([Gpu(0)])
    claim = devices.take(1, None, 0)
    devices.give_back(claim)
    devices.give_back(claim)

    assert devices.take(1, None, 0).gpus == (0,)


def test_an_adopted_replica_keeps_its_gpus_if_they_are_still_ours():
    devices = Devices([Gpu(0), Gpu(1)])

    assert devices.claim(Claim(gpus=(0,)))
    assert not devices.claim(Claim(gpus=(0,)))
    assert not devices.claim(Claim(gpus=(7,)))
    assert devices.take(1, None, 0).gpus == (1,)


def test_cores_are_shared_evenly():
    devices = Devices(cores=[0, 1, 2])
    first = devices.take(0, None, 2)
    second = devices.take(0, None, 2)

    assert (first.cores, second.cores) == ((0, 1), (0, 2))
    devices.give_back(first)
    assert devices.take(0, None, 1).cores == (1,)
