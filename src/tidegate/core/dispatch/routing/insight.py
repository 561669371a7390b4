"""Everything that the router of one model knows about its replicas, kept up by what happens to requests.

It is told of each request that is sent, begins and leaves, and of every change of the replicas. From that come the
loads, what each cache can be expected to hold, how fast the kind is, and how often the predictions were right.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.capacity import MILLION, THOUSAND, Capacity, CapacityBook, Kind
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import REPLICA_MASK, Found, PrefixIndex, stamp_of
from tidegate.core.dispatch.routing.handover import Handover
from tidegate.core.dispatch.routing.heat import Heat
from tidegate.core.dispatch.routing.hits import REUSE_LEAST
from tidegate.core.dispatch.routing.load import WARM_AFTER_S, Load
from tidegate.core.dispatch.routing.pressure import Crowd, Wear
from tidegate.core.dispatch.routing.recall import Recall
from tidegate.core.dispatch.routing.residency import Residency
from tidegate.core.dispatch.routing.visits import Visit
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import RequestArrived, UpstreamEnded
from tidegate.core.spreading import CHUNK_TOKENS
from tidegate.core.types import ModelId, ReplicaId

WRITE_AT_ONCE = 2_000.0
"""Tokens put down together."""
STEPS_LEAST = 0.1
"""Of an answer's time, what its own steps take at the least, however much is reckoned for prompts beside it."""
SURE = 0.8
"""Of a predicted time, what hardly any prompt is faster than."""
LATE_S = 0.5
LATE_RATIO = 2.0
"""Prompts that took longer than this had to wait for memory; that teaches how much there is, and nothing else."""


