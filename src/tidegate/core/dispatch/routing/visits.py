"""What the router remembers of one request at one replica, and of prompts that were computed together."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.core.dispatch.prefix import Chain


class Recalled(NamedTuple):
    """What was thought of a visit's beginning when it was sent, to be compared with what the engine says."""

    depth: int
    """Blocks that the index said were there."""
    last_use: int
    """When the last of them had been used there, and the tokens written there since."""
    since: float
    first: int
    """Leading blocks that had been used since then."""
    was_in_use: bool
    """Another request in flight there held them."""


class Visit:
    """One attempt: a request at a replica, from being sent to leaving it."""

    __slots__ = (
        "adapter_s",
        "began_s",
        "beside_s",
        "cached",
        "chain",
        "depth",
        "law_s",
        "prompt_tokens",
        "recalled",
        "run",
        "sent_s",
        "sequences",
        "work_s",
    )

    def __init__(self, chain: Chain, prompt_tokens: float, sent_s: float) -> None:
        self.chain = chain
        self.prompt_tokens = prompt_tokens
        self.cached = 0.0
        """Of these, expected to be in the replica's cache."""
        self.sent_s = sent_s
        self.work_s = self.law_s = 0.0
        """How long its prompt was expected to take; and on a replica that is as its kind's law says."""
        self.adapter_s = 0.0
        """The part of it that was for its adapter."""
        self.began_s: float | None = None
        self.beside_s = 0.0
        """What the replica had spent on prompts by then."""
        self.run: Run | None = None
        """None also when enough is learned from others."""
        self.sequences: int
        """In flight at the replica when it began; set with ``run``."""
        self.depth = 0
        """Blocks of its chain that the index said were there."""
        self.recalled: Recalled | None = None

    def __repr__(self) -> str:
        return f"<Visit {self.prompt_tokens:.0f} tokens, {self.cached:.0f} cached, since {self.sent_s:.3f}>"


class Run:
    """Prompts that were computed one after the other without a pause, from the first one sent to the last begun.

    Engines fill each step up with the beginning of the next prompt, so only a whole run shows how long its prompts
    took. It becomes one sample once every member has said how many tokens its prompt really had.
    """

    __slots__ = (
        "area",
        "began_s",
        "drag_s",
        "expected_s",
        "is_spoilt",
        "kv_tokens",
        "open",
        "prompts",
        "tokens",
        "took_s",
    )

    def __init__(self, began_s: float, drag_s: float) -> None:
        self.began_s = began_s
        self.drag_s = drag_s
        """What the sequences beside them added to each step."""
        self.took_s: float | None = None
        """None until the last has begun."""
        self.open = 0
        self.prompts = 0
        self.tokens = self.area = 0.0
        self.expected_s = 0.0
        self.kv_tokens = 0.0
        """The most that was in memory when one of them began."""
        self.is_spoilt = False
        """Something else was in the way, so it teaches nothing."""

    def __repr__(self) -> str:
        return f"<Run of {self.prompts} prompts, {self.open} open, took {self.took_s}>"

    def join(self, expected_s: float, kv_tokens: float) -> None:
        """One more has begun, which was expected to take so long; so much is in memory with it."""
        self.kv_tokens = max(self.kv_tokens, kv_tokens)
        self.open += 1
        self.prompts += 1
        self.expected_s += expected_s

    def tell(self, new: float, cached: float) -> bool:
        """One member's real tokens. True when nothing is missing any more."""
        self.open -= 1
        self.tokens += new
        self.area += new * (cached + 0.5 * new)
        return self.open == 0 and self.took_s is not None and not self.is_spoilt

    def spoil(self) -> None:
        """One member ended without saying."""
        self.open -= 1
        self.is_spoilt = True
