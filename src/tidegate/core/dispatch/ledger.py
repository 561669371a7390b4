"""One entry for each open request, from arrival to its one outcome.

The ledger is the authority: counts of queued and in-flight requests are sizes of sets of entries,
never counters that one exit path could forget to lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from tidegate.core.effects import Record
from tidegate.core.events import RequestArrived
from tidegate.core.outcomes import Outcome
from tidegate.core.types import ReplicaId, RequestId

if TYPE_CHECKING:
    from tidegate.core.dispatch.flows import Flow
    from tidegate.core.dispatch.spillbook import Spilt


class Phase(Enum):
    """Where an open request is."""

    QUEUED = "queued"
    SENT = "sent"
    STREAMING = "streaming"


class Entry:
    """One open request."""

    __slots__ = (
        "answer_tokens",
        "arrived",
        "arrived_s",
        "attempts",
        "cached_tokens",
        "cost",
        "deaths",
        "failures",
        "first_byte_s",
        "flow",
        "gave_way_id",
        "hedge_id",
        "model",
        "number",
        "phase",
        "queued_s",
        "replica_id",
        "request_id",
        "resumed_tokens",
        "resumes",
        "sent_s",
        "shifted_tokens",
        "spilt",
        "spilt_cost",
        "status",
        "tokens",
        "tried",
        "yields",
    )

    def __init__(self, arrived: RequestArrived, now_s: float, number: int) -> None:
        self.arrived = arrived
        self.request_id = arrived.request_id
        self.model = arrived.model
        """Whose replicas answer it: the model asked for, or one of its versions."""
        self.arrived_s = self.queued_s = now_s
        self.number = number
        """In order of arrival; a request that is queued again keeps its place."""
        # What the request may weigh on a replica. The output is only known as the client's limit.
        self.tokens = arrived.prompt_tokens + (arrived.max_output_tokens or 0)
        self.phase = Phase.QUEUED
        self.replica_id: ReplicaId | None = None
        self.hedge_id: ReplicaId | None = None
        """A second replica that works on it, until one of the two has answered."""
        self.attempts = 0
        self.failures = 0
        """Attempts that went wrong; being told "busy" is none."""
        self.deaths = 0
        """Replicas in a row that were gone, by what their connections said, before they gave it a byte."""
        self.tried: tuple[ReplicaId, ...] = ()
        self.yields = 0
        """How often it gave its place at a replica up before it had a token."""
        self.gave_way_id: ReplicaId | None = None
        """Where it did so last: that replica has a part of its prompt."""
        self.flow: Flow | None = None
        """Who has been charged for it; None when nobody waited when it was sent."""
        self.cost = 0.0
        self.answer_tokens = 0
        """Passed on so far, as far as that is known."""
        self.resumed_tokens = 0
        """Tokens of the answer that another replica takes up from; 0: it starts at the beginning."""
        self.resumes = 0
        self.shifted_tokens: float | None = None
        """What it counts for in its version's share; None: it was asked for by the model's own name."""
        self.spilt: Spilt | None = None
        """It is at the pay-per-token upstream."""
        self.spilt_cost: float | None = None
        """What that has cost, once it is known."""
        self.sent_s: float | None = None
        self.first_byte_s: float | None = None
        self.cached_tokens: int | None = None
        self.status: int | None = None
        """The engine's, of the last attempt."""

    def __repr__(self) -> str:
        return f"<Entry {self.request_id} {self.phase.value} attempts={self.attempts} on={self.replica_id}>"

    def close(
        self,
        outcome: Outcome,
        now_s: float,
        prompt_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> Record:
        """The entry's last word."""
        arrived = self.arrived
        arrived_s = self.arrived_s
        return Record(
            self.request_id,
            self.model,
            arrived.flow,
            outcome,
            self.replica_id,
            self.attempts,
            (now_s if self.sent_s is None else self.sent_s) - arrived_s,
            None if self.first_byte_s is None else self.first_byte_s - arrived_s,
            now_s - arrived_s,
            arrived.prompt_tokens if prompt_tokens is None else prompt_tokens,
            output_tokens,
            self.cached_tokens,
            self.status,
            self.spilt_cost,
            self.yields,
        )


class Ledger:
    """All open requests by id."""

    def __init__(self) -> None:
        self._open: dict[RequestId, Entry] = {}
        self._none_before_s = inf
        """No deadline of an open entry is earlier than this."""
        self.accepted_total = 0
        self.ended_total = 0

    def __len__(self) -> int:
        return len(self._open)

    def __repr__(self) -> str:
        return f"<Ledger open={len(self._open)} accepted={self.accepted_total} ended={self.ended_total}>"

    def open(self, arrived: RequestArrived, now_s: float) -> Entry:
        """Begin an entry.

        Raises:
            ValueError: the id is open already; ids are the shell's to keep apart.
        """
        if arrived.request_id in self._open:
            raise ValueError(f"request {arrived.request_id} is open already")
        self.accepted_total += 1
        entry = self._open[arrived.request_id] = Entry(arrived, now_s, self.accepted_total)
        if arrived.deadline_s < self._none_before_s:
            self._none_before_s = arrived.deadline_s
        return entry

    def find(self, request_id: RequestId) -> Entry | None:
        """The entry, or None when the request has ended: a late fact about it changes nothing."""
        return self._open.get(request_id)

    def end(self, entry: Entry) -> None:
        """Take the entry out; it has its outcome."""
        del self._open[entry.request_id]
        self.ended_total += 1

    def next_look_s(self, now_s: float) -> float | None:
        """When to look for overdue entries again; None when none is open. Asked for after each tick, so it is not
        the first deadline of those that are open but of those that were when it was looked for last."""
        if self._none_before_s <= now_s:
            self._none_before_s = min(
                (entry.arrived.deadline_s for entry in self._open.values()), default=inf
            )
        return self._none_before_s if self._open else None

    def overdue(self, now_s: float) -> list[Entry]:
        """Entries whose deadline has passed, in order of arrival."""
        if now_s < self._none_before_s:
            return []
        # Whoever is overdue stays open until its outcome is told, and is found again until then.
        self._none_before_s = min((entry.arrived.deadline_s for entry in self._open.values()), default=inf)
        return [entry for entry in self._open.values() if entry.arrived.deadline_s <= now_s]

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self._open.values()))
