"""The room of the index of prompts: whose entries it holds, and whose go when its bytes are used up.

Each tenant has shelves of its own, one for each model. When the bytes are used up, the tenant that has most gives up
its oldest entries, so one tenant's flood never costs another what is below its equal share.
"""

from __future__ import annotations

from collections import OrderedDict

from tidegate.core.types import FlowId, ModelId

ENTRY_BYTES = 224
"""One hash, measured on CPython 3.11: key 32, value up to 68, its places in an OrderedDict about 105."""
SHELF_BYTES = 1_000
"""An empty shelf."""
LEVELS = 256
"""Tenants are compared to within this part of the whole."""
DROP_AT_ONCE = 32
"""Entries dropped when room is needed: some ten microseconds."""

STAMP_BITS = 32
STAMP_MASK = (1 << STAMP_BITS) - 1
"""Where in an entry the moment of its last use stands."""

Shelf = OrderedDict[int, int]
"""Entries by hash, the one not used for longest first."""


class Tenant:
    """One tenant's shelves."""

    __slots__ = ("entries", "level", "shelves")

    def __init__(self) -> None:
        self.entries = 0
        self.level = 0
        self.shelves: dict[ModelId, Shelf] = {}

    def oldest(self) -> Shelf:
        """The shelf whose first entry was used longest ago."""
        return min(self.shelves.values(), key=lambda shelf: next(iter(shelf.values())) & STAMP_MASK)


class Shelves:
    """All shelves of one index, within one bound."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.entries = 0
        self.dropped_total = 0
        self._tenants: dict[FlowId, Tenant] = {}
        self._count = 0
        self._levels: list[dict[FlowId, None]] = [{} for _ in range(LEVELS + 1)]
        self._highest = 0

    def __repr__(self) -> str:
        return f"<Shelves {self.entries} blocks, {self.bytes} of {self.limit_bytes} bytes>"

    @property
    def bytes(self) -> int:
        """What it takes in memory, by its own account; never above its limit."""
        return self.entries * ENTRY_BYTES + self._count * SHELF_BYTES

    def bound(self, limit_bytes: int) -> None:
        """Another limit, from now on."""
        if limit_bytes == self.limit_bytes:
            return
        self.limit_bytes = limit_bytes
        for flow, tenant in self._tenants.items():
            self._place(flow, tenant)
        self._make_room()

    def entries_of(self, flow: FlowId) -> int:
        """How much of it is one tenant's."""
        tenant = self._tenants.get(flow)
        return 0 if tenant is None else tenant.entries

    def find(self, flow: FlowId, model: ModelId) -> Shelf | None:
        """The tenant's shelf for this model; None when it has none."""
        tenant = self._tenants.get(flow)
        return None if tenant is None else tenant.shelves.get(model)

    def open(self, flow: FlowId, model: ModelId) -> Shelf:
        """A new shelf, for a tenant that has none for this model; something is put into it next."""
        tenant = self._tenants.get(flow)
        if tenant is None:
            tenant = self._tenants[flow] = Tenant()
            self._levels[0][flow] = None
        shelf = tenant.shelves[model] = Shelf()
        self._count += 1
        return shelf

    def grown(self, flow: FlowId, added: int) -> None:
        """So many entries were put on one of the tenant's shelves. Room is made for them, perhaps among them."""
        self.entries += added
        tenant = self._tenants[flow]
        tenant.entries += added
        self._place(flow, tenant)
        if self.bytes > self.limit_bytes:
            self._make_room()

    # ---- the pieces ----

    def _place(self, flow: FlowId, tenant: Tenant) -> None:
        """Keep the tenant on the level of its size."""
        level = min(LEVELS, tenant.entries * ENTRY_BYTES * LEVELS // max(1, self.limit_bytes))
        if level == tenant.level:
            return
        del self._levels[tenant.level][flow]
        self._levels[level][flow] = None
        tenant.level = level
        self._highest = max(self._highest, level)

    def _make_room(self) -> None:
        while self.bytes > self.limit_bytes and self._tenants:
            while self._highest and not self._levels[self._highest]:
                self._highest -= 1
            flow = next(iter(self._levels[self._highest]))
            tenant = self._tenants[flow]
            shelf = tenant.oldest()
            drop = min(DROP_AT_ONCE, len(shelf))
            for _ in range(drop):
                shelf.popitem(last=False)
            self.entries -= drop
            self.dropped_total += drop
            tenant.entries -= drop
            self._place(flow, tenant)
            if not shelf:
                self._close(flow, tenant, shelf)

    def _close(self, flow: FlowId, tenant: Tenant, shelf: Shelf) -> None:
        tenant.shelves = {model: kept for model, kept in tenant.shelves.items() if kept is not shelf}
        self._count -= 1
        if not tenant.shelves:
            del self._levels[tenant.level][flow]
            del self._tenants[flow]
