"""What one replica has before it, as the router reckons: work ahead, tokens held, what its cache still has.

Prompts are computed in the order in which they were sent, so work ahead is one moment, ``free_at_s``: it moves on
with every prompt sent, and is set right by every first token, which says that all prompts before it are done.
"""

from __future__ import annotations

from math import inf

from tidegate.core.capacity import MILLION, SAMPLES_PER_S, THOUSAND, Capacity
from tidegate.core.dispatch.routing.cache import CacheLife
from tidegate.core.dispatch.routing.spared import Spared
from tidegate.core.dispatch.routing.visits import Run, Visit
from tidegate.core.spreading import CHUNK_TOKENS
from tidegate.core.types import ReplicaId, RequestId

WARM_AFTER_S = 30.0
"""Younger replicas are compiling and filling their caches: they do not teach what their kind can do."""
RUN_MOST = 16
"""Prompts in a row after which a run is taken to be over: under load it never would be."""
PACE_STEP = 0.25
PACE_SHORT_S = 0.02
"""A run as short as this counts half: it says more about steps' ends than about the replica."""
PACE_LEAST, PACE_MOST = 0.2, 8.0
PACE_FORGOTTEN_S = 10.0
"""Half of a replica's own pace is forgotten in this time without a sample: every mark expires."""
STAY_STEP = 0.05


