"""How long a block lives in one replica's cache: what is not used goes when enough else has been written.

An engine's cache is what running requests leave of its memory, and forgets the least recently used. A block that was
let go of when ``free`` tokens of memory were free is gone when ``free`` more have been written; that is, when

    written since then + memory in use then > the whole memory

The left side is counted here; the right side is learned: a beginning that was still there says that it is more, one
that was gone says that it is less. Since the counts are not exact, what is known is a chance.
"""

from __future__ import annotations

from bisect import bisect_right
from math import exp

from tidegate.core.dispatch.prefix import stamp_of

LEARN_STEP = 0.15
SHARPNESS = 7
"""At two thirds of the usual life all but one block in seventeen are still there, at one and a half times one is."""
MARKS = 256
MARK_TOKENS = 2_000


class CacheLife:
    """Of one replica."""

    __slots__ = ("_at", "_marks", "_written", "horizon", "life_tokens")

    def __init__(self, now_s: float) -> None:
        self.horizon = stamp_of(now_s)
        """Blocks not used since this moment are gone for certain: it is empty at first, and after a restart."""
        self.life_tokens: float | None = None
        """The whole memory: at this sum half of the blocks are gone. None until one was gone."""
        self._written = 0.0
        self._at = [self.horizon]
        self._marks = [0.0]
        """What had been written, less what was in use then."""

    def __repr__(self) -> str:
        return f"<CacheLife life={self.life_tokens} written={self._written:.0f}>"

    def write(self, tokens: float, in_use: float, now_s: float) -> None:
        """So many tokens are written, and requests there hold so many now."""
        self._written += tokens
        start = self._written - in_use
        step = MARK_TOKENS if self.life_tokens is None else max(MARK_TOKENS, self.life_tokens / MARKS)
        if abs(start - self._marks[-1]) >= step:
            self._at.append(stamp_of(now_s))
            self._marks.append(start)
            if len(self._at) > 4 * MARKS:
                del self._at[: 2 * MARKS], self._marks[: 2 * MARKS]

    def chance(self, last_use: int, ahead: float) -> float:
        """That a block last used then is still there when ``ahead`` tokens more have been written."""
        if last_use < self.horizon:
            return 0.0
        if self.life_tokens is None:
            return 1.0
        return 1.0 / (1.0 + ((self.since(last_use) + ahead) / self.life_tokens) ** SHARPNESS)

    def told(self, gone_before: int) -> None:
        """The engine says that what was last used before this moment is gone.

        It does not say that the rest is there: its own last use of a block may be older than the last one we know of
        when a request was cancelled, so the learned chance goes on to hold for what is younger.
        """
        self.horizon = max(self.horizon, gone_before)

    def learn(self, last_use: int, since: float, survived: float) -> None:
        """Of a beginning last used then, and asked for when ``since`` had been written, this share was still there."""
        life_tokens = self.life_tokens
        if life_tokens is None:
            if survived >= 0.5:
                return
            self.life_tokens = max(MARK_TOKENS, since)
        else:
            expected = 1.0 / (1.0 + (since / life_tokens) ** SHARPNESS)
            self.life_tokens = max(1.0, life_tokens * exp(LEARN_STEP * (survived - expected)))
        if survived == 0.0 and (life_tokens is None or since < 0.5 * life_tokens):
            # Nothing left of what was thought young: what is older is gone as well, and perhaps the engine began anew.
            self.horizon = max(self.horizon, last_use + 1)

    def since(self, stamp: int) -> float:
        """The left side. What is longer ago than all that is remembered counts as all of it."""
        place = max(0, bisect_right(self._at, stamp) - 1)
        return self._written - self._marks[place]
