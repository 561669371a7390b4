from time import monotonic

from tidegate.adapters.base import Manners
from tidegate.core.lifecycle import State
from tidegate.core.types import Address, ModelId, ReplicaId, Route
from tidegate.gateway.pool import Pool
from tidegate.gateway.upstream import UpstreamConnection


class Transport:
    def __init__(self):
        self.aborted = False

    def abort(self):
        self.aborted = True


class Attendant:
    def __init__(self, pool):
        self.connected = pool.open.add


def connection(pool, replica="r", rested_s=0.0):
    route = Route(ReplicaId(replica), ModelId("m"), State.SERVING, Address("127.0.0.1", 1), 1, "engine")
    made = UpstreamConnection(Attendant(pool), route, Manners(idle_connection_s=4.0))
    made.connection_made(Transport())
    made.resting_since_s = monotonic() - rested_s
    pool.rest(made)
    return made


def test_the_newest_is_taken_first_and_nobody_elses():
    pool = Pool()
    old, new = connection(pool, rested_s=2.0), connection(pool)
    assert pool.take(ReplicaId("other"), monotonic()) is None
    assert pool.take(ReplicaId("r"), monotonic()) is new
    assert pool.take(ReplicaId("r"), monotonic()) is old
    assert pool.take(ReplicaId("r"), monotonic()) is None


def test_what_rested_too_long_is_closed_and_not_taken():
    pool = Pool()
    stale = connection(pool, rested_s=4.5)
    assert pool.take(ReplicaId("r"), monotonic()) is None
    assert stale._transport.aborted


def test_a_sweep_closes_what_is_old_and_what_lost_its_replica():
    pool = Pool()
    old, gone, kept = connection(pool, rested_s=4.5), connection(pool, "gone"), connection(pool)
    pool.sweep(monotonic(), {ReplicaId("r")})
    assert (old._transport.aborted, gone._transport.aborted, kept._transport.aborted) == (True, True, False)


def test_a_connection_that_is_lost_is_forgotten():
    pool = Pool()
    one = connection(pool)
    pool.lost(one)
    assert (pool.open, pool.resting) == (set(), 0)
    assert pool.take(ReplicaId("r"), monotonic()) is None
