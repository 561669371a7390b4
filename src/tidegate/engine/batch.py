"""Continuous batching in time, step by step and by leaps.

What is in a step is ``scheduler.py``'s matter; how long it takes is the law's. Between two changes of
the batch nothing happens but that each sequence grows by a token a step, and a leap over a thousand
such steps costs the same as one (``decoding.py``).

``now_s`` is the start of the next step. A step that has begun cannot be changed; who arrives during it
waits for its end.
"""

from __future__ import annotations

from collections.abc import Hashable

from tidegate.engine.foresight import UNKNOWN, Foresight
from tidegate.engine.grouping import Grouping
from tidegate.engine.kv import BlockPool
from tidegate.engine.latency import StepLaw
from tidegate.engine.scheduler import Scheduler
from tidegate.engine.sequence import Limits, Progress, Sequence


class Engine:
    """One engine. Owns all sequences between ``add`` and their end."""

    def __init__(
        self, limits: Limits, law: StepLaw, grouping: Grouping | None = None, first_request_s: float = 0.0
    ) -> None:
        """``first_request_s``: how much longer the step takes that begins the very first sequence."""
        self.limits = limits
        self.now_s = 0.0
        self.busy_s = 0.0
        """Time spent in steps so far."""
        self._scheduler = Scheduler(limits, grouping, first_request_s)
        self.decoding = self._scheduler.decoding
        """The sums of those that decode, to be looked at."""
        self._started: list[Sequence] = []  # not told yet
        self._ended: list[Sequence] = []
        self._law = law
        self._foresight = Foresight(self._scheduler, law)

    @property
    def law(self) -> StepLaw:
        """May be replaced at any time; the next step obeys the new one."""
        return self._law

    @law.setter
    def law(self, law: StepLaw) -> None:
        self._law = law
        self._foresight.obey(law)

    # ---- what goes in ----

    def add(self, sequence: Sequence, now_s: float) -> None:
        """Queue a sequence. Steps that begin before ``now_s`` are not affected by it.

        Raises:
            ValueError: it would not fit even into an empty cache.
        """
        needed = -(-(sequence.prompt_tokens + sequence.output_tokens - 1) // self.limits.block_tokens)
        if needed > self.limits.kv_blocks:
            message = f"{sequence.key} needs {needed} blocks; the cache has {self.limits.kv_blocks}"
            raise ValueError(message)
        self.catch_up(now_s)
        if self.now_s < now_s:
            self.now_s = now_s  # it was idle
        sequence.queued_s = now_s
        if self.limits.async_scheduling:
            sequence.seen_step = self.decoding.steps + (self.now_s > now_s)
            self._foresight.steps = UNKNOWN
        self._scheduler.queue(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence and free its blocks before the next step; nothing is told of it any more.

        One whose end has been told, or that was never added, is ignored. ``catch_up`` first, or it is
        dropped at the moment up to which the engine has run.
        """
        self._scheduler.drop(sequence)
        self._foresight.steps = UNKNOWN
        for untold in (self._started, self._ended):
            if sequence in untold:
                untold.remove(sequence)
                sequence.finished_s = None

    def forget(self) -> None:
        """Lose the whole KV cache before the next step, as on falling asleep. ``catch_up`` first, as above.

        Nobody ends by that: who was in the batch is computed again.
        """
        self._scheduler.forget()
        self._foresight.steps = UNKNOWN

    # ---- what comes out ----

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._scheduler.running)

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._scheduler.waiting)

    @property
    def steps(self) -> int:
        """Steps begun so far."""
        return self.decoding.steps

    @property
    def step_tokens(self) -> int:
        """Tokens computed in all steps so far, prompts and answers."""
        return self._scheduler.prompt_tokens + self.decoding.decoded

    @property
    def output_tokens(self) -> int:
        """Tokens of answers so far. The step that completes a prompt gives one too."""
        return self.decoding.entered + self.decoding.decoded

    @property
    def preemptions(self) -> int:
        """Sequences that lost their blocks so far."""
        return self._scheduler.preemptions

    @property
    def adapter_loads(self) -> int:
        """LoRA adapters loaded so far, again ones counted again."""
        return self._scheduler.adapters.loads

    @property
    def pool(self) -> BlockPool:
        """The KV cache, to be looked at."""
        return self._scheduler.pool

    @property
    def adapters_running(self) -> list[Hashable]:
        """LoRA adapters that the batch uses."""
        return list(self._scheduler.adapters.uses)

    @property
    def adapters_waiting(self) -> list[Hashable]:
        """LoRA adapters that the queue asks for."""
        return list(dict.fromkeys(one.adapter for one in self._scheduler.waiting if one.adapter is not None))

    def blocks_held(self) -> list[int]:
        """The blocks that each sequence in the batch uses, shared ones counted for each."""
        scheduler, block = self._scheduler, self.limits.block_tokens
        return [-(-scheduler.tokens_cached(sequence) // block) for sequence in scheduler.running]

    @property
    def wake_s(self) -> float | None:
        """Nothing is to be seen before this moment unless something is added or aborted; None: never."""
        if self._started or self._ended:
            return self.now_s
        return self._foresight.news_s(self.now_s)

    def tokens_out(self, sequence: Sequence, now_s: float) -> int:
        """Tokens of the answer that are out by ``now_s``, which is not before the last ``advance``."""
        if sequence.finished_s is not None:
            return sequence.output_tokens - (sequence.finished_s > now_s)
        if sequence.finish_step < 0:
            return sequence.generated
        out = self.decoding.steps - sequence.origin - (self.now_s > now_s)
        return min(out, sequence.output_tokens)

    def advance(self, now_s: float) -> Progress:
        """Run until ``now_s`` by leaps and tell what has happened by then and was not told before."""
        self._run(now_s, step_at_limit=True)
        told = self._tell()
        if self.now_s > now_s and told is not _NO_NEWS:  # what the step in flight brings is told later
            while told.started and (told.started[-1].first_token_s or 0.0) > now_s:
                self._started.insert(0, told.started.pop())
            while told.ended and (told.ended[-1].finished_s or 0.0) > now_s:
                self._ended.insert(0, told.ended.pop())
        return told

    def step(self) -> Progress:
        """Run one step, whatever it is, and tell what it brought. Empty when there is nothing to do."""
        if self._scheduler.partial or self.decoding.count or self._scheduler.may_admit(self.now_s):
            self._step()
        return self._tell()

    # ---- the course of time ----

    def catch_up(self, now_s: float) -> None:
        """Take all steps that begin before ``now_s``; what they bring is told by the next ``advance``."""
        self._run(now_s, step_at_limit=False)

    def _run(self, limit_s: float, *, step_at_limit: bool) -> None:
        """Take all steps that begin before ``limit_s``; a leap ends there, any other step may begin there.

        So ``wake_s`` is never the moment of a step that nobody needs to see.
        """
        scheduler = self._scheduler
        while self.now_s < limit_s or (step_at_limit and self.now_s == limit_s):
            if scheduler.partial or (scheduler.waiting and scheduler.may_admit(self.now_s)):
                self._step()
            elif self.decoding.count:
                if not self._foresight.steps_alike():
                    self._step()  # it begins with a preemption
                elif self.now_s < limit_s:
                    self._leap(limit_s)
                else:
                    return
            else:
                opens_s = scheduler.grouping.opens_s(scheduler.waiting) if scheduler.grouping else None
                if opens_s is None or opens_s > limit_s:
                    return
                self.now_s = max(self.now_s, opens_s)

    def _step(self) -> None:
        decoding = self.decoding
        step = self._scheduler.compose(self.now_s)
        if step.chunks or decoding.count:
            took_s = self._law.mixed_s(decoding.count, decoding.kv_tokens, step.chunks) + step.load_s
            self._pass(1, took_s)
            for sequence in step.computed:
                self._begin_decoding(sequence)

    def _leap(self, limit_s: float) -> None:
        """As many steps at once as are alike and begin before the limit; at least one is and does."""
        steps, took_s, decoding = self._foresight.steps, self._foresight.alike_s, self.decoding
        if self.now_s + took_s > limit_s and steps > 1:
            enough = self._law.decode_steps(decoding.count, decoding.kv_tokens, limit_s - self.now_s)
            if enough < steps:
                steps = enough
                took_s = self._law.decode_s(decoding.count, decoding.kv_tokens, steps)
        self._scheduler.pool.take(decoding.grow_in(steps))
        self._pass(steps, took_s)

    def _pass(self, steps: int, took_s: float) -> None:
        """The clock moves on; who has all its tokens ends."""
        self._foresight.steps = UNKNOWN
        self.now_s += took_s
        self.busy_s += took_s
        for sequence in self.decoding.pass_steps(steps):
            self._finish(sequence)

    def _begin_decoding(self, sequence: Sequence) -> None:
        """Its prompt is computed, and that gave it the next token."""
        if sequence.first_token_s is None:
            sequence.first_token_s = self.now_s
            self._started.append(sequence)
        self.decoding.enter(sequence)
        if sequence.finish_step == self.decoding.steps:
            self._finish(sequence)

    def _finish(self, sequence: Sequence) -> None:
        sequence.finished_s = self.now_s
        self._ended.append(sequence)
        self._scheduler.finish(sequence)

    def _tell(self) -> Progress:
        if self._started or self._ended:
            told = Progress(self._started, self._ended)
            self._started, self._ended = [], []
            return told
        return _NO_NEWS

    def __repr__(self) -> str:
        return (
            f"<Engine at {self.now_s:.3f} s: {self.running} running, {self.waiting} waiting,"
            f" {self.pool.free} of {self.pool.total} blocks free>"
        )


_NO_NEWS = Progress([], [])
"""Told again and again; nobody writes into what is told."""
