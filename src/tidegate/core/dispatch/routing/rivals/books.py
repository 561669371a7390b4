"""What the other systems' routers keep of their own dispatches: requests and tokens in flight, and prefixes seen.

They count what they have sent and has not ended, as their own code does; whatever they read from an engine's page
besides (waiting requests, use of the KV cache) is replaced by the same counts, which are never late.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import UpstreamEnded
from tidegate.core.types import Dice, FlowId, ReplicaId, RequestId


class Prefixes:
    """The blocks one replica is believed to have, least recently used out first."""

    __slots__ = ("_blocks", "_limit_tokens", "_tokens")

    def __init__(self, limit_tokens: int | None) -> None:
        self._limit_tokens = limit_tokens
        self._tokens = 0
        self._blocks: OrderedDict[tuple[FlowId, int], int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Prefixes {len(self._blocks)} blocks, {self._tokens} tokens>"

    @property
    def is_full(self) -> bool:
        """One block more pushes another out."""
        return self._limit_tokens is not None and self._tokens >= 0.95 * self._limit_tokens

    def matched_tokens(self, entry: Entry) -> int:
        """Of the entry's prompt, the leading tokens that are believed to be there."""
        arrived = entry.arrived
        matched = 0
        for block in arrived.prefix:
            if (arrived.flow, block) not in self._blocks:
                break
            matched += arrived.block_tokens
        return min(matched, arrived.prompt_tokens)

    def use(self, entry: Entry) -> None:
        """The entry's prompt is computed there; its first block counts as used last."""
        arrived, blocks = entry.arrived, self._blocks
        for block in reversed(arrived.prefix):
            key = (arrived.flow, block)
            if key not in blocks:
                blocks[key] = arrived.block_tokens
                self._tokens += arrived.block_tokens
            blocks.move_to_end(key)
        while self._limit_tokens is not None and self._tokens > self._limit_tokens:
            self._tokens -= blocks.popitem(last=False)[1]


class Book:
    """One replica's."""

    __slots__ = ("decode_tokens", "prefixes", "requests", "uncached_tokens", "waiting")

    def __init__(self, prefixes: Prefixes) -> None:
        self.requests = 0
        self.waiting = 0
        """Sent, and no token yet."""
        self.uncached_tokens = 0
        """Of those that wait."""
        self.decode_tokens = 0
        """Prompt tokens of all in flight."""
        self.prefixes = prefixes

    def __repr__(self) -> str:
        return f"<Book requests={self.requests} waiting={self.waiting} uncached={self.uncached_tokens}>"


class Books:
    """All replicas of one model; kept up by the dispatcher's calls."""

    def __init__(self, limit_tokens: int | None = None) -> None:
        """``limit_tokens`` bounds the prefixes of each replica; None keeps all."""
        self._limit_tokens = limit_tokens
        self._books: dict[ReplicaId, Book] = {}
        self._open: dict[tuple[RequestId, ReplicaId], int] = {}
        """Uncached tokens of those without a token, 0 of the others."""

    def __repr__(self) -> str:
        return f"<Books replicas={len(self._books)} open={len(self._open)}>"

    def of(self, seat: Seat) -> Book:
        """The seat's own."""
        book = self._books.get(seat.replica_id)
        if book is None:
            book = self._books[seat.replica_id] = Book(Prefixes(self._limit_tokens))
        return book

    def matched(self, entry: Entry, seats: Sequence[Seat]) -> list[int]:
        """Tokens of the entry's prompt believed to be cached on each."""
        return [self.of(seat).prefixes.matched_tokens(entry) for seat in seats]

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The entry was given this seat."""
        book = self.of(seat)
        uncached = entry.arrived.prompt_tokens - book.prefixes.matched_tokens(entry)
        book.prefixes.use(entry)
        book.requests += 1
        book.waiting += 1
        book.uncached_tokens += uncached
        book.decode_tokens += entry.arrived.prompt_tokens
        self._open[entry.request_id, seat.replica_id] = uncached + 1

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """Its first token came: its prompt is no work any more."""
        waited = self._open.get((entry.request_id, replica_id), 0)
        book = self._books.get(replica_id)
        if waited and book is not None:
            book.waiting -= 1
            book.uncached_tokens -= waited - 1
            self._open[entry.request_id, replica_id] = 0

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """It gave its seat back."""
        self.began(entry, replica_id, 0.0)
        book = self._books.get(replica_id)
        if self._open.pop((entry.request_id, replica_id), None) is not None and book is not None:
            book.requests -= 1
            book.decode_tokens -= entry.arrived.prompt_tokens

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """A replica that is gone takes its book along."""
        there = {seat.replica_id for seat in seats}
        self._books = {replica_id: book for replica_id, book in self._books.items() if replica_id in there}


class Watched:
    """A law with ``Books``; what becomes of its choices is written into them."""

    def __init__(self, dice: Dice, index_tokens: int | None) -> None:
        self.dice = dice
        self.books = Books(index_tokens)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.books!r}>"

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """See ``Watcher``."""
        self.books.sent(entry, seat, now_s)

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """See ``Watcher``."""
        self.books.began(entry, replica_id, now_s)

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """See ``Watcher``."""

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """See ``Watcher``."""
        self.books.left(entry, replica_id)

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """See ``Watcher``."""
        self.books.seats_are(seats, now_s)

    def best(self, scored: Sequence[tuple[float, Seat]]) -> Seat:
        """The highest score; among equals by chance."""
        top = max(score for score, _ in scored)
        equal = [seat for score, seat in scored if score == top]
        return equal[self.dice.below(len(equal))] if len(equal) > 1 else equal[0]
