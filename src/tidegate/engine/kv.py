"""The KV cache as blocks, with vLLM's prefix cache.

A block in use is either *named* by the chained hash of all tokens up to its end, and may be shared,
or nameless. A free block keeps its contents until it is taken: free blocks stand in one line, the one
freed longest ago is taken first, and a named block in that line can be picked out by its name. Of one
sequence the last blocks go into the line first, so that the beginning of a prompt lives longest.

Law: vLLM's automatic prefix caching (vllm-project/vllm, V1 block pool, 2025). Nameless blocks are
only counted, so a sequence costs no work per block unless its blocks have names. What one sequence gives
back stands in the line as one *run*. A block picked out by its name leaves its place there, which is passed
over when its turn comes: nothing is ever searched for.

With a host tier, a named block whose room is taken goes on living in host memory, as long as it is among
the last ``host_blocks`` that came there or were asked for (vLLM's KV offloading, 2025).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from itertools import takewhile


class _Run:
    """Blocks that were freed together: the nameless ones are taken first, then those with names, last first."""

    __slots__ = ("mark", "nameless", "names")

    def __init__(self, nameless: int, names: list[int], mark: int) -> None:
        self.nameless = nameless
        self.names = names
        self.mark = mark
        """What a name's use says while it is free and stands here; below zero, and no other run has it."""


class BlockPool:
    """All blocks of one engine. ``free`` counts those that may be taken now."""

    __slots__ = (
        "_host",
        "_host_blocks",
        "_line",
        "_named_in_line",
        "_passed_over",
        "_runs",
        "_uses",
        "free",
        "total",
    )

    def __init__(self, total: int, host_blocks: int = 0) -> None:
        self.total = total
        self.free = total
        self._host_blocks = host_blocks
        self._host: OrderedDict[int, None] = OrderedDict()
        self._uses: dict[int, int] = {}  # of every cached name; the mark of its run for one that is free
        # Empty while all free blocks are nameless: then their order is of no interest.
        self._line: deque[_Run] = deque()
        self._runs = 0
        self._named_in_line = 0
        self._passed_over = 0  # names in the line that are not free, or stand in a later run as well

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
        uses = self._uses
        return len([name for name in names if uses[name] < 0])

    def share(self, names: Sequence[int]) -> None:
        """Use these cached blocks, alone or with others."""
        uses, picked = self._uses, 0
        for name in names:
            count = uses[name]
            if count < 0:
                picked += 1
                count = 0
            uses[name] = count + 1
        self.free -= picked
        self._named_in_line -= picked
        self._passed_over += picked
        self._tidy()

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
        self.free += nameless
        if not named and not line:
            return
        mark = ~self._runs
        names: list[int] = []
        for name in named:
            left = uses[name] - 1
            if left:
                uses[name] = left
            else:
                uses[name] = mark
                names.append(name)
        if names or (nameless and line):
            line.append(_Run(nameless if line else self.free, names, mark))
            self._runs += 1
            self._named_in_line += len(names)
            self.free += len(names)

    def forget(self) -> None:
        """Nothing is cached any more, here or on the host; no block is in use."""
        assert self.free == self.total
        self._uses.clear()
        self._host.clear()
        self._line.clear()
        self._named_in_line = self._passed_over = 0

    def shared_uses(self) -> int:
        """Uses of blocks beyond the first; the sum of what sequences hold is larger by this."""
        return sum(uses - 1 for uses in self._uses.values() if uses > 0)

    def _take_from_line(self, blocks: int) -> None:
        line, uses = self._line, self._uses
        while blocks:
            run = line[0]
            nameless = min(run.nameless, blocks)
            run.nameless -= nameless
            blocks -= nameless
            names, mark = run.names, run.mark
            while blocks and names:
                name = names.pop()
                if uses.get(name) != mark:
                    self._passed_over -= 1
                    continue
                del uses[name]
                self._named_in_line -= 1
                blocks -= 1
                if self._host_blocks:
                    self._keep_in_host(name)
            if not names and not run.nameless:
                line.popleft()
        self._tidy()

    def _keep_in_host(self, name: int) -> None:
        self._host[name] = None
        self._host.move_to_end(name)
        if len(self._host) > self._host_blocks:
            self._host.popitem(last=False)

    def _tidy(self) -> None:
        """Forget the order when it is of no interest, and places that are passed over when they are many."""
        if not self._named_in_line:
            self._line.clear()
            self._passed_over = 0
        elif self._passed_over > self.total:
            for run in self._line:
                run.names = [name for name in run.names if self._uses.get(name) == run.mark]
            self._passed_over = 0

    def __repr__(self) -> str:
        return f"<BlockPool {self.total - self.free} of {self.total} used, {len(self._uses)} named>"
