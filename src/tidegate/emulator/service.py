"""The engine model against the wall clock.

One task owns the pace: it lets the model run up to now, hands out the tokens of the steps that have
ended, and sleeps until the step in flight ends. It sleeps longer when handing out has become
expensive, so that it never takes more than a fifth of a core: tokens then come in larger pieces, as
vLLM's do when its own front end falls behind. Model seconds are wall seconds times the time scale.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection
from itertools import count

from tidegate.emulator import text
from tidegate.emulator.asking import Wanted
from tidegate.emulator.meters import Meters
from tidegate.engine.batch import Engine
from tidegate.engine.latency import Slowed
from tidegate.engine.sequence import Sequence

_SHORTEST_SLEEP_S = 0.001
_SLEEP_PER_WORK = 4.0
_EARLY_S = 0.000_001
"""A loop's clock has a resolution, so it may wake us this much before the end of a step: that is its end."""


class Busy(Exception):
    """The queue is as long as it may be."""


class Generation:
    """One answer on its way. The service writes it, one handler reads it."""

    def __init__(self, sequence: Sequence, wanted: Wanted, answer: str, finish_reason: str) -> None:
        self.sequence = sequence
        self.wanted = wanted
        self.finish_reason = finish_reason
        self.is_followed = wanted.is_stream
        """Somebody wants the tokens as they come, not only the end."""
        self.tokens_out = 0
        self.is_ended = False
        self._answer = answer
        self._reader: asyncio.Future[None] | None = None
        self._reads_from = 0

    def words(self, begin: int, end: int) -> str:
        """The text of these tokens."""
        return self._answer[begin * text.TOKEN_BYTES : end * text.TOKEN_BYTES]

    async def more_than(self, tokens: int) -> None:
        """Return once more than ``tokens`` are out, or the answer has ended."""
        while self.tokens_out <= tokens and not self.is_ended:
            self._reader = asyncio.get_running_loop().create_future()
            self._reads_from = tokens
            await self._reader

    async def ended(self) -> None:
        """Return once the answer has ended."""
        await self.more_than(self.sequence.output_tokens)

    def put(self, tokens_out: int, *, is_ended: bool = False) -> None:
        """So many tokens are out now."""
        self.tokens_out = tokens_out
        self.is_ended = is_ended
        if self._reader and not self._reader.done() and (is_ended or tokens_out > self._reads_from):
            self._reader.set_result(None)


