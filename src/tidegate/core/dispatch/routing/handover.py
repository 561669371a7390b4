"""Replicas that are about to leave: what their caches alone hold goes over to others, one beginning at a time.

A replica that drains without notice leaves its share of all hot beginnings to be computed anew, by all survivors at
once, while clients wait behind that. So its leave is announced (``Route.leaves_at_s``), and until then:

1. Whose beginning only leaving replicas have is sent to one that stays, and has it computed there: a *move*. One that
   stays computes one move at a time, so that nobody waits behind two.
2. While there is nobody free for a move, requests go where their beginning is; so do those whose beginning stays only
   on replicas that compute a move: they need not wait behind it, least of all behind their own.
3. All others go to those that stay: who leaves is to be empty soon.

What is asked for most comes by first, and so is moved first. Where only leaving replicas have room they are used: they
serve until they drain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from tidegate.core.dispatch.prefix import Found
from tidegate.core.dispatch.routing.load import Load
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import RequestArrived
from tidegate.core.types import ReplicaId, RequestId

MOVE_TOKENS = 512
"""A beginning that is longer on the leaving replica by less than this is no more than a step's work on any other."""


class Handover:
    """Of one model's replicas."""

    __slots__ = ("_moves", "going", "leaving")

    def __init__(self) -> None:
        self.leaving = 0
        """Bits of the replicas that are about to leave, if any stays."""
        self.going = 0
        """Of these, and of those that take nothing any more."""
        self._moves: dict[RequestId, tuple[int, int, float]] = {}
        """By the request that is sent for it: to which replica (bit), its last block, and until when it lasts at most."""

    def __repr__(self) -> str:
        return f"<Handover leaving={self.leaving.bit_count()} moves={len(self._moves)}>"

    def seats_are(self, seats: Sequence[Seat], loads: Mapping[ReplicaId, Load]) -> None:
        """These are the replicas from now on. A leave that was called back leaves nothing behind."""
        leaving = going = 0
        stays = False
        for seat in seats:
            if seat.replica_id not in loads:
                continue
            if not seat.serves:
                going |= loads[seat.replica_id].bit
            elif seat.route.leaves_at_s is not None:
                leaving |= loads[seat.replica_id].bit
            else:
                stays = True
        self.leaving = leaving if stays else 0
        self.going = going | self.leaving
        if not self.leaving:
            self._moves.clear()

    def among(
        self,
        arrived: RequestArrived,
        found: Found,
        candidates: Sequence[Seat],
        loads: Mapping[ReplicaId, Load],
        now_s: float,
    ) -> Sequence[Seat]:
        """Those of the candidates that the request may go to while some are about to leave."""
        leaving = self.leaving
        staying = [seat for seat in candidates if not loads[seat.replica_id].bit & leaving]
        if not staying or len(staying) == len(candidates):
            return candidates
        busy, moved = self._under_way(now_s)
        block = self._only_leaving(arrived, found)
        if block is None:
            holders = found[-1][1] & ~self.going if found else 0
            if not holders or holders & ~busy:
                return staying  # 3
        elif block not in moved:
            free = [seat for seat in staying if not loads[seat.replica_id].bit & busy]
            if free:
                return free  # 1
        held = leaving & _about_all(arrived, found)
        return [seat for seat in candidates if loads[seat.replica_id].bit & held] or staying  # 2

    def sent(self, request_id: RequestId, arrived: RequestArrived, found: Found, load: Load) -> None:
        """The request was sent there; ``found`` is from before."""
        block = None if load.bit & self.leaving else self._only_leaving(arrived, found)
        if block is not None:
            # Of an answer in one piece nobody hears when its prompt is computed.
            self._moves[request_id] = (load.bit, block, inf if arrived.streams else load.free_at_s)

    def over(self, request_id: RequestId) -> None:
        """Its prompt is computed, or never will be."""
        self._moves.pop(request_id, None)

    def _only_leaving(self, arrived: RequestArrived, found: Found) -> int | None:
        """The last block of the beginning that leaving replicas alone have; None where those that stay have as much."""
        if not found or found[-1][1] & ~self.going:
            return None
        depth = found[-1][0]
        kept = max((depth for depth, bits in found if bits & ~self.going), default=0)
        if (depth - kept) * arrived.block_tokens < MOVE_TOKENS:
            return None
        return arrived.prefix[depth - 1]

    def _under_way(self, now_s: float) -> tuple[int, set[int]]:
        """The replicas (bits) that compute a move, and what is moved."""
        busy, moved = 0, set[int]()
        for bit, block, until_s in self._moves.values():
            if now_s < until_s:
                busy |= bit
                moved.add(block)
        return busy, moved


def _about_all(arrived: RequestArrived, found: Found) -> int:
    """The replicas (bits) that have what is known of the prompt, but for a few tokens."""
    held = 0
    for depth, bits in found:
        if (found[-1][0] - depth) * arrived.block_tokens < MOVE_TOKENS:
            held |= bits
    return held
