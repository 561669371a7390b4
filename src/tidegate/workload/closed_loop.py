"""Clients that wait for their answer before they ask again, as most benchmarks have them.

Their arrivals depend on how fast they are served, so there is no trace: the simulator asks ``Clients``
for the first request of each and, whenever an answer has ended, for that client's next. Clients that
chat continue their conversation, and begin another when it is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tidegate.core.types import Dice
from tidegate.workload.arrival import Arrival
from tidegate.workload.chance import exponential
from tidegate.workload.lengths import Lengths
from tidegate.workload.sessions import Chat, ChatBook


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A number of clients that each have one request in flight at most."""

    clients: int
    asks: Lengths | Chat
    """Requests that have nothing to do with each other, or conversations (whose own moments don't count)."""
    think_mean_s: float = 0.0
    """From the end of an answer to the next request; exponential, or none at 0."""
    start_over_s: float = 0.0
    """The first requests are spread evenly over this span; 0 sends them all at once."""
    requests: int | None = None
    """All clients together stop after so many; None: the simulator says when."""

    def problems(self) -> Iterator[str]:
        """What is wrong with it, each with its key and value."""
        if self.clients < 1:
            yield f"clients is {self.clients}; it must be 1 or more"
        if self.think_mean_s < 0:
            yield f"think_mean_s is {self.think_mean_s:g}; it must not be negative"
        if self.start_over_s < 0:
            yield f"start_over_s is {self.start_over_s:g}; it must not be negative"
        if self.requests is not None and self.requests < 1:
            yield f"requests is {self.requests}; it must be 1 or more"


class Clients:
    """The clients of one run, and how many requests they have left."""

    def __init__(self, loop: ClosedLoop, dice: Dice) -> None:
        mistakes = "; ".join(loop.problems())
        if mistakes:
            raise ValueError(mistakes)
        self._loop = loop
        self._dice = dice
        self._book = ChatBook(loop.asks) if isinstance(loop.asks, Chat) else None
        self._talks: dict[int, Iterator[Arrival]] = {}
        self.sent = 0

    def __repr__(self) -> str:
        return f"<Clients clients={self._loop.clients} sent={self.sent} of={self._loop.requests}>"

    def first(self) -> Iterator[tuple[int, Arrival]]:
        """Each client's number and first request, in order of time; fewer when the total is smaller."""
        for client in range(self._loop.clients):
            arrival = self._ask(client, self._loop.start_over_s * client / self._loop.clients)
            if arrival is None:
                return
            yield client, arrival

    def after(self, client: int, ended_s: float) -> Arrival | None:
        """What this client asks next, now that its answer has ended; None when all has been sent.

        However the answer ended: a client that was turned away comes back, too.
        """
        think_s = exponential(self._loop.think_mean_s, self._dice) if self._loop.think_mean_s else 0.0
        return self._ask(client, ended_s + think_s)

    def _ask(self, client: int, at_s: float) -> Arrival | None:
        if self._loop.requests is not None and self.sent >= self._loop.requests:
            return None
        self.sent += 1
        if isinstance(self._loop.asks, Chat):
            return replace(self._turn(client), arrived_s=at_s)
        return Arrival(at_s, *self._loop.asks.draw(self._dice))

    def _turn(self, client: int) -> Arrival:
        """The next question of this client's conversation, or the first of a new one."""
        assert self._book is not None
        turn = next(self._talks.get(client, iter(())), None)
        if turn is None:
            self._talks[client] = self._book.turns(0.0, self._dice)
            turn = next(self._talks[client])
        return turn
