"""How long a block lives in one replica's cache: what is not used goes when enough else has been written.

An engine's cache forgets the least recently used, so a block's life is a number of tokens written since its last use.
That number is learned: a beginning that was still there lived at least as long, one that was gone lived less.
"""

from __future__ import annotations

from collections import deque

from tidegate.core.dispatch.prefix import stamp_of

LIFE_STEP = 0.25
MARKS = 256
MARK_TOKENS = 2_000


class CacheLife:
    """Of one replica. Its ``horizon`` is a moment: blocks not used since are gone."""

    __slots__ = ("_marks", "_written", "horizon", "life_tokens")

    def __init__(self, now_s: float) -> None:
        self.horizon = stamp_of(now_s)
        self.life_tokens: float | None = None
        """Tokens that may be written before an unused block is gone; None until one was gone."""
        self._written = 0.0
        self._marks: deque[tuple[int, float]] = deque([(self.horizon, 0.0)], maxlen=MARKS)

    def __repr__(self) -> str:
        return f"<CacheLife life={self.life_tokens} written={self._written:.0f} horizon={self.horizon}>"

    def write(self, tokens: float, now_s: float) -> None:
        """So many tokens are put into the cache, and push out what was not used for longest."""
        self._written += tokens
        if self._written - self._marks[-1][1] >= MARK_TOKENS:
            self._marks.append((stamp_of(now_s), self._written))
            self._pass_on()

    def lived(self, since: int) -> None:
        """A block last used then was still there."""
        life = self._written_since(since)
        if self.life_tokens is not None and life > self.life_tokens:
            self.life_tokens += LIFE_STEP * (life - self.life_tokens)

    def died(self, since: int) -> None:
        """A block last used then was gone, and so is all that was not used since."""
        life = self._written_since(since)
        self.horizon = max(self.horizon, since + 1)
        if self.life_tokens is None:
            self.life_tokens = life
        elif life < self.life_tokens:
            self.life_tokens += LIFE_STEP * (life - self.life_tokens)
        self._pass_on()

    def _written_since(self, stamp: int) -> float:
        for at, written in reversed(self._marks):
            if at <= stamp:
                return self._written - written
        return self._written - self._marks[0][1]

    def _pass_on(self) -> None:
        """Move the horizon to where a whole life has been written since."""
        if self.life_tokens is None:
            return
        gone, marks = self._written - self.life_tokens, self._marks
        while len(marks) > 1 and marks[1][1] <= gone:
            marks.popleft()
        if marks[0][1] <= gone:
            self.horizon = max(self.horizon, marks[0][0])
