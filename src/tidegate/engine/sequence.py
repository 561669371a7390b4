"""What the engine works on, and the limits it works within."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

from tidegate.core.values import value
from tidegate.engine.latency import Chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How an engine was started. The names in brackets are vLLM's."""

    max_sequences: int = 256
    """Sequences in one step [max_num_seqs]."""

    max_step_tokens: int = 2048
    """Tokens computed in one step; longer prompts are cut in chunks [max_num_batched_tokens]."""

    kv_blocks: int = 8192
    """Blocks of the KV cache [num_gpu_blocks]."""

    block_tokens: int = 16
    """Tokens in one block [block_size]."""

    prefix_caching: bool = True
    """Keep the blocks of ended sequences until their room is needed [enable_prefix_caching]."""

    reserve_prompt: bool = True
    """Admit a prompt only when all of it fits, not just its first chunk [scheduler_reserve_full_isl]."""

    async_scheduling: bool = False
    """Compose each step while the one before it runs: who arrives or ends in that one counts a step later
    [async_scheduling, vLLM's default since 2025]."""

    max_adapters: int = 8
    """Different LoRA adapters in one step [max_loras]."""

    adapter_load_s: float = 0.05
    """Loading an adapter onto the GPU. 0.02 s for a small one in vLLM 0.32; 0.084 s in ServerlessLLM
    (arXiv 2401.14351)."""

    host_blocks: int = 0
    """Named blocks that host memory keeps when the GPU needs their room; 0: no host tier."""

    host_block_load_s: float = 0.0
    """Bringing one of them back."""

    def problems(self) -> Iterator[str]:
        """Why these limits cannot work, one sentence each."""
        for name in ("max_sequences", "max_step_tokens", "kv_blocks", "block_tokens", "max_adapters"):
            if getattr(self, name) < 1:
                yield f"{name} is {getattr(self, name)}; it must be at least 1"
        for name in ("adapter_load_s", "host_blocks", "host_block_load_s"):
            if getattr(self, name) < 0:
                yield f"{name} is {getattr(self, name):g}; it must be at least 0"
        if self.max_step_tokens < self.max_sequences:
            yield (
                f"max_step_tokens is {self.max_step_tokens}; it must be at least max_sequences"
                f" ({self.max_sequences}), or some sequence would never get its token"
            )


class Sequence:
    """One prompt and the tokens generated for it.

    The caller makes it and reads the moments; the engine alone writes them. A moment is None until
    it has come.
    """

    __slots__ = (
        "adapter",
        "block_hashes",
        "cached_tokens",
        "computed",
        "finish_step",
        "finished_s",
        "first_token_s",
        "generated",
        "held",
        "key",
        "origin",
        "output_tokens",
        "padded_output",
        "padded_prompt",
        "preemptions",
        "prompt_tokens",
        "queued_s",
        "scheduled_s",
        "seen_step",
    )

    def __init__(
        self,
        key: Hashable,
        prompt_tokens: int,
        output_tokens: int,
        block_hashes: tuple[int, ...] = (),
        adapter: Hashable | None = None,
    ) -> None:
        if prompt_tokens < 1 or output_tokens < 1:
            message = (
                f"{key}: {prompt_tokens} prompt and {output_tokens} output tokens; both must be at least 1"
            )
            raise ValueError(message)
        self.key = key
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.block_hashes = block_hashes
        """Chained hashes of the full blocks, prompt first; those of the answer may follow."""
        self.adapter = adapter
        """The LoRA adapter it needs; None for the base model."""
        self.queued_s: float | None = None
        self.scheduled_s: float | None = None
        """When it first entered a step."""
        self.first_token_s: float | None = None
        self.finished_s: float | None = None
        self.cached_tokens = 0
        """Prompt tokens found in the prefix cache when it was first admitted."""
        self.preemptions = 0
        # The engine's own bookkeeping.
        self.seen_step = 0  # while waiting: steps that must have begun before it is seen
        self.generated = 0  # while waiting or prefilling: tokens that came out before a preemption
        self.computed = 0  # while prefilling: tokens in the KV cache
        self.padded_prompt = prompt_tokens  # as long as they are computed: in a group, the longest
        self.padded_output = output_tokens
        self.held: list[int] = []  # hashes of cached blocks that it uses
        self.origin = 0  # while decoding: step number minus tokens out
        self.finish_step = -1  # while decoding: the step that gives its last token

    def __repr__(self) -> str:
        return (
            f"<Sequence {self.key}: {self.prompt_tokens} in, {self.output_tokens} out,"
            f" first token {self.first_token_s}, finished {self.finished_s}>"
        )


class Step:
    """What one step consists of besides its decoding sequences. There is one, used again and again."""

    __slots__ = ("budget", "chunks", "computed", "load_s")

    def __init__(self) -> None:
        self.budget = 0
        """Tokens that could still be computed in it."""
        self.chunks: list[Chunk] = []
        self.computed: list[Sequence] = []
        """Those whose prompts it completes."""
        self.load_s = 0.0
        """Loading adapters, and blocks from the host."""

    def clear(self) -> None:
        """Take the prompts out."""
        self.chunks.clear()
        self.computed.clear()
        self.load_s = 0.0


@value
class Progress:
    """What has happened since the last look, each list in order of time."""

    started: list[Sequence]
    """Their first token is out."""
    ended: list[Sequence]
    """All their tokens are out."""
