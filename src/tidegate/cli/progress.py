"""How far long work is, where nobody looks at a bar: a line now and then, for the log of whatever runs the command."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

SHARE = 0.1
LEAST_S = 10.0
"""Between two lines, however fast it goes: short work says nothing."""
MOST_S = 30.0


def _to_stderr(line: str) -> None:
    click.echo(line, err=True)


class Lines:
    """Says on standard error how much of some work is done: at each tenth of it, but not more often than every ten seconds;
    and after half a minute in any case, as soon as there is something to say."""

    def __init__(
        self,
        what: str,
        say: Callable[[str], None] = _to_stderr,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._say = say
        self._clock_s = clock_s
        self._began_s = self._said_s = clock_s()
        self._said = 0.0

    def __repr__(self) -> str:
        return f"<Lines {self._what} {self._said:.0%}>"

    def show(self, share: float) -> None:
        """So much of it is done, from 0 to 1."""
        now_s = self._clock_s()
        passed_s = now_s - self._said_s
        if passed_s < LEAST_S or (share < self._said + SHARE and passed_s < MOST_S):
            return
        self._said, self._said_s = share, now_s
        took_s = now_s - self._began_s
        rest = f", about {took_s * (1.0 - share) / share:.0f} s to go" if 0.0 < share < 1.0 else ""
        self._say(f"{self._what}: {share:.0%} in {took_s:.0f} s{rest}")
