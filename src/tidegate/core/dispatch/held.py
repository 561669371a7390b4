"""Amounts of waiting work, and the bounds that they are held to."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.settings import QueueLimits


@dataclass(slots=True)
class Held:
    """An amount of waiting work, in the three ways in which it is bounded."""

    requests: int = 0
    tokens: int = 0
    bytes: int = 0

    def add(self, entry: Entry, sign: int = 1) -> None:
        """One entry more, or with -1 one fewer."""
        self.requests += sign
        self.tokens += sign * entry.tokens
        self.bytes += sign * entry.arrived.body_bytes

    def without(self, part: Held) -> Held:
        """What is left of it without a part."""
        if not part.requests:
            return replace(self)
        return Held(self.requests - part.requests, self.tokens - part.tokens, self.bytes - part.bytes)


NOTHING = Held()


def over(
    held: Held, entry: Entry, limits: QueueLimits, share: float, promised: Held, whose: str
) -> str | None:
    """Which bound the entry would break on top of what is held."""
    requests, tokens = max(1, int(limits.max_requests * share)), int(limits.max_tokens * share)
    size = int(limits.max_bytes * share)
    kept = (
        f", and {promised.requests} places are kept for those told to come back" if promised.requests else ""
    )
    if held.requests + promised.requests >= requests:
        return f"{held.requests} requests{whose} are queued and max_requests is {requests}{kept}"
    if held.tokens + promised.tokens + entry.tokens > tokens:
        return f"{held.tokens} tokens{whose} are queued and max_tokens is {tokens}{kept}"
    if held.bytes + promised.bytes + entry.arrived.body_bytes > size:
        return f"{held.bytes} bytes{whose} are queued and max_bytes is {size}{kept}"
    return None
