"""Who is in the next step: vLLM's V1 scheduler (vllm-project/vllm, 2025), without time.

In each step every decoding sequence gets one token; what is left of the token budget goes first to the
one prompt that is half computed, then to waiting sequences, first come first served, while their
blocks are free. When a decoding sequence needs a block and none is free, the sequence admitted last is
preempted: its blocks are freed, it goes to the head of the queue, and its prompt and answer so far are
computed again.

With asynchronous scheduling a step is composed while the one before it runs. The slots and blocks of
those who end in that one, and those who arrive during it, are then *late*: they count a step later,
unless nothing runs any more. (vLLM computes one token in vain for each that has ended; left out here.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from itertools import islice

from tidegate.engine.adapters import AdapterSlots
from tidegate.engine.decoding import Decoding
from tidegate.engine.grouping import Grouping
from tidegate.engine.kv import BlockPool
from tidegate.engine.sequence import Limits, Sequence, Step

_NOTHING: tuple[int, ...] = ()


class Scheduler:
    """Owns the queue, the batch, the blocks and the adapters' slots."""

    def __init__(self, limits: Limits, grouping: Grouping | None, first_request_s: float) -> None:
        for problem in limits.problems():
            raise ValueError(problem)
        self.limits = limits
        self.grouping = grouping
        self.pool = BlockPool(limits.kv_blocks, limits.host_blocks)
        self.adapters = AdapterSlots(limits.max_adapters)
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.partial: Sequence | None = None
        """The last of the running, while its prompt is not computed."""
        self.decoding = Decoding(limits.block_tokens)
        self.preemptions = 0
        self.prompt_tokens = 0
        """Of prompts, computed so far; what is computed again counts again."""
        self.first_request_s = first_request_s
        """How much longer the step takes that lets the first sequence in; 0 once it has been."""
        self._step = Step()
        self._block = limits.block_tokens
        self._budget = limits.max_step_tokens
        self._is_blocked = False  # the head of the queue has been tried and must wait for a change
        self._caches = limits.prefix_caching and grouping is None
        self._is_ahead = limits.async_scheduling
        self._late_step = -1  # steps begun when the late ones ended
        self._late_slots = 0
        self._late_blocks = 0
        self._lacks_adapters = False  # that is because no slot for an adapter is free

    def queue(self, sequence: Sequence) -> None:
        """To the end of the queue."""
        self.waiting.append(sequence)
        if self._lacks_adapters:
            self._is_blocked = False  # this one may pass those that wait for an adapter's slot

    # ---- what the step is made of ----

    def compose(self, now_s: float) -> Step:
        """Preempt, continue and admit for one step, and take its blocks. Good until the next call."""
        decoding, pool, step = self.decoding, self.pool, self._step
        before = self.preemptions
        late_blocks = self.late()[1] if self._is_ahead else 0
        place = decoding.steps % self._block
        while (grow := decoding.growth[place]) > pool.free - late_blocks:
            self._preempt(next(reversed(self.running)))
        if grow:
            pool.take(grow)
        step.budget = self._budget - decoding.count
        if step.chunks:
            step.clear()
        if self.grouping:
            self._admit_group(self.grouping.room(self.waiting, len(self.running), now_s), now_s, step)
            return step
        if self.partial:
            self._continue(self.partial, step)
        if step.budget and self.waiting and self.preemptions == before:
            self._admit(now_s, step)
        return step

    def may_admit(self, now_s: float) -> bool:
        """True when the head of the queue is worth a try."""
        if not self.waiting or self._is_blocked:
            return False
        if self.grouping:
            return self.grouping.room(self.waiting, len(self.running), now_s) > 0
        room = self.limits.max_sequences - len(self.running)
        if self._is_ahead and self.running:
            return self.waiting[0].seen_step <= self.decoding.steps and room > self.late()[0]
        return room > 0

    def tokens_cached(self, sequence: Sequence) -> int:
        """Tokens of a running sequence in the KV cache."""
        return sequence.computed if sequence.finish_step < 0 else self.decoding.cached(sequence)

    def finish(self, sequence: Sequence) -> None:
        """Out of the batch, for it has all its tokens."""
        free = self.pool.free
        self.leave(sequence)
        if self._is_ahead:
            slots, blocks = self.late()
            self._late_step = self.decoding.steps
            self._late_slots, self._late_blocks = slots + 1, blocks + self.pool.free - free

    def leave(self, sequence: Sequence) -> None:
        """Out of the batch, with its blocks."""
        tokens = sequence.computed if sequence.finish_step < 0 else self.decoding.leave(sequence)
        if self.partial is sequence:
            self.partial = None
        if sequence.adapter is not None:
            self.adapters.leave(sequence.adapter)
        del self.running[sequence]
        self._is_blocked = False
        self._free_blocks(sequence, tokens)

    def drop(self, sequence: Sequence) -> None:
        """Out of the batch or the queue, wherever it is."""
        if sequence in self.running:
            self.leave(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
            self._is_blocked = False

    def late(self) -> tuple[int, int]:
        """Slots and blocks that came free too late for the next step."""
        if self._late_step != self.decoding.steps or not self.running:
            return 0, 0
        return self._late_slots, self._late_blocks

    # ---- prompts ----

    def _continue(self, sequence: Sequence, step: Step) -> None:
        """The next chunk of the half-computed prompt; when there is no room, it has to go."""
        cached, block = sequence.computed, self._block
        new = sequence.prompt_tokens + sequence.generated - cached
        if new > step.budget:
            new = step.budget
        blocks = -(-(cached + new) // block) + -cached // block
        if blocks > self.pool.free - (self.late()[1] if self._is_ahead else 0):
            self._preempt(sequence)
        else:
            self._compute(sequence, new, blocks, step)

    def _admit(self, now_s: float, step: Step) -> None:
        """Take from the queue what fits; pass by those whose adapter has no slot."""
        waiting, passed = self.waiting, []
        while step.budget and self.may_admit(now_s):
            sequence = waiting[0]
            if sequence.adapter is not None and not self.adapters.fits(sequence.adapter):
                passed.append(waiting.popleft())
            elif not self._admit_one(sequence, now_s, step):
                self._is_blocked = not self.late()[1]  # late blocks may be enough in the next step
                break
        if passed:
            self._lacks_adapters = self._is_blocked = not waiting
            waiting.extendleft(reversed(passed))

    def _admit_one(self, sequence: Sequence, now_s: float, step: Step) -> bool:
        """Let the head of the queue in with its first chunk; False when its blocks are not free."""
        pool, block = self.pool, self._block
        tokens = sequence.prompt_tokens + sequence.generated
        shared = fetched = _NOTHING
        if sequence.block_hashes and self._caches:
            shared, fetched = self._cached_blocks(sequence, tokens)
        held = (len(shared) + len(fetched)) * block
        new = min(step.budget, tokens - held)
        blocks = self.blocks_for(held, new)
        must_fit = blocks
        if self.limits.reserve_prompt and new < tokens - held:
            must_fit = self.blocks_for(held, tokens - held)
        if shared or fetched:
            must_fit += pool.idle(shared) + len(fetched)
        if must_fit > pool.free - (self.late()[1] if self._is_ahead else 0):
            return False
        self.waiting.popleft()
        self._enter(sequence, step)
        if shared or fetched:
            self._reuse(sequence, shared, fetched, step)
        if sequence.scheduled_s is None:
            sequence.scheduled_s = now_s
            sequence.cached_tokens = sequence.computed
        self._compute(sequence, new, blocks, step)
        return True

    def _admit_group(self, room: int, now_s: float, step: Step) -> None:
        """Take the next group from the queue and compute all its prompts, padded to the longest."""
        group = self._next_group(room)
        prompt, output = _longest(group)
        for sequence in group:
            self.waiting.popleft()
            self._enter(sequence, step)
            sequence.padded_prompt = prompt - sequence.generated
            sequence.padded_output = output + sequence.generated
            if sequence.scheduled_s is None:
                sequence.scheduled_s = now_s
            self._compute(sequence, prompt, self.blocks_for(0, prompt), step)

    def _next_group(self, room: int) -> list[Sequence]:
        """The first of the queue, as many as fit into the cache when all are as long as the longest."""
        group: list[Sequence] = []
        adapters: set[Hashable] = set()
        for sequence in islice(self.waiting, min(room, self.limits.max_sequences)):
            if sequence.adapter is not None:
                adapters.add(sequence.adapter)
            group.append(sequence)
            prompt, output = _longest(group)
            held = len(group) * self.blocks_for(0, prompt + output - 1)
            if held > self.pool.total or len(adapters) > self.limits.max_adapters:
                return group[:-1]
        return group

    def _enter(self, sequence: Sequence, step: Step) -> None:
        sequence.computed = 0
        self.running[sequence] = None
        if self.first_request_s:
            step.load_s += self.first_request_s
            self.first_request_s = 0.0
        if sequence.adapter is not None and self.adapters.enter(sequence.adapter):
            step.load_s += self.limits.adapter_load_s

    def _cached_blocks(self, sequence: Sequence, tokens: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Names of the leading blocks that are on the GPU, and of those after them that are on the host.

        The last token is always computed: it gives the next one.
        """
        names = sequence.block_hashes[: (tokens - 1) // self._block]
        hits = self.pool.hits(names)
        return names[:hits], names[hits : hits + self.pool.host_hits(names[hits:])]

    def _reuse(
        self, sequence: Sequence, shared: tuple[int, ...], fetched: tuple[int, ...], step: Step
    ) -> None:
        pool = self.pool
        pool.share(shared)
        pool.take(len(fetched))
        sequence.held = [*shared, *pool.named(fetched)]
        sequence.computed = (len(shared) + len(fetched)) * self._block
        step.load_s += len(fetched) * self.limits.host_block_load_s

    def _compute(self, sequence: Sequence, new: int, blocks: int, step: Step) -> None:
        """Put a chunk of a prompt into this step."""
        cached = sequence.computed
        if blocks:
            self.pool.take(blocks)
        step.chunks.append((new, cached))
        step.budget -= new
        self.prompt_tokens += new
        computed = sequence.computed = cached + new
        if sequence.block_hashes and self._caches:
            full = min(computed, sequence.prompt_tokens) // self._block
            names = sequence.block_hashes[cached // self._block : full]
            sequence.held += self.pool.named(names)
        if computed < sequence.padded_prompt + sequence.generated:
            self.partial = sequence
        else:
            self.partial = None
            step.computed.append(sequence)

    def blocks_for(self, held_tokens: int, new_tokens: int) -> int:
        """Blocks that new tokens need after those that are held."""
        return -(-(held_tokens + new_tokens) // self._block) + -held_tokens // self._block

    # ---- blocks given up ----

    def forget(self) -> None:
        """All that is cached is lost. Who was in the batch is computed again, first come first."""
        while self.running:
            self._preempt(next(reversed(self.running)))
        self.pool.forget()

    def _preempt(self, sequence: Sequence) -> None:
        if sequence.finish_step >= 0:
            sequence.generated = self.decoding.steps - sequence.origin
        self.leave(sequence)
        sequence.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(sequence)

    def _free_blocks(self, sequence: Sequence, tokens: int) -> None:
        held = sequence.held
        if sequence.block_hashes and self._caches:
            # Blocks that the answer has filled since; the next turn of a chat finds them.
            names = sequence.block_hashes[len(held) : tokens // self._block]
            held += self.pool.named(names)
        self.pool.give_back(-(-tokens // self._block) - len(held), held)
        if held:
            sequence.held = []


def _longest(group: list[Sequence]) -> tuple[int, int]:
    """Tokens to be computed at once, and to come after that, of the longest of a group."""
    prompt = max((one.prompt_tokens + one.generated for one in group), default=0)
    output = max((one.output_tokens - one.generated for one in group), default=0)
    return prompt, max(1, output)
