"""Continuous batching, step by step and by leaps.

The rules are those of vLLM's V1 scheduler (vllm-project/vllm, 2025). In each step every decoding
sequence gets one token; what is left of the token budget goes first to the one prompt that is half
computed, then to waiting sequences, first come first served, while their blocks are free. When a
decoding sequence needs a block and none is free, the sequence admitted last is preempted: its blocks
are freed, it goes to the head of the queue, and its prompt and answer so far are computed again.

Between two changes of the batch nothing happens but that each sequence grows by a token a step. So
the engine keeps only sums: how many decode, how many tokens they have cached, and in which steps they
will need their next blocks. A leap over a thousand steps costs the same as one step.

Time: ``now_s`` is the start of the next step. A step that has begun cannot be changed; who arrives
during it waits for its end.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush

from tidegate.engine.grouping import Grouping
from tidegate.engine.kv import BlockPool
from tidegate.engine.latency import Chunk, StepLaw
from tidegate.engine.sequence import Limits, Progress, Sequence


class Engine:
    """One engine. Owns all sequences between ``add`` and their end."""

    def __init__(self, limits: Limits, law: StepLaw, grouping: Grouping | None = None) -> None:
        for problem in limits.problems():
            raise ValueError(problem)
        self.limits = limits
        self.law = law
        """May be replaced at any time; the next step obeys the new one."""
        self.now_s = 0.0
        self.steps = 0
        """Steps begun so far."""
        self.step_tokens = 0
        """Tokens computed in all steps so far, prompts and answers."""
        self.output_tokens = 0
        """Tokens of answers in all steps so far."""
        self.busy_s = 0.0
        """Time spent in steps so far."""
        self.preemptions = 0
        self.pool = BlockPool(limits.kv_blocks, caching=limits.prefix_caching)
        self._grouping = grouping
        self._waiting: deque[Sequence] = deque()
        self._running: dict[Sequence, None] = {}  # in order of admission
        self._partial: Sequence | None = None  # the last of the running, while its prompt is not computed
        self._is_blocked = False  # the head of the queue has been tried and must wait for a change
        self._decoding = 0
        self._kv_tokens = 0  # of the decoding sequences, all together
        self._growth = [0] * limits.block_tokens  # decoding sequences by the step in which they grow
        self._endings: list[tuple[int, int, Sequence]] = []  # heap of (last step, admission, sequence)
        self._admissions = 0
        self._progress = Progress([], [])
        self._before_last = (0, 0)  # how much of the progress came before the last step

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
        self._run(now_s, step_at_limit=False)
        if self.now_s < now_s:
            self.now_s = now_s  # it was idle
        sequence.queued_s = now_s
        self._waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence and free its blocks before the next step. Ended or unknown ones are ignored."""
        if sequence in self._running:
            self._leave(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._is_blocked = False

    # ---- what comes out ----

    @property
    def running(self) -> int:
        """Sequences in the batch."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Sequences in the queue."""
        return len(self._waiting)

    @property
    def wake_s(self) -> float | None:
        """Nothing is to be seen before this moment unless something is added or aborted; None: never."""
        if self._progress.started or self._progress.ended or self._partial or self._may_admit():
            return self.now_s
        if self._decoding:
            steps = self._steps_alike()
            return self.now_s + (self.law.decode_s(self._decoding, self._kv_tokens, steps) if steps else 0.0)
        return self._grouping.opens_s(self._waiting) if self._grouping else None

    def blocks_held(self) -> list[tuple[Sequence, int]]:
        """The blocks that each sequence in the batch uses, shared ones counted for each."""
        return [(sequence, self._blocks_for(0, self._tokens_cached(sequence))) for sequence in self._running]

    def tokens_out(self, sequence: Sequence, now_s: float) -> int:
        """Tokens of the answer that are out by ``now_s``, which is not before the last ``advance``."""
        if sequence.finished_s is not None and sequence.finished_s <= now_s:
            return sequence.output_tokens
        if sequence.finish_step < 0:
            return sequence.generated
        return self.steps - sequence.origin - (self.now_s > now_s)

    def advance(self, now_s: float) -> Progress:
        """Run until ``now_s`` by leaps and tell what has happened by then and was not told before."""
        self._run(now_s, step_at_limit=True)
        if self.now_s <= now_s:
            told, self._progress = self._progress, Progress([], [])
            return told
        started, ended = self._before_last
        told = Progress(self._progress.started[:started], self._progress.ended[:ended])
        del self._progress.started[:started], self._progress.ended[:ended]
        self._before_last = (0, 0)
        return told

    def step(self) -> Progress:
        """Run one step, whatever it is, and tell what it brought. Empty when there is nothing to do."""
        if self._partial or self._decoding or self._may_admit():
            self._step()
        told, self._progress = self._progress, Progress([], [])
        return told

    # ---- the course of time ----

    def _run(self, limit_s: float, *, step_at_limit: bool) -> None:
        """Take all steps that begin before ``limit_s``; a leap ends there, any other step may begin there.

        So ``wake_s`` is never the moment of a step that nobody needs to see.
        """
        while self.now_s < limit_s or (step_at_limit and self.now_s == limit_s):
            self._before_last = len(self._progress.started), len(self._progress.ended)
            if self._partial or self._may_admit():
                self._step()
            elif self._decoding:
                if not self._leap(limit_s):
                    return
            elif self._grouping and (opens_s := self._grouping.opens_s(self._waiting)) is not None:
                if opens_s > limit_s:
                    return
                self.now_s = max(self.now_s, opens_s)
            else:
                return

    def _leap(self, limit_s: float) -> bool:
        """As many steps at once as are alike and begin before the limit; False when there is none."""
        steps = self._steps_alike()
        if not steps:
            self._step()  # it begins with a preemption
            return True
        if self.now_s >= limit_s:
            return False
        decoding, law = self._decoding, self.law
        took_s = law.decode_s(decoding, self._kv_tokens, steps)
        if self.now_s + took_s > limit_s and steps > 1:
            steps = min(steps, law.decode_steps(decoding, self._kv_tokens, limit_s - self.now_s))
            took_s = law.decode_s(decoding, self._kv_tokens, steps)
        self.pool.take(self._growth_in(steps))
        self._pass(steps, took_s, steps * decoding)
        return True

    def _pass(self, steps: int, took_s: float, tokens: int) -> None:
        """The clock and the sums move on; who has all its tokens ends."""
        self.now_s += took_s
        self.busy_s += took_s
        self.steps += steps
        self.step_tokens += tokens
        self.output_tokens += steps * self._decoding
        self._kv_tokens += steps * self._decoding
        endings = self._endings
        while endings and endings[0][0] <= self.steps:
            last_step, _, sequence = heappop(endings)
            if sequence.finish_step == last_step:  # else it was preempted or aborted
                self._finish(sequence)

    def _steps_alike(self) -> int:
        """Decode steps until one ends a sequence or finds too few free blocks; 0: the next one does."""
        endings = self._endings
        while endings[0][2].finish_step != endings[0][0]:
            heappop(endings)
        steps = endings[0][0] - self.steps
        free, block = self.pool.free, self.limits.block_tokens
        if self._decoding * (steps // block + 1) <= free:
            return steps
        if self._growth_in(steps) <= free:
            return steps
        cycles, free = divmod(free, self._decoding)
        steps = cycles * block
        while (grow := self._growth[(self.steps + steps) % block]) <= free:
            free -= grow
            steps += 1
        return steps

    def _growth_in(self, steps: int) -> int:
        """Blocks that the decoding sequences need in the next ``steps`` steps."""
        block = self.limits.block_tokens
        cycles, rest = divmod(steps, block)
        begin = self.steps % block
        end = begin + rest
        grow = cycles * self._decoding + sum(self._growth[begin:end])
        return grow + sum(self._growth[: end - block]) if end > block else grow

    # ---- one step ----

    def _step(self) -> None:
        preempted = self._make_room()
        decoding, kv_tokens = self._decoding, self._kv_tokens
        self.pool.take(self._growth[self.steps % self.limits.block_tokens])
        chunks: list[Chunk] = []
        computed: list[Sequence] = []
        budget = self.limits.max_step_tokens - decoding
        if self._partial:
            budget -= self._continue_partial(budget, chunks, computed)
        if not preempted:
            budget -= self._admit(budget, chunks, computed)
        if chunks or decoding:
            took_s = self.law.mixed_s(decoding, kv_tokens, chunks)
            self._pass(1, took_s, self.limits.max_step_tokens - budget)
            for sequence in computed:
                self._begin_decoding(sequence)

    def _make_room(self) -> bool:
        """Preempt from the end until the blocks of this step are free; True when anyone had to go."""
        before = self.preemptions
        while self._growth[self.steps % self.limits.block_tokens] > self.pool.free:
            self._preempt(next(reversed(self._running)))
        if self._partial:
            self._make_room_for_chunk(self._partial)
        return self.preemptions > before

    def _make_room_for_chunk(self, sequence: Sequence) -> None:
        decoding_needs = self._growth[self.steps % self.limits.block_tokens]
        chunk = min(self.limits.max_step_tokens - self._decoding, self._uncomputed(sequence))
        if decoding_needs + self._blocks_for(sequence.computed, chunk) > self.pool.free:
            self._preempt(sequence)

    def _continue_partial(self, budget: int, chunks: list[Chunk], computed: list[Sequence]) -> int:
        sequence = self._partial
        assert sequence is not None
        return self._compute(sequence, min(budget, self._uncomputed(sequence)), chunks, computed)

    def _admit(self, budget: int, chunks: list[Chunk], computed: list[Sequence]) -> int:
        """Take from the queue what fits. Returns the tokens of the budget that were used."""
        left = budget
        while left > 0 and self._may_admit():
            sequence = self._waiting[0]
            tokens = sequence.prompt_tokens + sequence.generated
            shared = self._cached_blocks(sequence, tokens)
            cached = len(shared) * self.limits.block_tokens
            chunk = min(left, tokens - cached)
            must_fit = tokens - cached if self.limits.reserve_prompt else chunk
            if self._blocks_for(cached, must_fit) + self.pool.idle(shared) > self.pool.free:
                self._is_blocked = True
                break
            self._waiting.popleft()
            self._enter(sequence, shared)
            left -= self._compute(sequence, chunk, chunks, computed)
        return budget - left

    def _may_admit(self) -> bool:
        if not self._waiting or self._is_blocked:
            return False
        if self._grouping:
            return self._grouping.room(self._waiting, len(self._running), self.now_s) > 0
        return len(self._running) < self.limits.max_sequences

    def _cached_blocks(self, sequence: Sequence, tokens: int) -> tuple[int, ...]:
        """Names of the leading cached blocks. The last token is always computed: it gives the next one."""
        names = sequence.block_hashes
        if not names or not self.limits.prefix_caching:
            return ()
        names = names[: (tokens - 1) // self.limits.block_tokens]
        return names[: self.pool.hits(names)]

    def _enter(self, sequence: Sequence, shared: tuple[int, ...]) -> None:
        self.pool.share(shared)
        sequence.held = list(shared)
        sequence.computed = len(shared) * self.limits.block_tokens
        if sequence.scheduled_s is None:
            sequence.scheduled_s = self.now_s
            sequence.cached_tokens = sequence.computed
        self._running[sequence] = None
        if self._grouping:
            self._grouping.admitted()

    def _compute(self, sequence: Sequence, new: int, chunks: list[Chunk], computed: list[Sequence]) -> int:
        """Put a chunk of a prompt into this step. Returns its tokens."""
        cached = sequence.computed
        self.pool.take(self._blocks_for(cached, new))
        chunks.append((new, cached))
        sequence.computed = cached + new
        block, names = self.limits.block_tokens, sequence.block_hashes
        if names and self.limits.prefix_caching:
            full = min(sequence.computed, sequence.prompt_tokens) // block
            sequence.held += [name for name in names[cached // block : full] if self.pool.name(name)]
        if self._uncomputed(sequence):
            self._partial = sequence
        else:
            self._partial = None
            computed.append(sequence)
        return new

    @staticmethod
    def _uncomputed(sequence: Sequence) -> int:
        return sequence.prompt_tokens + sequence.generated - sequence.computed

    def _blocks_for(self, held_tokens: int, new_tokens: int) -> int:
        block = self.limits.block_tokens
        return -(-(held_tokens + new_tokens) // block) + -held_tokens // block

    # ---- the life of a sequence ----

    def _begin_decoding(self, sequence: Sequence) -> None:
        """Its prompt is computed, and that gave it the next token."""
        if sequence.first_token_s is None:
            sequence.first_token_s = self.now_s
            self._progress.started.append(sequence)
        self.output_tokens += 1
        sequence.origin = self.steps - sequence.generated - 1
        sequence.finish_step = sequence.origin + sequence.output_tokens
        self._decoding += 1
        self._kv_tokens += sequence.computed
        self._growth[self._grows_in(sequence)] += 1
        if sequence.finish_step == self.steps:
            self._finish(sequence)
            return
        self._admissions += 1
        heappush(self._endings, (sequence.finish_step, self._admissions, sequence))

    def _grows_in(self, sequence: Sequence) -> int:
        # It has prompt + out - 1 = steps - origin + prompt - 1 tokens cached, and needs a block in the
        # step that finds a multiple of the block size.
        return (sequence.origin - sequence.prompt_tokens + 1) % self.limits.block_tokens

    def _finish(self, sequence: Sequence) -> None:
        sequence.finished_s = self.now_s
        self._progress.ended.append(sequence)
        self._leave(sequence)

    def _preempt(self, sequence: Sequence) -> None:
        out = self.steps - sequence.origin if sequence.finish_step >= 0 else sequence.generated
        self._leave(sequence)
        sequence.generated = out
        sequence.preemptions += 1
        self.preemptions += 1
        self._waiting.appendleft(sequence)

    def _leave(self, sequence: Sequence) -> None:
        """Out of the batch, with its blocks."""
        tokens = self._tokens_cached(sequence)
        if sequence.finish_step >= 0:
            self._decoding -= 1
            self._kv_tokens -= tokens
            self._growth[self._grows_in(sequence)] -= 1
            sequence.finish_step = -1
        if self._partial is sequence:
            self._partial = None
        del self._running[sequence]
        self._is_blocked = False
        self._free_blocks(sequence, tokens)

    def _tokens_cached(self, sequence: Sequence) -> int:
        if sequence.finish_step < 0:
            return sequence.computed
        return self.steps - sequence.origin + sequence.prompt_tokens - 1

    def _free_blocks(self, sequence: Sequence, tokens: int) -> None:
        block = self.limits.block_tokens
        names = sequence.block_hashes[len(sequence.held) : tokens // block]
        if names and self.limits.prefix_caching:
            # Blocks that the answer has filled since; the next turn of a chat finds them.
            sequence.held += [name for name in names if self.pool.name(name)]
        self.pool.give_back(-(-tokens // block) - len(sequence.held), sequence.held)
        sequence.held = []

    def __repr__(self) -> str:
        return (
            f"<Engine at {self.now_s:.3f} s: {self.running} running, {self.waiting} waiting,"
            f" {self.pool.free} of {self.pool.total} blocks free>"
        )
