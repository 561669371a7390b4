"""One replica's processes as a thing that can be watched and ended."""

from __future__ import annotations

import asyncio
import os
import signal
import time

from tidegate.backends.local import processes
from tidegate.backends.local.processes import Identity
from tidegate.core.types import ReplicaId

_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.1
_GIVE_UP_AFTER_S = 20.0
"""After SIGKILL. What lives on then waits inside the kernel, for a disk or a GPU, and cannot be killed."""


GOOD_ENDS = frozenset((0, -signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGTERM, 128 + signal.SIGINT))
"""A signal that asks for an end, or the exit code that shells make of it. What runs out of memory gets SIGKILL."""


class Group:
    """The processes of one replica, from the first one's start to the last one's end."""

    def __init__(self, fleet_id: str, replica_id: ReplicaId, first: Identity | None) -> None:
        self.first = first
        self.exited = asyncio.Event()
        """Set when the first process has ended. Others of the group may still live."""
        self._fleet_id = fleet_id
        self._replica_id = replica_id
        self._pidfd: int | None = None
        self._watch()

    def __repr__(self) -> str:
        return f"<Group of {self._replica_id}, pid {self.first.pid if self.first else None}>"

    def ended_in_good_order(self) -> bool:
        """As engines do that are asked to, once ``exited`` is set. Of one that was adopted it is not known: no."""
        return (processes.exit_code_of(self.first.pid) if self.first else None) in GOOD_ENDS

    def how_it_ended(self) -> str:
        """In words, once ``exited`` is set."""
        code = processes.exit_code_of(self.first.pid) if self.first else None
        if code is None:
            return "the engine's process is gone"
        if code >= 0:
            return f"the engine exited with code {code}"
        try:
            return f"the engine was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"the engine was killed by signal {-code}"

    async def end(self, grace_s: float) -> list[int]:
        """SIGTERM, then SIGKILL after the grace; returns once no process of the replica lives.

        Or 20 s after the grace with the pids of those that cannot be killed; may be called again.
        """
        began_s = time.monotonic()
        # The first process alone is asked first: vLLM's server finishes its streams, but not if its
        # engine processes get the signal too. What outlives it (a shell's child, say) is asked next.
        if grace_s > 0 and self.first is not None and not self.exited.is_set():
            processes.send_to_one(self.first, signal.SIGTERM)
            await _set_within(self.exited, grace_s)
        is_asked = False
        pause_s = _FIRST_PAUSE_S
        while found := await self._members():
            waited_s = time.monotonic() - began_s
            if waited_s >= grace_s:
                processes.send(found, signal.SIGKILL)
            elif not is_asked:
                processes.send(found, signal.SIGTERM)
                is_asked = True
            if waited_s >= grace_s + _GIVE_UP_AFTER_S:
                return sorted(process.identity.pid for process in found)
            await asyncio.sleep(pause_s)
            pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
        self._unwatch()
        if self.first is not None:
            processes.reap(self.first.pid)
        return []

    def let_go(self) -> None:
        """Stop watching; the processes live on."""
        self._unwatch()

    async def _members(self) -> list[processes.Process]:
        # In a thread: on a machine with thousands of processes this takes tens of milliseconds.
        return await asyncio.to_thread(processes.members, self._fleet_id, self._replica_id, self.first)

    def _watch(self) -> None:
        self._pidfd = processes.open_pidfd(self.first) if self.first is not None else None
        if self._pidfd is None:
            self.exited.set()
        else:
            asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)

    def _on_exit(self) -> None:
        self._unwatch()
        self.exited.set()

    def _unwatch(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None


async def _set_within(event: asyncio.Event, within_s: float) -> None:
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return
