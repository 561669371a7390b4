"""A router in a test's hands: seats that a test fills, prompts by their blocks, dice that always say the same."""

from tidegate.core.capacity import CapacityBook
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import PrefixIndex
from tidegate.core.dispatch.routing.cost import LeastSeconds
from tidegate.core.dispatch.routing.rivals import rival
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import RequestArrived, UpstreamEnded
from tidegate.core.lifecycle import State
from tidegate.core.types import Address, Route

BLOCK = 100
"""Tokens."""


class Fixed:
    """Dice that show the same face."""

    def __init__(self, face=0):
        self.face = face

    def below(self, bound):
        return min(self.face, bound - 1)

    def uniform(self):
        return 0.0


def seats(*names, slots=10_000, **route):
    """Replicas that serve, in this order."""
    address = Address("127.0.0.1", 1)
    return [
        Seat(Route(name, "m", State.SERVING, address, slots, "vllm", **route), number)
        for number, name in enumerate(names)
    ]


class Routed:
    """A picker, its replicas, and requests that a test sends where it likes."""

    def __init__(self, picker, *names, now_s=0.0, **route):
        self.picker = picker
        self.seats = seats(*names, **route)
        self.now_s = now_s
        self._count = 0
        self.tell("seats_are", self.seats, now_s)

    def tell(self, verb, *what):
        if hasattr(self.picker, verb):
            getattr(self.picker, verb)(*what)

    def seat(self, name):
        return next(seat for seat in self.seats if seat.replica_id == name)

    def entry(self, tokens=1_000, chain=(), flow="default", **more):
        """A request; its chain stands for its first blocks."""
        self._count += 1
        arrived = RequestArrived(
            f"r{self._count}",
            "m",
            tokens,
            None,
            4 * tokens,
            1e9,
            flow=flow,
            prefix=tuple(chain),
            block_tokens=BLOCK if chain else 0,
            **more,
        )
        return Entry(arrived, self.now_s, self._count)

    def pick(self, tokens=1_000, chain=(), among=None, **more):
        """Where such a request would go; nothing is sent."""
        found = self.seats if among is None else [self.seat(name) for name in among]
        return self.picker.pick(self.entry(tokens, chain, **more), found, self.now_s).replica_id

    def give(self, name, tokens=1_000, chain=(), *, begun=False, **more):
        """Send one there; ``begun``: its first token has come already."""
        entry, seat = self.entry(tokens, chain, **more), self.seat(name)
        seat.take(entry)
        self.tell("sent", entry, seat, self.now_s)
        if begun:
            self.begin(name, entry)
        return entry

    def begin(self, name, entry):
        self.seat(name).began(entry)
        self.tell("began", entry, name, self.now_s)

    def end(self, name, entry, cached=None, output=20):
        """It is answered to its end."""
        self.begin(name, entry)
        ended = UpstreamEnded(entry.request_id, 200, entry.arrived.prompt_tokens, cached, output)
        self.tell("answered", entry, name, self.now_s, ended)
        self.leave(name, entry)

    def leave(self, name, entry):
        self.seat(name).give_back(entry)
        self.tell("left", entry, name)

    def serve(self, name, tokens=1_000, chain=(), cached=None, took_s=0.1, **more):
        """One whole request: sent, begun after ``took_s``, ended."""
        entry = self.give(name, tokens, chain, **more)
        self.now_s += took_s
        self.end(name, entry, cached)


def rivals_world(name, *names, face=0, kv_tokens=450_000):
    return Routed(rival(name, Fixed(face), kv_tokens), *names)


def seconds_world(*names, index_bytes=2**20, adapter_slots=8, **route):
    """Our own router, knowing nothing yet."""
    index = PrefixIndex(index_bytes)
    picker = LeastSeconds("m", CapacityBook(), index, adapter_slots)
    return Routed(picker, *names, **route)


def chain(*blocks):
    """Hashes that no other prompt has by chance."""
    return tuple(10_000 + block for block in blocks)
