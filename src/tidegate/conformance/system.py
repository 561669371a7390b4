"""Stories of victims, ledgers, hands and clocks. Each plays by itself and says what is wrong, or nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from tidegate.backends.base import FleetInUse
from tidegate.backends.local.state import StateFolder
from tidegate.conformance.pair import Pair
from tidegate.core.events import ClientGone, Failure, ReplicaSeen, UpstreamFailed
from tidegate.core.lifecycle import Seen
from tidegate.core.settings import DispatchConfig, FleetModel, QueueLimits
from tidegate.core.types import ReplicaId, RequestId
from tidegate.runtime.clock import WallClock

A, B = ReplicaId("m-1"), ReplicaId("m-2")


def wrong_victim() -> str | None:
    """Two replicas, the newer one busy with three streams: one is to go."""
    pair = Pair(running=("m-1", "m-2"), min_replicas=1, scale_down_delay_s=10.0, slots=8)
    for number in range(6):
        pair.ask(f"r{number}")
    for _, request_id, replica_id in list(pair.sent):
        if replica_id == A:
            pair.answer(request_id)
    # The default law wants to have seen for two lead times, of 54 s each, how demand grows.
    pair.pass_time(240.0)
    gone = [replica_id for _, replica_id, _ in pair.stopped]
    return None if gone == [A] else f"stopped: {', '.join(gone) or 'none'}, where {A} was idle"


def leaked_counter() -> str | None:
    """Every way in which a request can leave, and what is counted afterwards."""
    limited = DispatchConfig(queue=QueueLimits(max_requests=2))
    pair = Pair(config=limited, running=("m-1",), min_replicas=1, slots=2)
    for number in range(12):
        pair.ask(f"r{number}")
    pair.to_gateway(ClientGone(RequestId("r0")))
    for _, request_id, replica_id in list(pair.sent):
        pair.to_gateway(UpstreamFailed(request_id, Failure.CUT, replica_id=replica_id))
    for number in range(12):
        pair.to_gateway(ClientGone(RequestId(f"r{number}")))
    pair.pass_time(2.0)
    view = pair.controller.state(pair.now_s).models[0]
    if len(pair.ended) != 12:
        return f"12 came, {len(pair.ended)} have ended"
    return (
        f"{view.queued} queued and {view.in_flight} in flight, and nobody is there"
        if view.queued + view.in_flight
        else None
    )


def two_controllers() -> str | None:
    """A second one is started on the same fleet."""
    with tempfile.TemporaryDirectory() as folder:
        first = StateFolder(Path(folder))
        try:
            StateFolder(Path(folder)).close()
        except FleetInUse:
            return None
        finally:
            first.close()
    return "the second controller has started too"


def changed_by_hand() -> str | None:
    """One runs and is needed: somebody starts another. Two run and are needed: somebody ends one."""
    pair = Pair(running=("m-1",), min_replicas=1, scale_down_delay_s=30.0)
    pair.pass_time(60.0)
    pair.adopt("m-7")
    pair.pass_time(62.0)
    if pair.stopped or pair.launched:
        return "it was fought at once"
    pair.pass_time(200.0)
    if len(pair.stopped) != 1:
        return f"{len(pair.stopped)} were stopped, one was too many"
    if "1 of 2 wanted" not in pair.stopped[0][2]:
        return f"stopped without a reason: {pair.stopped[0][2]}"
    return _ended_by_hand(adopts=False) or _ended_by_hand(adopts=True)


def _ended_by_hand(*, adopts: bool) -> str | None:
    pair = Pair(running=("m-1", "m-2"), min_replicas=1, spec=FleetModel("engine", adopts_ends=adopts))
    for number in range(8):
        pair.ask(f"r{number}")
    pair.pass_time(5.0)
    pair.to_controller(ReplicaSeen(B, Seen.EXITED, None, "exit code 0", by_hand=True))
    pair.pass_time(60.0)
    decision = pair.controller.state(pair.now_s).models[0].decision
    because = decision.because if decision else ""
    if adopts and (pair.launched or "by hand" not in because):
        return f"to be adopted, and {len(pair.launched)} started: {because}"
    return "to be reverted, and none was started" if not adopts and len(pair.launched) != 1 else None


def adapters_follow() -> str | None:
    """One replica is full of requests for an adapter; a second one becomes ready."""
    pair = Pair(running=("m-1",), min_replicas=1, slots=4)
    for number in range(8):
        pair.ask(f"r{number}", adapter="legal")
    pair.pass_time(5.0)
    if not pair.launched:
        return "nothing was started"
    pair.now_s = 40.0
    pair.ready(str(pair.launched[0][1]))
    for number in range(4):
        pair.pass_time(pair.now_s + 1.0)
        pair.answer(f"r{number}")
    there = sum(replica_id == pair.launched[0][1] for _, _, replica_id in pair.sent)
    return None if there else "the new replica got none of the adapter's requests"


def clock_jumps() -> str | None:
    """The machine's clock is set back, and ahead."""
    clock, real = WallClock(), time.time
    moments: list[float] = []
    try:
        for jump_s in (0.0, -30.0, 600.0, -86_400.0):
            time.time = partial(_set_by, real, jump_s)
            moments.append(clock.now_s())
    finally:
        time.time = real
    steps = [after - before for before, after in pairwise(moments)]
    return None if all(0.0 <= step < 5.0 for step in steps) else f"the brains' clock jumped by {steps}"


def _set_by(real: Callable[[], float], jump_s: float) -> float:
    return real() + jump_s
