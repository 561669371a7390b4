"""The KV cache as blocks, with vLLM's prefix cache.

A block in use is either *named* by the chained hash of all tokens up to its end, and may be shared,
or nameless. A free block keeps its contents until it is taken: free blocks stand in one line, the one
freed longest ago is taken first, and a named block in that line can be picked out by its name. Of one
sequence the last blocks go into the line first, so that the beginning of a prompt lives longest.

Law: vLLM's automatic prefix caching (vllm-project/vllm, V1 block pool, 2025). Nameless blocks are
only counted, so a sequence costs no work per block unless its blocks have names.

With a host tier, a named block whose room is taken goes on living in host memory, as long as it is among
the last ``host_blocks`` that came there or were asked for (vLLM's KV offloading, 2025).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile

NAMED = 0
"""In the line, a block with a name, where a number stands for so many nameless ones."""


class BlockPool:
    """All blocks of one engine. ``free`` counts those that may be taken now."""

    __slots__ = ("_host", "_host_blocks", "_line", "_named_in_line", "_uses", "free", "total")

    def __init__(self, total: int, host_blocks: int = 0) -> None:
        self.total = total
        self.free = total
        self._host_blocks = host_blocks
        self._host: OrderedDict[int, None] = OrderedDict()
        self._uses: dict[int, int] = {}  # of every cached name; 0 for one that is free
        # The name of a free block -> NAMED, or a fresh object -> how many nameless blocks stand there. Empty
        # while all free blocks are nameless: then their order is of no interest.
        self._line: OrderedDict[object, int] = OrderedDict()
        self._named_in_line = 0

    def hits(self, names: Sequence[int]) -> int:
        """How many leading names are cached."""
        return len(list(takewhile(self._uses.__contains__, names)))

    def host_hits(self, names: Sequence[int]) -> int:
        """How many leading names are in host memory."""
        found = 0
        for name in names:
            if name not in self._host:
                break
            self._host.move_to_end(name)
            found += 1
        return found

    def idle(self, names: Sequence[int]) -> int:
        """How many of these cached blocks are free now, and would be no longer after ``share``."""
        return list(map(self._uses.__getitem__, names)).count(0)

    def share(self, names: Sequence[int]) -> None:
        """Use these cached blocks, alone or with others."""
        uses = self._uses
        for name in names:
            if not uses[name]:
                del self._line[name]
                self.free -= 1
                self._named_in_line -= 1
            uses[name] += 1
        self._forget_order()

    def take(self, blocks: int) -> None:
        """Use ``blocks`` nameless blocks; the caller has seen that so many are free."""
        self.free -= blocks
        if self._line:
            self._take_from_line(blocks)

    def named(self, names: Sequence[int]) -> list[int]:
        """Give nameless blocks in use these names. Those that no other block has already."""
        uses = self._uses
        taken = {name: 1 for name in names if name not in uses}
        uses.update(taken)
        return list(taken)

    def give_back(self, nameless: int, named: Sequence[int] = ()) -> None:
        """A sequence's use of its blocks ends."""
        uses, line = self._uses, self._line
        if nameless and line:
            line[object()] = nameless
        self.free += nameless
        if not named:
            return
        if not line and self.free:
            line[object()] = self.free
        freed = 0
        for name in reversed(named):
            left = uses[name] = uses[name] - 1
            if not left:
                line[name] = NAMED
                freed += 1
        self._named_in_line += freed
        self.free += freed

    def shared_uses(self) -> int:
        """Uses of blocks beyond the first; the sum of what sequences hold is larger by this."""
        return sum(uses - 1 for uses in self._uses.values() if uses)

    def _take_from_line(self, blocks: int) -> None:
        line, uses = self._line, self._uses
        while blocks:
            name, standing = line.popitem(last=False)
            if standing == NAMED:
                assert isinstance(name, int)
                del uses[name]
                self._named_in_line -= 1
                if self._host_blocks:
                    self._keep_in_host(name)
                blocks -= 1
            elif standing > blocks:
                line[name] = standing - blocks
                line.move_to_end(name, last=False)
                break
            else:
                blocks -= standing
        self._forget_order()

    def _keep_in_host(self, name: int) -> None:
        self._host[name] = None
        self._host.move_to_end(name)
        if len(self._host) > self._host_blocks:
            self._host.popitem(last=False)

    def _forget_order(self) -> None:
        if not self._named_in_line:
            self._line.clear()

    def __repr__(self) -> str:
        return f"<BlockPool {self.total - self.free} of {self.total} used, {len(self._uses)} named>"
