"""What the next steps will be, as far as it can be told without making them.

Whoever drives an engine looks at it when there is something to see. Each look costs as much as the steps
themselves, so the moment is given as late as is plain to see, but never too late.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.engine.latency import Chunk, StepLaw
from tidegate.engine.scheduler import Scheduler

UNKNOWN = -1


class Foresight:
    """Looks ahead, and changes nothing."""

    __slots__ = ("_law", "_scheduler", "alike_s", "steps")

    def __init__(self, scheduler: Scheduler, law: StepLaw) -> None:
        self._scheduler = scheduler
        self._law = law
        self.steps = UNKNOWN
        """What ``steps_alike`` has told; to be made UNKNOWN when something has happened."""
        self.alike_s = 0.0
        """How long these steps last."""

    def __repr__(self) -> str:
        return f"<Foresight of {self._scheduler.decoding.count} decoding>"

    def obey(self, law: StepLaw) -> None:
        """Another law is in force from the next step on."""
        self._law = law
        self.steps = UNKNOWN

    def steps_alike(self) -> int:
        """Decode steps until one ends a sequence or finds too few free blocks; 0: the next one does.

        Kept until something happens: who asks when to look asks again when he looks.
        """
        if self.steps == UNKNOWN:
            decoding = self._scheduler.decoding
            steps = self.steps = self._count_alike()
            if steps:
                self.alike_s = self._law.decode_s(decoding.count, decoding.kv_tokens, steps)
        return self.steps

    def news_s(self, now_s: float) -> float | None:
        """The end of the first step that may bring something, when the next begins at ``now_s``; its beginning
        when it has to be composed to tell; None when none begins."""
        scheduler, decoding = self._scheduler, self._scheduler.decoding
        if scheduler.partial or (scheduler.waiting and scheduler.may_admit(now_s)):
            kv_tokens = decoding.kv_tokens
            for chunk in self._chunks():
                now_s += self._law.mixed_s(decoding.count, kv_tokens, (chunk,))
                kv_tokens += decoding.count
            return now_s
        if decoding.count:
            return now_s + self.alike_s if self.steps_alike() else now_s
        return scheduler.grouping.opens_s(scheduler.waiting) if scheduler.grouping else None

    def _count_alike(self) -> int:
        scheduler, decoding = self._scheduler, self._scheduler.decoding
        steps = decoding.steps_to_end()
        if not scheduler.limits.async_scheduling:
            return decoding.steps_within(scheduler.pool.free, steps)
        slots, blocks = scheduler.late()
        if slots or (scheduler.waiting and scheduler.waiting[0].seen_step > decoding.steps):
            steps = 1
        return decoding.steps_within(scheduler.pool.free - blocks, steps)

    def _chunks(self) -> Iterable[Chunk]:
        """The prompt chunks of the next steps, one a step, up to the first step that may bring something.
        Empty when that is not plain to see: others may go with them, or somebody be preempted."""
        scheduler, limits = self._scheduler, self._scheduler.limits
        sequence, cached = scheduler.partial, 0
        if scheduler.first_request_s or limits.async_scheduling or scheduler.grouping:
            return ()
        if len(scheduler.waiting) > (sequence is None):
            return ()
        if sequence is None:
            sequence = scheduler.waiting[0]
            if sequence.adapter is not None or (sequence.block_hashes and limits.prefix_caching):
                return ()
        else:
            cached = sequence.computed
        left = sequence.prompt_tokens + sequence.generated - cached
        decoding = scheduler.decoding
        budget = limits.max_step_tokens - decoding.count
        steps = 1
        if left > budget:
            steps = -(-left // budget)
            if decoding.count:
                steps = min(steps, decoding.steps_to_end())
        if scheduler.blocks_for(cached, left) + decoding.grow_in(steps) > scheduler.pool.free:
            return ()
        if left <= budget:
            return ((left, cached),)
        return [(min(budget, left - done), cached + done) for done in range(0, steps * budget, budget)]
