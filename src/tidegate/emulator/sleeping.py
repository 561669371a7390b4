"""vLLM's sleep mode (since 0.8, 2025): the process stays, the GPU's memory is given back.

Level 1 keeps the weights in host memory, level 2 keeps nothing; the KV cache is lost either way. How long
falling asleep and waking take is the cold start's matter. As with vLLM,

- a sleeping engine is healthy, answers ``/metrics``, and keeps whoever asks it waiting until it wakes;
- waking may be done in two parts (``tags``), and it sleeps until both are awake;
- after level 2 the weights are memory without contents until ``reload_weights`` is called: it answers before
  that, and the answers are garbage.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine

from tidegate.emulator.service import Service
from tidegate.engine.coldstart import ColdStart, StageKind

TAGS = ("weights", "kv_cache")
MODES = ("abort", "wait", "keep")
"""What becomes of running answers: they end with ``finish_reason: "abort"``, or are waited for, or go on after
it has woken."""

_LOOK_EVERY_S = 0.005


class Sleeper:
    """Owns how deep one engine sleeps. One order is carried out at a time."""

    def __init__(self, service: Service, start: ColdStart, time_scale: float) -> None:
        self._service = service
        self._start = start
        self._time_scale = time_scale
        self._asleep: set[str] = set()
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.level = 0
        """Of the sleep it is in; 0 while it is awake."""

    @property
    def is_sleeping(self) -> bool:
        return self.level > 0

    async def sleep(self, level: int, mode: str) -> None:
        """Return once it sleeps. One that sleeps already sleeps on as it does."""
        await self._carry_out(self._fall_asleep(level, mode))

    async def wake(self, tags: Collection[str] = TAGS) -> None:
        """Return once these parts are awake. Parts that are awake, or that there are not, are passed over."""
        await self._carry_out(self._wake(tags))

    async def reload_weights(self) -> None:
        """Read the weights from the disk into memory that is awake.

        Raises:
            RuntimeError: there is no memory to read them into.
        """
        if "weights" in self._asleep:
            raise RuntimeError("the memory of the weights is asleep; wake it first")
        await self._carry_out(self._reload())

    async def close(self) -> None:
        """Leave off whatever is being done."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry_out(self, order: Coroutine[None, None, None]) -> None:
        # A caller who hangs up does not stop what he has ordered.
        task = asyncio.get_running_loop().create_task(order)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await asyncio.shield(task)

    async def _fall_asleep(self, level: int, mode: str) -> None:
        async with self._one_at_a_time:
            if self.is_sleeping:
                return
            if mode == "wait":
                await self._until_ended()
            self._service.stand_still(self)
            if mode == "abort":
                self._service.end_all_early()
            self._service.forget()
            await self._pass(self._start.sleep_s)
            self.level = level
            self._asleep = set(TAGS)
            if level > 1:
                self._service.has_weights = False

    async def _wake(self, tags: Collection[str]) -> None:
        async with self._one_at_a_time:
            parts = self._asleep.intersection(tags)
            if "weights" in parts:
                await self._pass(sum(s.median_s for s in self._start.waking() if s.kind is StageKind.WAKE))
            self._asleep -= parts
            if parts and not self._asleep:
                self.level = 0
                self._service.go_on(self)

    async def _reload(self) -> None:
        async with self._one_at_a_time:
            await self._pass(sum(s.median_s for s in self._start.waking(2) if s.kind is StageKind.WEIGHTS))
            self._service.has_weights = True

    async def _until_ended(self) -> None:
        """All answers that are under way now have ended; those asked for since are not waited for."""
        under_way = self._service.under_way()
        while not all(generation.is_ended for generation in under_way):
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _pass(self, model_s: float) -> None:
        await asyncio.sleep(model_s / self._time_scale)
