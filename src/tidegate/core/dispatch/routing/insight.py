"""Everything that the router of one model knows about its replicas, kept up by what happens to requests.

It is told of each request that is sent, begins and leaves, and of every change of the replicas. From that come the
loads, what each cache can be expected to hold, how fast the kind is, and how often the predictions were right.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.capacity import MILLION, THOUSAND, CapacityBook, Kind
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import PrefixIndex
from tidegate.core.dispatch.routing.hits import REUSE_LEAST
from tidegate.core.dispatch.routing.load import CHUNK_TOKENS, WARM_AFTER_S, Load
from tidegate.core.dispatch.routing.pressure import Crowd, Wear
from tidegate.core.dispatch.routing.recall import Recall
from tidegate.core.dispatch.routing.residency import Residency
from tidegate.core.dispatch.routing.visits import Visit
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import RequestArrived, UpstreamEnded
from tidegate.core.types import ModelId, ReplicaId

LATE_S = 0.5
LATE_RATIO = 2.0
"""Prompts that took longer than this had to wait for memory; that teaches how much there is, and nothing else."""
LAW_KNOWN_AFTER = 50
"""Samples, before which nothing can be called late."""


class Insight:
    """One model's replicas as the router sees them."""

    def __init__(
        self, model: ModelId, capacities: CapacityBook, index: PrefixIndex, adapter_slots: int
    ) -> None:
        self.loads: dict[ReplicaId, Load] = {}
        self.recall = Recall(index, model)
        self.adapters = Residency(adapter_slots)
        self.crowd = Crowd()
        self._wear = Wear()
        self._reuse = self.recall.hits.reuse
        self._capacities = capacities

    def __repr__(self) -> str:
        return f"<Insight replicas={len(self.loads)} {self.recall!r} {self.adapters!r} {self.crowd!r}>"

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """These are the replicas from now on. One that is gone takes all that was known of it along."""
        recall, there = self.recall, {seat.replica_id for seat in seats}
        for replica_id in [known for known in self.loads if known not in there]:
            recall.bits &= ~self.loads.pop(replica_id).bit
            self.adapters.close(replica_id)
        for seat in seats:
            route, replica_id = seat.route, seat.replica_id
            if replica_id not in self.loads and seat.serves:
                # The lowest free bit. Its former owner's blocks were used before this one's birth.
                bit = ~recall.bits & (recall.bits + 1)
                kind = Kind(route.model, route.engine, route.gpu)
                self.loads[replica_id] = Load(replica_id, bit, self._capacities.of(kind), now_s)
                recall.bits |= bit
                self.adapters.open(replica_id)
            if replica_id in self.loads and route.adapters is not None:
                self.adapters.believe(replica_id, route.adapters)
        self.refresh(now_s)

    def refresh(self, now_s: float) -> None:
        """Take over what was learned since the last time."""
        loads, recall = self.loads.values(), self.recall
        for load in loads:
            load.refresh(now_s)
        if loads:
            recall.token_scale = sum(load.capacity.token_scale for load in loads) / len(loads)
        recall.births = sorted(((load.cache.horizon, load.bit) for load in loads), reverse=True)
        self._reuse = recall.hits.reuse
        self.crowd.refresh(len(loads), now_s)
        self._wear.refresh(loads)

    def eviction(self, arrived: RequestArrived) -> float:
        """What a second of prefill will cost again, for each unit of a replica's ``recent``.

        A prompt pushes out what was not used for longest. Where much was written lately that is not old, and is
        asked for again with the chance with which prompts are. Without a chain nothing is ever found again, and what
        is left only spreads equal choices.
        """
        return (self._reuse if arrived.prefix else REUSE_LEAST) * self._wear.share

    # ---- a request's way through ----

    def sent(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The entry goes to this replica."""
        load = self.loads.get(replica_id)
        if load is None:
            return
        arrived = entry.arrived
        tokens = arrived.prompt_tokens * self.recall.token_scale
        visit = Visit(arrived.flow, arrived.prefix, tokens, now_s)
        if arrived.prefix:
            self.recall.use(entry, load, visit, now_s)
        if arrived.adapter is not None:
            visit.adapter_s = self.adapters.use(replica_id, arrived.adapter)
        load.enter(entry.request_id, visit, now_s, streams=arrived.streams)
        self.crowd.sent(visit.work_s)
        if not arrived.streams:
            self._write(load, tokens - visit.cached, now_s)

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The entry's first token came from this replica."""
        load = self.loads.get(replica_id)
        visit = None if load is None else load.begin(entry.request_id, now_s)
        if load is None or visit is None or visit.run is None:
            return
        self._write(load, visit.prompt_tokens - visit.cached, now_s)
        if visit.adapter_s:
            run = visit.run
            run.is_spoilt = True
            if run.prompts == 1 and run.took_s is not None:
                self.adapters.learn(visit.adapter_s, visit.adapter_s + run.took_s - run.expected_s)

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """The entry is no longer at this replica, and was not answered there to its end."""
        load = self.loads.get(replica_id)
        visit = self._leave(entry, load)
        if load is None or visit is None:
            return
        if visit.run is not None:
            visit.run.spoil()
        if visit.began_s is None and visit.chain:
            self.recall.forget(load, visit)

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """The entry's answer is complete."""
        load = self.loads.get(replica_id)
        visit = self._leave(entry, load)
        if load is None or visit is None:
            return
        prompt = float(ended.prompt_tokens or visit.prompt_tokens)
        cached = visit.cached if ended.cached_tokens is None else float(ended.cached_tokens)
        if ended.prompt_tokens:
            load.capacity.learn_tokens(entry.arrived.prompt_tokens, ended.prompt_tokens)
        if visit.chain:
            self.recall.let_go(load, visit, now_s)
            if ended.cached_tokens is not None:
                self.recall.compare(entry, load, visit, prompt, cached)
        load.stayed(visit, now_s)
        if ended.output_tokens:
            self._write(load, ended.output_tokens, now_s)
        self._learn(load, visit, now_s, prompt, cached, ended.output_tokens or 0)

    def _leave(self, entry: Entry, load: Load | None) -> Visit | None:
        visit = None if load is None else load.leave(entry.request_id)
        if load is not None and visit is not None and entry.arrived.adapter is not None:
            self.adapters.end(load.replica_id, entry.arrived.adapter)
        return visit

    def _write(self, load: Load, tokens: float, now_s: float) -> None:
        load.cache.write(tokens, load.kv_begun, now_s)
        self._wear.write(load, tokens, self.loads.values(), now_s)

    def _learn(
        self, load: Load, visit: Visit, now_s: float, prompt: float, cached: float, output: int
    ) -> None:
        """What a settled replica's answer shows of its kind."""
        capacity, run = load.capacity, visit.run
        if run is None:
            return
        is_complete = run.tell(max(1.0, prompt - cached), cached)
        if now_s - load.born_s < WARM_AFTER_S:
            return
        if is_complete:
            steps = run.prompts + run.tokens / CHUNK_TOKENS
            alone_s = max(0.0, (run.took_s or 0.0) - run.drag_s * steps)
            law = capacity.prefill
            due_s = max(1.0, load.pace) * law.at(run.prompts, THOUSAND * run.tokens, MILLION * run.area)
            was_short = law.samples >= LAW_KNOWN_AFTER and alone_s > LATE_RATIO * due_s + LATE_S
            capacity.learn_room(run.kv_tokens, was_short=was_short)
            if not was_short:
                capacity.learn_prefill(now_s, run.prompts, run.tokens, run.area, alone_s)
        if visit.began_s is not None and output > 1:
            beside = 0.5 * (visit.sequences + len(load.visits) + 1)
            kv_tokens = load.kv_tokens + visit.prompt_tokens
            capacity.learn_decode(now_s, beside, kv_tokens, (now_s - visit.began_s) / (output - 1))