class Insight:
    """One model's replicas as the router sees them."""

    def __init__(
        self, model: ModelId, capacities: CapacityBook, index: PrefixIndex, adapter_slots: int
    ) -> None:
        self.loads: dict[ReplicaId, Load] = {}
        self.recall = Recall(index, model)
        self.adapters = Residency(adapter_slots)
        self.crowd = Crowd()
        self.heat = Heat()
        self.handover = Handover()
        self.chosen: tuple[Entry | None, Found, float] = (None, [], 0.0)
        """For whom the last choice was made, how far replicas know its chain, and what the chosen one has of it."""
        self.spread = self.eviction = 0.0
        """What a second of prefill will cost again, for each unit of a replica's ``recent``.

        A prompt pushes out what was not used for longest. Where much was written lately that is not old, and is
        asked for again with the chance with which prompts are (``eviction``). A prompt without a chain is not known
        to push out anything of use; then it is only what spreads equal choices (``spread``).
        """
        self._wear = Wear()
        self._capacities = capacities
        self._kinds: tuple[Capacity, ...] = ()
        """Of the replicas there are."""

    def __repr__(self) -> str:
        return f"<Insight replicas={len(self.loads)} {self.recall!r} {self.adapters!r} {self.crowd!r}>"

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """These are the replicas from now on. One that is gone, or asleep, takes all that was known of it along.

        Tables come at a rate of their own. One that changes nothing leaves no trace here, so that what is decided
        depends on requests and not on how often the controller speaks.
        """
        recall, there = self.recall, {seat.replica_id for seat in seats if not seat.is_asleep}
        known = set(self.loads)
        for replica_id in known - there:
            recall.bits &= ~self.loads.pop(replica_id).bit
            self.adapters.close(replica_id)
        for seat in seats:
            route, replica_id = seat.route, seat.replica_id
            if replica_id not in self.loads and seat.serves:
                # The lowest free bit, if there is one. Its former owner's blocks were used before this one's birth.
                bit = ~recall.bits & (recall.bits + 1) & REPLICA_MASK
                kind = Kind(route.model, route.engine, route.gpu)
                self.loads[replica_id] = Load(replica_id, bit, self._capacities.of(kind), now_s)
                recall.bits |= bit
                self.adapters.open(replica_id)
                for entry in seat.in_flight.values():
                    self._found(entry, self.loads[replica_id], now_s)
            if replica_id in self.loads and route.adapters is not None:
                self.adapters.believe(replica_id, route.adapters)
            if replica_id in self.loads and route.knows is not None:
                self.adapters.keep_only(replica_id, route.knows)
        if self.loads.keys() != known:
            self._kinds = tuple(dict.fromkeys(load.capacity for load in self.loads.values()))
            self._take_over(now_s)
        self.handover.seats_are(seats, self.loads)

    def refresh(self, now_s: float) -> None:
        """Take over what was learned since the last time."""
        for load in self.loads.values():
            load.refresh(now_s)
        self.crowd.refresh(len(self.loads), now_s)
        self._take_over(now_s)

    def _take_over(self, now_s: float) -> None:
        loads, recall = self.loads.values(), self.recall
        if loads:
            recall.token_scale = sum(load.capacity.token_scale for load in loads) / len(loads)
        recall.births = sorted(((load.cache.horizon, load.bit) for load in loads), reverse=True)
        for load in loads:
            if load.unwritten:
                self._write(load, now_s)
        self._wear.refresh(loads)
        self._weigh()

    def least_s(self, arrived: RequestArrived, left_s: float) -> float:
        """What the prompt takes on the fastest kind of replica that has the most of it; 0 when that is not known, or
        cannot be more than ``left_s``. Engines may have more of it than this gateway has seen: as much as they usually
        have is taken to be there."""
        tokens = arrived.prompt_tokens * self.recall.token_scale
        kinds = self._kinds
        if not all(kind.is_known and kind.prefill_s(tokens, 0.0) > left_s for kind in kinds):
            return 0.0
        cached = self.recall.longest(arrived)
        new = (tokens - cached) * (1.0 - self.recall.hits.reuse)
        return min((SURE * kind.prefill_s(new, cached) for kind in kinds), default=0.0)

    def cache_told(self, replica_id: ReplicaId, gone_before_s: float) -> None:
        """An engine says what of its cache is gone; see ``CacheLife.told``."""
        load = self.loads.get(replica_id)
        if load is not None and gone_before_s > load.born_s:
            load.cache.told(stamp_of(gone_before_s))

    def copies_wanted(self, arrived: RequestArrived, found: Found) -> tuple[int, float]:
        """The replicas (bits) that should get the longest known beginning too, and its tokens; 0 when enough have it.

        Those that leave neither count nor get any.
        """
        depth, bits = found[-1]
        staying = self.recall.bits & ~self.handover.going
        homes = self.heat.homes(arrived.prefix[depth - 1], staying.bit_count())
        if (bits & staying).bit_count() >= homes:
            return 0, 0.0
        tokens = min(depth * arrived.block_tokens, max(0, arrived.prompt_tokens - 1))
        return staying & ~bits, self.recall.token_scale * tokens

    # ---- a request's way through ----

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The entry was given this seat."""
        load = self.loads.get(seat.replica_id)
        if load is None:
            return
        arrived, recall = entry.arrived, self.recall
        visit = Visit(arrived.prefix, arrived.prompt_tokens * recall.token_scale, now_s)
        found: Found = []
        if arrived.prefix:
            known, found, cached = self.chosen
            if known is not entry:
                found = recall.walk(arrived)
                cached = recall.cached(arrived, found, load)
            self.chosen = (None, [], 0.0)
            self.heat.part(arrived.prefix[found[-1][0] - 1] if found else None)
            visit.cached = cached
            if cached > 0.0:
                self._spare(arrived, found, load, cached, now_s)
            recall.use(arrived, found, load, visit, now_s)
        if arrived.adapter is not None:
            visit.adapter_s = self.adapters.use(load.replica_id, arrived.adapter)
        load.enter(entry.request_id, visit, now_s, streams=arrived.streams)
        if self.handover.leaving:
            self.handover.sent(entry.request_id, arrived, found, load)
        self.crowd.sent(visit.work_s)
        if not arrived.streams:
            load.unwritten += visit.prompt_tokens - visit.cached

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The entry's answer has begun at this replica."""
        load = self.loads.get(replica_id)
        self.handover.over(entry.request_id)
        visit = None if load is None else load.begin(entry.request_id, now_s)
        if load is None or visit is None or not entry.arrived.streams:
            return
        load.unwritten += visit.prompt_tokens - visit.cached
        if load.unwritten > WRITE_AT_ONCE:
            self._write(load, now_s)
        if visit.adapter_s and visit.run is not None:
            run = visit.run
            run.is_spoilt = True
            if run.prompts == 1 and run.took_s is not None:
                self.adapters.learn(visit.adapter_s, visit.adapter_s + run.took_s - run.expected_s)

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """The entry is no longer at this replica, and was not answered there to its end."""
        load = self.loads.get(replica_id)
        self.handover.over(entry.request_id)
        visit = None if load is None else self._leave(entry, load)
        if load is None or visit is None:
            return
        if visit.run is not None:
            visit.run.spoil()
        if visit.began_s is None and visit.chain:
            self.recall.forget(entry.arrived, load, visit)

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """The entry's answer is complete, and the engine may have said what it counted."""
        load = self.loads.get(replica_id)
        self.handover.over(entry.request_id)
        visit = None if load is None else self._leave(entry, load)
        if load is None or visit is None:
            return
        load.unwritten += ended.output_tokens or 0
        if load.unwritten > WRITE_AT_ONCE:
            self._write(load, now_s)
        arrived = entry.arrived
        if visit.chain:
            self.recall.let_go(arrived, load, visit, now_s)
            if ended.cached_tokens is not None:
                prompt = float(ended.prompt_tokens or visit.prompt_tokens)
                self.recall.compare(arrived, load, visit, prompt, ended.cached_tokens)
        if visit.run is not None:
            self._learn(arrived, load, visit, now_s, ended)

    def _spare(self, arrived: RequestArrived, found: Found, load: Load, cached: float, now_s: float) -> None:
        """What of so much the replica has and no other that stays."""
        others = self.recall.bits & ~self.handover.going & ~load.bit
        depth = next((depth for depth, bits in reversed(found) if bits & others), 0)
        elsewhere = min(cached, self.recall.token_scale * depth * arrived.block_tokens)
        if cached > elsewhere:
            law = load.capacity
            spared_s = law.prefill_s(cached, 0.0) - (
                law.prefill_s(elsewhere, 0.0) if elsewhere > 0.0 else 0.0
            )
            load.spared.add(max(0.0, spared_s), now_s)

    def alone_s(self, replica_id: ReplicaId, now_s: float) -> float:
        """Seconds of work that others would do again if this replica went."""
        load = self.loads.get(replica_id)
        if load is None:
            return 0.0
        return load.spared.seconds(now_s) + self.adapters.alone_s(replica_id)

    def _found(self, entry: Entry, load: Load, now_s: float) -> None:
        """The entry was there before this router was: it holds memory, and how long it took teaches nothing."""
        load.find(entry.request_id, Visit((), entry.arrived.prompt_tokens * self.recall.token_scale, now_s))
        if entry.arrived.adapter is not None:
            self.adapters.use(load.replica_id, entry.arrived.adapter)

    def _leave(self, entry: Entry, load: Load) -> Visit | None:
        visit = load.leave(entry.request_id)
        if visit is not None and entry.arrived.adapter is not None:
            self.adapters.end(load.replica_id, entry.arrived.adapter)
        return visit

    def _write(self, load: Load, now_s: float) -> None:
        load.cache.write(load.unwritten, load.kv_begun, now_s)
        self._wear.write(load, self.loads.values(), now_s)
        load.unwritten = 0.0
        self._weigh()

    def _weigh(self) -> None:
        self.spread = REUSE_LEAST * self._wear.share
        self.eviction = self.recall.hits.reuse * self._wear.share

    def _learn(
        self, arrived: RequestArrived, load: Load, visit: Visit, now_s: float, ended: UpstreamEnded
    ) -> None:
        """What an answer shows of its replica's kind."""
        capacity, run, output = load.capacity, visit.run, ended.output_tokens or 0
        if run is None or visit.began_s is None:
            return
        load.stayed(now_s - visit.began_s)
        if ended.prompt_tokens:
            capacity.learn_tokens(arrived.prompt_tokens, ended.prompt_tokens)
        prompt = float(ended.prompt_tokens or visit.prompt_tokens)
        cached = visit.cached if ended.cached_tokens is None else float(ended.cached_tokens)
        is_complete = run.tell(max(1.0, prompt - cached), cached)
        settled = now_s - load.born_s >= WARM_AFTER_S
        if is_complete:
            steps = run.prompts + run.tokens / CHUNK_TOKENS
            alone_s = max(0.0, (run.took_s or 0.0) - run.drag_s * steps)
            law = capacity.prefill
            due_s = max(1.0, load.pace) * law.at(run.prompts, THOUSAND * run.tokens, MILLION * run.area)
            was_short = settled and capacity.is_known and alone_s > LATE_RATIO * due_s + LATE_S
            capacity.learn_room(run.kv_tokens, was_short=was_short)
            if not was_short:
                capacity.learn_prefill(now_s, run.prompts, run.tokens, run.area, alone_s, settled=settled)
        if output > 1:
            beside = 0.5 * (visit.sequences + len(load.visits) + 1)
            kv_tokens = load.kv_tokens + visit.prompt_tokens
            stay_s = now_s - visit.began_s
            # Without the prompts of others, which made some of its steps longer.
            steps_s = max(STEPS_LEAST * stay_s, stay_s - (load.prompts_s - visit.beside_s))
            capacity.learn_decode(now_s, beside, kv_tokens, steps_s / (output - 1), settled=settled)
