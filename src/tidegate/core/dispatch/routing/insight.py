"""Everything that the router of one model knows about its replicas, kept up by what happens to requests.

It is told of each request that is sent, begins and leaves, and of every change of the replicas. From that come the
loads, what each cache is taken to hold, how fast the kind is, and how often the predictions were right.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.capacity import MILLION, THOUSAND, CapacityBook, Kind
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import Found, PrefixIndex, stamp_of
from tidegate.core.dispatch.routing.hits import REUSE_LEAST, Hits
from tidegate.core.dispatch.routing.load import CHUNK_TOKENS, WARM_AFTER_S, Load
from tidegate.core.dispatch.routing.residency import Residency
from tidegate.core.dispatch.routing.visits import Visit
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import RequestArrived, UpstreamEnded
from tidegate.core.types import ReplicaId

ADAPTER_SLOTS = 8
CERTAIN = 0.95
CROWD_SPAN_S = 1.0
CROWD_STEP = 0.1
BUSY_MOST = 0.6
LATE_S = 0.5
LATE_RATIO = 2.0
LAW_KNOWN_AFTER = 50
"""Prompts that took longer than this had to wait for memory; that teaches how much there is, and nothing else."""
RECENT_HALVED_S = 120.0
"""What was written into caches counts half as much after this time."""
RECENT_SCALED_AFTER_S = 100 * RECENT_HALVED_S


class Insight:
    """One model's replicas as the router sees them."""

    def __init__(
        self, capacities: CapacityBook, index: PrefixIndex, adapter_slots: int | None = None
    ) -> None:
        self.loads: dict[ReplicaId, Load] = {}
        self.bits = 0
        """Of all replicas there are."""
        self.adapters = Residency(adapter_slots or ADAPTER_SLOTS)
        self.hits = Hits()
        self._reuse = self.hits.reuse
        self._recent_share = 0.0
        self.token_scale = 1.0
        self.crowd_per_s = 0.0
        """Requests that come to a replica, and are held up, for each second that something takes there."""
        self._sent, self._sent_work_s = 0, 0.0
        self._crowded_s: float | None = None
        self._capacities = capacities
        self._index = index
        self._looked_up: tuple[Entry | None, Found] = (None, [])
        self._births: list[tuple[int, int]] = []
        self._recent_total = 0.0
        self._recent_since_s: float | None = None

    def __repr__(self) -> str:
        return f"<Insight replicas={len(self.loads)} {self.hits!r}>"

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """These are the replicas from now on. One that is gone takes all that was known of it along."""
        there = {seat.replica_id for seat in seats}
        for replica_id in [known for known in self.loads if known not in there]:
            load = self.loads.pop(replica_id)
            self.bits &= ~load.bit
            self.adapters.close(replica_id)
        for seat in seats:
            route = seat.route
            if seat.replica_id not in self.loads:
                # The lowest free bit. Its former owner's blocks were used before this one's horizon.
                bit = ~self.bits & (self.bits + 1)
                kind = Kind(route.model, route.engine, route.gpu)
                self.loads[seat.replica_id] = Load(seat.replica_id, bit, self._capacities.of(kind), now_s)
                self.bits |= bit
                self.adapters.open(seat.replica_id)
            if route.adapters is not None:
                self.adapters.believe(seat.replica_id, route.adapters)
        self.refresh(now_s)

    def refresh(self, now_s: float) -> None:
        """Take over what was learned since the last time."""
        scale = 0.0
        for load in self.loads.values():
            load.refresh(now_s)
            scale += load.capacity.token_scale
        if self.loads:
            self.token_scale = scale / len(self.loads)
        self._reuse = self.hits.reuse
        self._count_crowd(now_s)
        self._births = sorted(((load.cache.horizon, load.bit) for load in self.loads.values()), reverse=True)
        self._recent_total = sum(load.recent for load in self.loads.values())
        self._share()

    # ---- prefixes ----

    def look_up(self, entry: Entry) -> Found:
        """Walk the entry's chain; remembered until the next."""
        arrived = entry.arrived
        found = self._index.walk(arrived.flow, arrived.prefix, self.bits)
        self._looked_up = (entry, found)
        return found

    def cached(self, entry: Entry, found: Found, load: Load) -> float:
        """Tokens of the entry's prompt that can be expected in this replica's cache.

        Each block counts by the chance that it is still there. A chain was used in few pieces, the beginning last;
        two of them are looked at.
        """
        depth = next((depth for depth, bits in found if bits & load.bit), 0)
        if not depth:
            return 0.0
        arrived = entry.arrived
        chance, first = self._tail(entry, depth, load)
        blocks = depth if chance >= CERTAIN else first + chance * (depth - first)
        # The last token of a prompt is always computed.
        return self.token_scale * min(blocks * arrived.block_tokens, max(0, arrived.prompt_tokens - 1))

    def _tail(self, entry: Entry, depth: int, load: Load) -> tuple[float, int]:
        """The chance that the last of so many blocks is still there, and how many before it were used since."""
        flow, chain = entry.arrived.flow, entry.arrived.prefix
        last = chain[depth - 1]
        if last in load.in_use:
            return 1.0, 0
        chance = load.cache.chance(self._index.last_use(flow, last, load.bit), load.waiting_tokens)
        if chance >= CERTAIN:
            return chance, 0
        return chance, self._index.depth_since(flow, chain, depth, self._index.stamp(flow, last) + 1)

    # ---- a request's way through ----

    def sent(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The entry goes to this replica."""
        load = self.loads.get(replica_id)
        if load is None:
            return
        arrived, cached = entry.arrived, 0.0
        found: Found = []
        if arrived.prefix:
            known, found = self._looked_up
            if known is not entry:
                found = self.look_up(entry)
            self._looked_up = (None, [])
            cached = self.cached(entry, found, load)
        tokens = arrived.prompt_tokens * self.token_scale
        visit = Visit(arrived.flow, arrived.prefix, tokens, cached, now_s)
        if arrived.prefix:
            visit.depth = next((depth for depth, bits in found if bits & load.bit), 0)
            if visit.depth:
                last = arrived.prefix[visit.depth - 1]
                visit.last_use = self._index.last_use(arrived.flow, last, load.bit)
                visit.since = load.cache.since(visit.last_use) + load.waiting_tokens
                visit.was_in_use = last in load.in_use
                visit.first = self._tail(entry, visit.depth, load)[1]
            self._index.use(arrived.flow, arrived.prefix, load.bit, stamp_of(now_s), self._births)
        if arrived.adapter is not None:
            visit.adapter_s = self.adapters.use(replica_id, arrived.adapter)
        load.enter(entry.request_id, visit, now_s, streams=arrived.streams)
        self._sent += 1
        self._sent_work_s += visit.work_s
        if not arrived.streams:
            self._write(load, tokens - cached, now_s)

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """The entry's first token came from this replica."""
        load = self.loads.get(replica_id)
        if load is None:
            return
        visit = load.begin(entry.request_id, now_s)
        if visit is None or visit.run is None:
            return
        self._write(load, visit.prompt_tokens - visit.cached, now_s)
        if not visit.adapter_s:
            return
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
            # Its prompt was never computed, as far as anybody knows.
            self._index.forget(visit.flow, visit.chain[visit.depth :], load.bit)

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """The entry's answer is complete."""
        load = self.loads.get(replica_id)
        visit = self._leave(entry, load)
        if load is None or visit is None:
            return
        arrived, cached, output = entry.arrived, ended.cached_tokens, ended.output_tokens
        if visit.chain:
            # Until now its blocks were in use; engines count their age from here.
            self._index.use(visit.flow, visit.chain, load.bit, stamp_of(now_s), self._births)
        prompt = float(ended.prompt_tokens or visit.prompt_tokens)
        if ended.prompt_tokens:
            load.capacity.learn_tokens(arrived.prompt_tokens, ended.prompt_tokens)
        if cached is not None and visit.chain:
            self.hits.note(prompt, min(visit.cached, prompt), cached)
            self._compare(entry, load, visit, prompt, cached)
        load.stayed(visit, now_s)
        if output:
            self._write(load, output, now_s)
        self._learn(load, visit, now_s, prompt, visit.cached if cached is None else cached, output)

    def _leave(self, entry: Entry, load: Load | None) -> Visit | None:
        visit = None if load is None else load.leave(entry.request_id)
        if load is not None and visit is not None and entry.arrived.adapter is not None:
            self.adapters.end(load.replica_id, entry.arrived.adapter)
        return visit

    def _learn(
        self, load: Load, visit: Visit, now_s: float, prompt: float, cached: float, output: int | None
    ) -> None:
        """What a settled replica's answer shows of its kind."""
        capacity, run = load.capacity, visit.run
        is_complete = run is not None and run.tell(max(1.0, prompt - cached), cached)
        if now_s - load.born_s < WARM_AFTER_S:
            return
        if run is not None and is_complete:
            steps = run.prompts + run.tokens / CHUNK_TOKENS
            alone_s = max(0.0, (run.took_s or 0.0) - run.drag_s * steps)
            due_s = max(1.0, load.pace) * capacity.prefill.at(
                run.prompts, THOUSAND * run.tokens, MILLION * run.area
            )
            is_known = capacity.prefill.samples >= LAW_KNOWN_AFTER
            was_short = is_known and alone_s > LATE_RATIO * due_s + LATE_S
            capacity.learn_room(run.kv_tokens, was_short=was_short)
            if not was_short:
                capacity.learn_prefill(now_s, run.prompts, run.tokens, run.area, alone_s)
        if run is not None and visit.began_s is not None and output and output > 1:
            beside = 0.5 * (visit.sequences + len(load.visits) + 1)
            kv_tokens = load.kv_tokens + visit.prompt_tokens
            capacity.learn_decode(now_s, beside, kv_tokens, (now_s - visit.began_s) / (output - 1))

    def _compare(self, entry: Entry, load: Load, visit: Visit, prompt: float, cached: float) -> None:
        """How much of what the index had there was really there."""
        if not visit.depth or visit.was_in_use:
            return
        arrived = entry.arrived
        block = arrived.block_tokens * prompt / max(1, arrived.prompt_tokens)
        first, known = visit.first * block, min(visit.depth * block, prompt)
        # Engines' blocks and ours do not end at the same tokens.
        if cached >= known - 1.5 * block:
            load.cache.learn(visit.last_use, visit.since, 1.0)
        else:
            load.cache.learn(visit.last_use, visit.since, max(0.0, cached - first) / (known - first))

    # ---- how crowded it is, and how full the caches are ----

    def _count_crowd(self, now_s: float) -> None:
        """Of a queue whose server is busy for a share ``rho`` of the time, 1 / (1 - rho) feel each delay."""
        if self._crowded_s is None:
            self._crowded_s = now_s
        span_s = now_s - self._crowded_s
        if span_s < CROWD_SPAN_S or not self.loads:
            return
        per_s = self._sent / span_s / len(self.loads)
        busy = min(BUSY_MOST, self._sent_work_s / span_s / len(self.loads))
        crowd_per_s = per_s / (1.0 - busy)
        self.crowd_per_s += CROWD_STEP * (crowd_per_s - self.crowd_per_s)
        self._sent, self._sent_work_s, self._crowded_s = 0, 0.0, now_s

    def eviction(self, arrived: RequestArrived) -> float:
        """What a second of prefill will cost again, for each unit of a replica's ``recent``.

        A prompt pushes out what was not used for longest. Where much was written lately that is not old, and is
        asked for again with the chance with which prompts are. Without a chain nothing is ever found again, and what
        is left only spreads equal choices.
        """
        return (self._reuse if arrived.prefix else REUSE_LEAST) * self._recent_share

    def _write(self, load: Load, tokens: float, now_s: float) -> None:
        load.cache.write(tokens, now_s)
        since_s = self._recent_since_s
        if since_s is None:
            since_s = self._recent_since_s = now_s
        # Old amounts are not made smaller; new ones are made larger.
        amount = tokens * 2.0 ** ((now_s - since_s) / RECENT_HALVED_S)
        load.recent += amount
        self._recent_total += amount
        if now_s - since_s > RECENT_SCALED_AFTER_S:
            for other in self.loads.values():
                other.recent *= 2.0 ** ((since_s - now_s) / RECENT_HALVED_S)
            self._recent_total *= 2.0 ** ((since_s - now_s) / RECENT_HALVED_S)
            self._recent_since_s = now_s
        self._share()

    def _share(self) -> None:
        total = self._recent_total
        self._recent_share = len(self.loads) / total if total > 0.0 else 0.0
