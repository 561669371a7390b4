"""Which LoRA adapters are where: on the GPU, in the host's memory, or only on disk, replica by replica.

Kept from our own ledger, since engines' pages list adapters at work and not those loaded: an adapter is on the GPU
from the request that had it loaded until a newcomer found no free place and it was the one not used for longest.
An engine that does say what it has loaded is believed (``Route.adapters``).
"""

from __future__ import annotations

from collections import OrderedDict

from tidegate.core.types import ReplicaId

HOST_PRIOR_S = 0.2
DISK_PRIOR_S = 0.8
"""Before one has been seen."""
LEARN_STEP = 0.2
HOMELESS_FOR = 2_000
"""Uses of adapters after which one that was not asked for again needs no place."""
LOOKED_EVERY = 64
LOAD_LEAST_S, LOAD_MOST_S = 0.005, 60.0


class Shelves:
    """One replica's adapters."""

    __slots__ = ("active", "gpu", "host", "known")

    def __init__(self) -> None:
        self.gpu: OrderedDict[str, None] = OrderedDict()
        """On the GPU; the one not used for longest first."""
        self.host: set[str] = set()
        """Loaded here before."""
        self.active: dict[str, int] = {}
        """Requests in flight by adapter; these cannot be put out."""
        self.known: tuple[str, ...] | None = None
        """What it can be asked for, as told last."""


class Residency:
    """All replicas of one model."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        """Adapters that a replica has on its GPU at once."""
        self.loads_total = 0
        """Loads on to a GPU that our choices have caused."""
        self.host_s, self.disk_s = HOST_PRIOR_S, DISK_PRIOR_S
        self._shelves: dict[ReplicaId, Shelves] = {}
        self._copies: dict[str, dict[ReplicaId, None]] = {}
        """Where each adapter is on a GPU; the one that has had it for longest first."""
        self._homeless: dict[str, int] = {}
        """Adapters that lost their last place, and when, in uses of adapters."""
        self._uses = 0

    def __repr__(self) -> str:
        return f"<Residency adapters={len(self._copies)} slots={self.slots} loads={self.loads_total}>"

    def open(self, replica_id: ReplicaId) -> None:
        """A new replica: nothing is loaded."""
        self._shelves.setdefault(replica_id, Shelves())

    def close(self, replica_id: ReplicaId) -> None:
        """It is gone, and its adapters with it."""
        shelves = self._shelves.pop(replica_id, None)
        for adapter in shelves.gpu if shelves is not None else ():
            self._lose(replica_id, adapter)

    def believe(self, replica_id: ReplicaId, loaded: tuple[str, ...]) -> None:
        """What its engine says it has on the GPU; those at work are there in any case."""
        shelves = self._shelves[replica_id]
        for adapter in [
            known for known in shelves.gpu if known not in loaded and known not in shelves.active
        ]:
            del shelves.gpu[adapter]
            self._lose(replica_id, adapter)
        for adapter in loaded:
            if adapter not in shelves.gpu:
                self._gain(replica_id, shelves, adapter)

    def keep_only(self, replica_id: ReplicaId, known: tuple[str, ...]) -> None:
        """It has been rid of all others; those at work go when that ends."""
        shelves = self._shelves[replica_id]
        if known is shelves.known:
            return
        shelves.known = known
        shelves.host.intersection_update(known)
        for adapter in [name for name in shelves.gpu if name not in known and name not in shelves.active]:
            del shelves.gpu[adapter]
            self._lose(replica_id, adapter)

    def seconds(self, replica_id: ReplicaId, adapter: str) -> float:
        """What using the adapter there costs.

        1. It is on the GPU: nothing. But while some adapter has no place anywhere, a second copy costs that one its
           load; left alone it is soon the one not used for longest.
        2. A place is free: its load, and for a second copy that of whoever will want the place.
        3. An idle adapter must go: its load, and that of the other one again unless another GPU has it too.
        4. All places are at work: twice its load, for it waits until one ends.
        """
        shelves = self._shelves[replica_id]
        copies = self._copies.get(adapter)
        if adapter in shelves.gpu:  # 1
            is_second = copies is not None and len(copies) > 1 and next(iter(copies)) != replica_id
            return self.host_s if is_second and self._homeless else 0.0
        load_s = self.host_s if adapter in shelves.host else self.disk_s
        if copies:
            load_s += self.host_s
        if len(shelves.gpu) < self.slots:  # 2
            return load_s
        victim = self._victim(shelves)
        if victim is None:  # 4
            return 2.0 * load_s
        return load_s + (self.host_s if len(self._copies[victim]) == 1 else 0.0)  # 3

    def use(self, replica_id: ReplicaId, adapter: str) -> float:
        """A request with this adapter is sent there. The load that this takes, in seconds."""
        shelves = self._shelves[replica_id]
        load_s = 0.0
        if adapter not in shelves.gpu:
            load_s = self.host_s if adapter in shelves.host else self.disk_s
            self.loads_total += 1
            while len(shelves.gpu) >= self.slots and (victim := self._victim(shelves)) is not None:
                del shelves.gpu[victim]
                self._lose(replica_id, victim)
            self._gain(replica_id, shelves, adapter)
        shelves.gpu.move_to_end(adapter)
        self._uses += 1
        if self._homeless and self._uses % LOOKED_EVERY == 0:
            recent = self._uses - HOMELESS_FOR
            self._homeless = {name: since for name, since in self._homeless.items() if since > recent}
        shelves.active[adapter] = shelves.active.get(adapter, 0) + 1
        return load_s

    def end(self, replica_id: ReplicaId, adapter: str) -> None:
        """A request with this adapter is no longer there."""
        shelves = self._shelves.get(replica_id)
        if shelves is None:
            return
        left = shelves.active.get(adapter, 0) - 1
        if left > 0:
            shelves.active[adapter] = left
        else:
            shelves.active.pop(adapter, None)

    def learn(self, expected_s: float, took_s: float) -> None:
        """A load that was expected to take so long took so long."""
        took_s = min(LOAD_MOST_S, max(LOAD_LEAST_S, took_s))
        if abs(expected_s - self.host_s) <= abs(expected_s - self.disk_s):
            self.host_s += LEARN_STEP * (took_s - self.host_s)
        else:
            self.disk_s += LEARN_STEP * (took_s - self.disk_s)

    def alone_s(self, replica_id: ReplicaId) -> float:
        """What loading those adapters elsewhere would take that are on no other GPU."""
        shelves = self._shelves.get(replica_id)
        if shelves is None:
            return 0.0
        return self.disk_s * sum(len(self._copies[adapter]) == 1 for adapter in shelves.gpu)

    def on_gpu(self, replica_id: ReplicaId) -> tuple[str, ...]:
        """The one not used for longest first."""
        return tuple(self._shelves[replica_id].gpu)

    def _victim(self, shelves: Shelves) -> str | None:
        return next((adapter for adapter in shelves.gpu if adapter not in shelves.active), None)

    def _gain(self, replica_id: ReplicaId, shelves: Shelves, adapter: str) -> None:
        shelves.gpu[adapter] = None
        shelves.host.add(adapter)
        self._copies.setdefault(adapter, {})[replica_id] = None
        self._homeless.pop(adapter, None)

    def _lose(self, replica_id: ReplicaId, adapter: str) -> None:
        copies = self._copies[adapter]
        del copies[replica_id]
        if not copies:
            del self._copies[adapter]
            self._homeless[adapter] = self._uses