class Load:
    """One replica. Owned by the router of its model."""

    __slots__ = (
        "_decode_k1",
        "_decode_k2",
        "_last_ratio",
        "_paced_s",
        "_run",
        "_sample_s",
        "_used_pace",
        "bit",
        "born_s",
        "cache",
        "capacity",
        "drag_s",
        "free_at_s",
        "in_use",
        "k0",
        "k1",
        "k2",
        "kv_begun",
        "kv_tokens",
        "pace",
        "prompts_s",
        "recent",
        "replica_id",
        "room_tokens",
        "spared",
        "stay_s",
        "tail_s",
        "token_s",
        "unwritten",
        "visits",
        "waiting",
        "waiting_s",
        "waiting_tokens",
    )

    def __init__(self, replica_id: ReplicaId, bit: int, capacity: Capacity, now_s: float) -> None:
        self.replica_id = replica_id
        self.bit = bit
        self.capacity = capacity
        self.born_s = now_s
        self.visits: dict[RequestId, Visit] = {}
        self.waiting: dict[RequestId, Visit] = {}
        """Sent, and no token yet; in order."""
        self.waiting_s = self.tail_s = 0.0
        """Their prompts' work, and the part of it behind the first of them."""
        self.waiting_tokens = 0.0
        """Their prompts' tokens that are not expected to be cached."""
        self.free_at_s = now_s
        self.kv_tokens = self.kv_begun = 0.0
        """Prompt tokens of all requests there, and of those with a token."""
        self.prompts_s = 0.0
        """What prompts have added to its steps in all, of those that have begun."""
        self.pace = 1.0
        """How long its prompts take, in terms of its kind."""
        self._last_ratio = self._used_pace = 1.0
        self.in_use: dict[int, int] = {}
        """Last blocks of the prompts in flight, which nothing can push out of the cache."""
        self.recent = 0.0
        """Tokens written into its cache, the older the fewer; only to be compared between replicas."""
        self.unwritten = 0.0
        """Tokens that the last two do not know of yet."""
        self.cache = CacheLife(now_s)
        self.spared = Spared(now_s)
        self.stay_s = 0.0
        """How long a request usually keeps its memory, from its first token on; 0: none has ended yet."""
        self._run: Run | None = None
        self._sample_s = self._paced_s = now_s
        self.refresh(now_s)

    def __repr__(self) -> str:
        return (
            f"<Load {self.replica_id} requests={len(self.visits)} kv={self.kv_tokens:.0f}"
            f" waiting={self.waiting_s:.3f} s pace={self.pace:.2f}>"
        )

    # ---- what the router asks ----

    def wait_s(self, now_s: float) -> float:
        """Until a prompt that is sent now has its turn."""
        wait_s = self.free_at_s - now_s
        if wait_s < 0.0:
            # What is late by so much is taken to need as long again.
            wait_s = -wait_s if self.waiting else 0.0
        return max(wait_s, self.tail_s)

    def room_s(self, tokens: float) -> float:
        """Until so many more tokens fit beside those there, as far as memory's bound is known."""
        missing = self.kv_tokens + tokens - self.room_tokens
        if missing <= 0.0 or not self.kv_begun:
            return 0.0
        # Of what is held, a part as large as 1 / stay is given back each second.
        return missing * self.stay_s / self.kv_begun

    def refresh(self, now_s: float) -> None:
        """Take over what its kind has learned, and let its own pace fade."""
        quiet_s = now_s - self._paced_s
        if quiet_s > PACE_FORGOTTEN_S and not self.waiting:
            self.pace = 1.0 + 0.5 * (self.pace - 1.0)
            self._paced_s = now_s
        capacity = self.capacity
        law, pace = capacity.prefill, self.pace
        self._used_pace = pace
        self.k0, self.k1, self.k2 = pace * law.k0, pace * THOUSAND * law.k1, pace * MILLION * law.k2
        law = capacity.decode
        self._decode_k1, self._decode_k2 = law.k1, THOUSAND * law.k2
        self.room_tokens = inf if capacity.kv_tokens is None else capacity.kv_tokens
        self._weigh()

    # ---- a request's way through ----

    def enter(self, request_id: RequestId, visit: Visit, now_s: float, *, streams: bool) -> None:
        """A request is sent here."""
        tokens, cached = visit.prompt_tokens, visit.cached
        new = tokens - cached
        work_s = self.k0 + new * (self.token_s + self.k2 * (cached + 0.5 * new)) + visit.adapter_s
        visit.work_s = work_s
        visit.law_s = work_s / self._used_pace
        self.visits[request_id] = visit
        if visit.chain:
            self.in_use[visit.chain[-1]] = self.in_use.get(visit.chain[-1], 0) + 1
        self.kv_tokens += tokens
        self.free_at_s = (max(now_s, self.free_at_s)) + work_s
        if streams:
            waiting = self.waiting
            if waiting:
                self.tail_s += work_s
            elif now_s >= self._sample_s:
                self._sample_s = now_s + 1.0 / SAMPLES_PER_S
                self._run = Run(now_s, self.drag_s)
            waiting[request_id] = visit
            self.waiting_s += work_s
            self.waiting_tokens += new
        self._weigh()

    def find(self, request_id: RequestId, visit: Visit) -> None:
        """A request is here already; its prompt counts as computed."""
        visit.began_s, visit.beside_s = visit.sent_s, self.prompts_s
        self.visits[request_id] = visit
        self.kv_tokens += visit.prompt_tokens
        self.kv_begun += visit.prompt_tokens
        self._weigh()

    def begin(self, request_id: RequestId, now_s: float) -> Visit | None:
        """Its first token is there: its prompt is computed, and so are all before it."""
        visit = self.visits.get(request_id)
        if visit is None or visit.began_s is not None:
            return None
        visit.began_s = now_s
        self.prompts_s += max(0.0, visit.work_s - visit.adapter_s - self.k0)
        visit.beside_s = self.prompts_s
        self.kv_begun += visit.prompt_tokens
        if request_id not in self.waiting:
            return visit
        self._pass_over(request_id)
        self.free_at_s = now_s + self.waiting_s
        run = self._run
        if run is not None:
            visit.run = run
            visit.sequences = len(self.visits)
            run.join(visit.law_s, self.kv_begun)
            if not self.waiting or run.prompts >= RUN_MOST:
                self._close(run, now_s)
        return visit

    def leave(self, request_id: RequestId) -> Visit | None:
        """It is not here any more, whatever became of it."""
        visit = self.visits.pop(request_id, None)
        if visit is None:
            return None
        if visit.chain:
            self._release(visit.chain[-1])
        self.kv_tokens -= visit.prompt_tokens
        if visit.began_s is not None:
            self.kv_begun -= visit.prompt_tokens
        if self.waiting and self.waiting.pop(request_id, None) is not None:
            self.waiting_s -= visit.work_s
            self.waiting_tokens -= visit.prompt_tokens - visit.cached
            self.free_at_s -= visit.work_s
            self._measure_tail()
            if self._run is not None:
                self._run.is_spoilt = True
        if not self.visits:
            self.kv_tokens = self.kv_begun = 0.0  # No crumbs of rounding.
        self._weigh()
        return visit

    def stayed(self, stay_s: float) -> None:
        """An answered request gave its memory back."""
        self.stay_s = stay_s if not self.stay_s else self.stay_s + STAY_STEP * (stay_s - self.stay_s)

    # ---- the pieces ----

    def _release(self, block: int) -> None:
        left = self.in_use[block] - 1
        if left:
            self.in_use[block] = left
        else:
            del self.in_use[block]

    def _pass_over(self, request_id: RequestId) -> None:
        waiting = self.waiting
        while True:
            passed = next(iter(waiting))
            gone = waiting.pop(passed)
            self.waiting_s -= gone.work_s
            self.waiting_tokens -= gone.prompt_tokens - gone.cached
            if passed == request_id:
                break
        if waiting:
            self._measure_tail()
        else:
            self.waiting_s = self.waiting_tokens = self.tail_s = 0.0

    def _measure_tail(self) -> None:
        first = next(iter(self.waiting.values()), None)
        self.tail_s = 0.0 if first is None else max(0.0, self.waiting_s - first.work_s)

    def _close(self, run: Run, now_s: float) -> None:
        """The last of a run has begun: that is how long they took, and as many were expected to."""
        run.took_s = now_s - run.began_s
        self._run = Run(now_s, self.drag_s) if self.waiting else None
        if run.is_spoilt:
            return
        due_s = run.expected_s + run.prompts * self.drag_s
        ratio = min(PACE_MOST, max(PACE_LEAST, run.took_s / due_s))
        # One run that took long may have been anything; two in a row are this replica's own.
        believed, self._last_ratio = min(ratio, max(self._last_ratio, self.pace)), ratio
        self.pace += PACE_STEP * due_s / (due_s + PACE_SHORT_S) * (believed - self.pace)
        self._paced_s = now_s

    def _weigh(self) -> None:
        """What the batch adds to a step, and what a token of a prompt takes beside it."""
        self.drag_s = drag_s = self._decode_k1 * len(self.visits) + self._decode_k2 * self.kv_tokens
        self.token_s = self.k1 + drag_s / CHUNK_TOKENS
