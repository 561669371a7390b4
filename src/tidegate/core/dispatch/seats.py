"""What the dispatcher knows of one replica: its slots, who sits there, and how far it is trusted."""

from __future__ import annotations

from collections import deque
from math import inf

from tidegate.core.dispatch.health import AT_ONCE, Breaker, Pressure
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.ramp import Ramp
from tidegate.core.events import Failure
from tidegate.core.lifecycle import State
from tidegate.core.types import ReplicaId, RequestId, Route

SILENT_FOR_S = 10.0
"""A deadline that passes sooner says more about the deadline than about the replica."""

ASLEEP = frozenset({State.SLEEPING, State.WAKING})

PROBES_SHARE = 8
"""One probe for so many slots, at least one, while a breaker is half-open."""


class Seat:
    """One replica as the dispatcher sees it. Its load is the set of requests that sit there."""

    __slots__ = (
        "breaker",
        "guest",
        "has_served",
        "heard_s",
        "in_flight",
        "is_held",
        "known",
        "number",
        "opening",
        "opening_limit",
        "pressure",
        "ramp",
        "replica_id",
        "route",
        "silent",
        "tokens",
        "unbegun",
    )

    def __init__(self, route: Route, number: int) -> None:
        self.number = number
        """Its place in the table."""
        self.replica_id: ReplicaId = route.replica_id
        self.route = route
        self.known = None if route.knows is None else frozenset(route.knows)
        """LoRA adapters that it can be asked for; None: any."""
        self.in_flight: dict[RequestId, Entry] = {}
        self.tokens = 0
        self.unbegun: dict[RequestId, int] = {}
        """Prompt tokens of those whose first token has not come, in the order in which they were sent."""
        self.silent: deque[tuple[float, RequestId]] = deque()
        """Those of them that are answered in one piece, and the moment from which on theirs is taken to have come."""
        self.opening = 0
        """Of all of them."""
        self.opening_limit = inf
        """As many as it computes within a moment: who came later would wait behind more, whatever its claim."""
        self.guest: Entry | None = None
        """Whom others gave way to here, until its first token: it would share its steps with what is sent meanwhile."""
        self.heard_s: float | None = None
        """When it last began or ended an answer well; None before the first."""
        self.breaker = Breaker()
        self.pressure = Pressure()
        self.ramp: Ramp | None = None
        self.has_served = False
        """It was in a table as serving before."""
        self.is_held = False
        """Something may keep it below its slots. False: its free slots are all there is to ask."""

    def __repr__(self) -> str:
        held = f" {self.breaker!r} {self.pressure!r} {self.ramp!r}" if self.is_held else ""
        return f"<Seat {self.replica_id} {len(self.in_flight)}/{self.route.slots} tokens={self.tokens}{held}>"

    def told(self, route: Route, number: int) -> None:
        """What a new table says of it, and at which place."""
        if route.knows != self.route.knows:
            self.known = None if route.knows is None else frozenset(route.knows)
        self.route, self.number = route, number
        if self.is_asleep:
            self.has_served = False

    @property
    def is_asleep(self) -> bool:
        """Its GPUs' memory is given back, and what its caches held is gone with it."""
        return self.route.state in ASLEEP

    @property
    def serves(self) -> bool:
        """It takes requests, now or when a slot gets free."""
        return self.route.state is State.SERVING and self.route.slots > 0

    @property
    def free(self) -> int:
        """Slots that nobody has."""
        return self.route.slots - len(self.in_flight)

    def room(self, now_s: float, *, is_needed: bool = False) -> int:
        """How many more it may be given now. ``is_needed``: no other replica has room."""
        route = self.route
        if route.state is not State.SERVING:
            return 0
        limit = route.slots
        if self.is_held:
            limit = self._held_to(limit, now_s, is_needed=is_needed)
        return limit - len(self.in_flight)

    def _held_to(self, slots: int, now_s: float, *, is_needed: bool) -> int:
        breaker, ramp = self.breaker, self.ramp
        if breaker.rests(now_s):
            return 0
        limit = self.pressure.limit(slots, now_s)
        since_s = breaker.half_open_s
        if since_s is not None:
            others = sum(1 for entry in self.in_flight.values() if (entry.sent_s or 0.0) < since_s)
            limit = min(limit, others + max(1, slots // PROBES_SHARE))
        if ramp is not None:
            if ramp.is_over(slots, now_s):
                self.ramp = None
            elif not is_needed:
                limit = min(limit, ramp.limit)
        self.is_held = self.ramp is not None or since_s is not None or limit < slots
        return limit

    def take(self, entry: Entry) -> None:
        """Give the entry a slot. Choosing takes the slot: nothing lies between the two."""
        self.in_flight[entry.request_id] = entry
        self.tokens += entry.tokens
        arrived = entry.arrived
        if arrived.streams:
            self.unbegun[arrived.request_id] = arrived.prompt_tokens
            self.opening += arrived.prompt_tokens

    def expect(self, entry: Entry, due_s: float) -> None:
        """An answer in one piece does not tell when its first token is there. Until this moment it counts as one
        that has none."""
        self.unbegun[entry.request_id] = entry.arrived.prompt_tokens
        self.opening += entry.arrived.prompt_tokens
        self.silent.append((due_s, entry.request_id))

    def began(self, entry: Entry) -> None:
        """Its first token has come. Prompts are computed in their order, so the silent ones before it have theirs."""
        request_id = entry.request_id
        if self.silent and request_id in self.unbegun:
            silent = {before for _, before in self.silent}
            for before in list(self.unbegun):
                if before == request_id:
                    break
                if before in silent:
                    self._begun(before)
        self._begun(request_id)

    def hear(self, now_s: float) -> None:
        """Of answers in one piece, take the first tokens to have come that must have by now."""
        while self.silent and self.silent[0][0] <= now_s:
            self._begun(self.silent.popleft()[1])

    def _begun(self, request_id: RequestId) -> None:
        self.opening -= self.unbegun.pop(request_id, 0)
        if self.guest is not None and self.guest.request_id == request_id:
            self.guest = None
        if not self.unbegun:
            self.silent.clear()

    def give_back(self, entry: Entry) -> bool:
        """The entry's slot is free again; False when it had none here."""
        if self.in_flight.pop(entry.request_id, None) is None:
            return False
        self.tokens -= entry.tokens
        if self.unbegun:
            self._begun(entry.request_id)
        return True

    def begin_ramp(self, ramp: Ramp) -> None:
        """It is new among others."""
        self.ramp = ramp
        self.is_held = True

    def next_s(self, now_s: float) -> float | None:
        """When it may take more by the passing of time alone; None when nothing of the kind holds it."""
        if not self.is_held:
            return self.silent[0][0] if self.silent else None
        if self.breaker.rests_until_s is not None:
            return self.breaker.rests_until_s
        return self.pressure.next_s(self.route.slots, now_s)

    def answered(self, now_s: float) -> None:
        """It began an answer, or gave one whole."""
        self.heard_s = now_s
        self.breaker.answered()

    def was_silent_since(self, since_s: float, now_s: float) -> bool:
        """Nothing at all has come of it since then, and for long enough to tell it from a short deadline."""
        return now_s - since_s >= SILENT_FOR_S and (self.heard_s is None or self.heard_s < since_s)

    def failed(self, failure: Failure, now_s: float, *, has_begun: bool, is_alone: bool) -> None:
        """It failed an attempt, or said that it is busy; the entry has left it already."""
        if failure is Failure.BUSY:
            self.pressure.busy(len(self.in_flight), now_s)
            if not self.in_flight:
                self.breaker.rest(now_s)
            self.is_held = True
            return
        at_once = self.ramp is not None or (failure in AT_ONCE and not has_begun)
        if self.breaker.failed(now_s, at_once=at_once, is_alone=is_alone):
            self.is_held = True
