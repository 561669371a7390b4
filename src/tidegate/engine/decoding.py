"""The sequences that decode, kept as sums.

Each of them gets one token and caches one token in every step, so between two changes of the batch only
three numbers matter: how many there are, how many tokens they have cached together, and how many of
them need another block in which step. None of it costs work per sequence or per token.

A sequence's *origin* is the step after which it had no token yet, had it always decoded. With it,
tokens out are ``steps - origin``, tokens cached ``steps - origin + prompt - 1`` (the newest token is
not cached yet), and the last step is ``origin + output``.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from tidegate.engine.sequence import Sequence

NEVER = 1 << 62
"""A step that does not come."""

_NOBODY: tuple[Sequence, ...] = ()


class Decoding:
    """Owns the step counter, and what changes with it."""

    __slots__ = (
        "_block",
        "_endings",
        "_left",
        "_next_end",
        "count",
        "entered",
        "growth",
        "kv_tokens",
        "steps",
    )

    def __init__(self, block_tokens: int) -> None:
        self.steps = 0
        self.count = 0
        self.kv_tokens = 0
        self._left = 0  # tokens of those who have left, less those that all had when they came
        self.entered = 0
        """How often one has begun to decode."""
        self._block = block_tokens
        self.growth = [0] * block_tokens
        """Sequences by the step, modulo block, that needs their next block."""
        self._endings: list[tuple[int, int, Sequence]] = []  # heap of (last step, entry, sequence)
        self._next_end = NEVER  # the heap's first step

    @property
    def decoded(self) -> int:
        """Tokens that all steps together have given to decoding sequences."""
        return self.kv_tokens + self._left

    def enter(self, sequence: Sequence) -> None:
        """It has got a token in the step just made, and decodes from now on."""
        origin = self.steps - sequence.generated - 1
        sequence.origin = origin
        sequence.finish_step = origin + sequence.padded_output
        self.count += 1
        self.kv_tokens += sequence.computed
        self._left -= sequence.computed
        self.growth[(origin - sequence.padded_prompt + 1) % self._block] += 1
        self.entered += 1
        heappush(self._endings, (sequence.finish_step, self.entered, sequence))
        self._next_end = self._endings[0][0]

    def leave(self, sequence: Sequence) -> int:
        """It decodes no more. Returns the tokens it has cached."""
        cached = self.cached(sequence)
        self.count -= 1
        self.kv_tokens -= cached
        self._left += cached
        self.growth[(sequence.origin - sequence.padded_prompt + 1) % self._block] -= 1
        sequence.finish_step = -1
        return cached

    def cached(self, sequence: Sequence) -> int:
        """Tokens of a decoding sequence in the KV cache."""
        return self.steps - sequence.origin + sequence.padded_prompt - 1

    def pass_steps(self, steps: int) -> Iterable[Sequence]:
        """So many steps were made. Returns those that got their last token, in order of entry."""
        self.kv_tokens += steps * self.count
        now = self.steps = self.steps + steps
        if now < self._next_end:
            return _NOBODY
        endings = self._endings
        done: list[Sequence] = []
        while endings and endings[0][0] <= now:
            last_step, _, sequence = heappop(endings)
            # Else it left before. One that left and was back in the very next step stands here twice.
            if sequence.finish_step == last_step and sequence not in done:
                done.append(sequence)
        self._next_end = endings[0][0] if endings else NEVER
        return done

    def steps_to_end(self) -> int:
        """Steps until the first of them has all its tokens."""
        endings = self._endings
        while endings[0][2].finish_step != endings[0][0]:
            heappop(endings)
        self._next_end = endings[0][0]
        return self._next_end - self.steps

    def grow_in(self, steps: int) -> int:
        """Blocks needed in the next ``steps`` steps together."""
        block, growth = self._block, self.growth
        if steps == 1:
            return growth[self.steps % block]
        cycles, rest = divmod(steps, block)
        begin = self.steps % block
        end = begin + rest
        blocks = cycles * self.count + sum(growth[begin:end])
        return blocks + sum(growth[: end - block]) if end > block else blocks

    def steps_within(self, free: int, steps: int) -> int:
        """How many of the next ``steps`` steps ``free`` blocks are enough for."""
        if self.count * (steps // self._block + 1) <= free or self.grow_in(steps) <= free:
            return steps
        cycles, free = divmod(free, self.count)
        enough = cycles * self._block
        while (grow := self.growth[(self.steps + enough) % self._block]) <= free:
            free -= grow
            enough += 1
        return enough