class Service:
    """Takes requests, paces their tokens, counts what happens."""

    def __init__(
        self,
        engine: Engine,
        meters: Meters,
        time_scale: float,
        max_queued: int | None,
        cpu_s: Callable[[], float] = time.process_time,
    ) -> None:
        """``cpu_s`` is what this process has computed so far. On a virtual clock no time may pass by it."""
        self.engine = engine
        self._cpu_s = cpu_s
        self.meters = meters
        self._time_scale = time_scale
        self._max_queued = max_queued
        self._law = engine.law
        self._live: dict[Sequence, Generation] = {}
        self._keys = count()
        self._loop = asyncio.get_running_loop()
        self._began_s = self._loop.time()
        self._stood_since_s: float | None = None
        self._stopped_by: list[object] = []
        self.has_weights = True
        """False: it computes with whatever is in its memory, and the answers are garbage."""
        self._has_work = asyncio.Event()
        self._may_go = asyncio.Event()
        self._may_go.set()
        self._task = self._loop.create_task(self._pace(), name="emulated engine")

    @property
    def live(self) -> int:
        """Answers that have not ended."""
        return len(self._live)

    @property
    def context_tokens(self) -> int:
        """What fits into the cache at most: one request's prompt and answer."""
        limits = self.engine.limits
        return limits.kv_blocks * limits.block_tokens

    # ---- requests ----

    def submit(self, wanted: Wanted, adapter: str | None = None) -> Generation:
        """Queue a request.

        Raises:
            Busy: too many wait already.
            ValueError: it can never fit.
        """
        if self._max_queued is not None and self.engine.waiting >= self._max_queued:
            self.meters.rejected()
            raise Busy
        tokens, finish_reason = wanted.output_tokens()
        answer = text.garbage(tokens)
        if self.has_weights:
            answer = text.answer(wanted.prompt, tokens, wanted.seed, wanted.given)
        block_tokens = self.engine.limits.block_tokens
        whole = wanted.prompt + (wanted.given + answer).encode()
        hashes = text.block_hashes(whole, block_tokens, adapter or "")
        sequence = Sequence(next(self._keys), wanted.prompt_tokens, tokens, hashes, adapter)
        self.engine.add(sequence, self._now_s())
        generation = Generation(sequence, wanted, answer, finish_reason)
        self._live[sequence] = generation
        self._has_work.set()
        return generation

    def end_early(self, generation: Generation) -> None:
        """Drop an answer and free its place before the next step; its reader finds it ended."""
        if self._live.pop(generation.sequence, None) is None:
            return
        tokens_out = self.engine.tokens_out(generation.sequence, self._now_s())
        self.engine.abort(generation.sequence)
        self.meters.aborted()
        generation.finish_reason = "abort"
        generation.put(tokens_out, is_ended=True)

    def end_all_early(self) -> None:
        """As above, for every answer."""
        for generation in list(self._live.values()):
            self.end_early(generation)

    def under_way(self) -> list[Generation]:
        """The answers that have not ended."""
        return list(self._live.values())

    # ---- what faults and sleep do ----

    def slow_down(self, factors: Collection[float]) -> None:
        """From the next step on, steps take as many times as long as all these factors together say."""
        factor = math.prod(factors)
        self.engine.law = self._law if factor == 1 else Slowed(self._law, factor)

    def stand_still(self, cause: object) -> None:
        """No token comes out until this cause, and all others, have let it ``go_on``."""
        self._stopped_by.append(cause)
        if self._stood_since_s is None:
            self._stood_since_s = self._loop.time()
            self._may_go.clear()

    def go_on(self, cause: object) -> None:
        """Go on where the engine stood; the time between did not pass for it."""
        if cause in self._stopped_by:
            self._stopped_by.remove(cause)
        if not self._stopped_by and self._stood_since_s is not None:
            self._began_s += self._loop.time() - self._stood_since_s
            self._stood_since_s = None
            self._may_go.set()

    def forget(self) -> None:
        """Lose the KV cache. Answers that have not ended are computed again, and go on where they were."""
        self.engine.catch_up(self._now_s())
        self.engine.forget()

    async def close(self) -> None:
        """Stop the pace. Answers that have not ended never will."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # ---- the pace ----

    def _now_s(self) -> float:
        wall_s = self._loop.time() if self._stood_since_s is None else self._stood_since_s
        return (wall_s - self._began_s) * self._time_scale

    async def _pace(self) -> None:
        due_s = 0.0
        while True:
            await self._has_work.wait()
            await self._may_go.wait()
            before_s = self._cpu_s()
            now_s = self._now_s()
            if due_s <= now_s + _EARLY_S * self._time_scale:
                # The next step begins at once: before anybody can have sent a request in answer to this one.
                now_s = max(now_s, math.nextafter(due_s, math.inf))
            self._hand_out(now_s)
            if not self._live:
                self._has_work.clear()
            await asyncio.sleep(0)  # those who were woken write now
            worked_s = self._cpu_s() - before_s
            due_s = self.engine.now_s
            step_left_s = (due_s - self._now_s()) / self._time_scale
            await asyncio.sleep(max(_SHORTEST_SLEEP_S, worked_s * _SLEEP_PER_WORK, step_left_s))

    def _hand_out(self, now_s: float) -> None:
        engine = self.engine
        told = engine.advance(now_s)
        self.meters.passed(engine, told)
        # Of one step, first tokens go out first: as in the simulator, so that a gateway decides alike behind both.
        for sequence in told.started:
            generation = self._live.get(sequence)
            if generation and generation.is_followed:
                generation.put(engine.tokens_out(sequence, now_s))
        for sequence in told.ended:
            generation = self._live.pop(sequence, None)
            if generation:
                self.meters.ended(sequence, generation.finish_reason)
                generation.put(sequence.output_tokens, is_ended=True)
        for sequence, generation in self._live.items():
            if generation.is_followed:
                generation.put(engine.tokens_out(sequence, now_s))
