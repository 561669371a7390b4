"""LoRA adapters on the GPU.

An engine holds at most ``slots`` adapters at once (vLLM's ``max_loras``). A sequence whose adapter is
not among them waits, while others pass it, until a slot is no longer used by the batch; then the
adapter unused for longest goes and the new one is loaded, for which the step takes longer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class AdapterSlots:
    """Which adapters are loaded, and how many sequences of the batch use each."""

    __slots__ = ("_loaded", "_slots", "loads", "uses")

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.loads = 0
        """Adapters loaded so far, again ones counted again."""
        self._loaded: OrderedDict[Hashable, None] = OrderedDict()
        self.uses: dict[Hashable, int] = {}
        """Sequences in the batch by adapter; only adapters in use are in it."""

    def fits(self, adapter: Hashable) -> bool:
        """True when a sequence with this adapter may enter the batch now."""
        return adapter in self.uses or len(self.uses) < self._slots

    def enter(self, adapter: Hashable) -> bool:
        """One more sequence uses it. True when it has to be loaded for that."""
        is_new = adapter not in self._loaded
        if is_new and len(self._loaded) == self._slots:
            del self._loaded[next(name for name in self._loaded if name not in self.uses)]
        self.loads += is_new
        self._loaded[adapter] = None
        self._loaded.move_to_end(adapter)
        self.uses[adapter] = self.uses.get(adapter, 0) + 1
        return is_new

    def leave(self, adapter: Hashable) -> None:
        """One sequence fewer uses it; it stays loaded."""
        self.uses[adapter] -= 1
        if not self.uses[adapter]:
            del self.uses[adapter]

    def __repr__(self) -> str:
        return f"<AdapterSlots {len(self.uses)} used, {len(self._loaded)} loaded, {self._slots} in all>"
