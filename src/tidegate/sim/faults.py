"""What goes wrong, and when.

Written ``KIND:key=value,...``, as ``tidegate emulate`` has it: ``slow:factor=3,at=600,for=300`` or
``kill:at=120,replica=2``. Times are simulated seconds from the start of the trace. ``replica`` counts those
that serve at that moment, from 0 in order of id; left out, the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf


class FaultKind(Enum):
    """What goes wrong."""

    KILL = "kill"
    """The engine's process dies; its connections are cut."""
    SLOW = "slow"
    """Its steps take ``factor`` times as long."""
    HANG = "hang"
    """It takes requests and gives nothing back until it is over."""
    NEVER_READY = "never-ready"
    """Replicas launched in this time do not become ready, and say nothing."""
    CRASH_LOOP = "crash-loop"
    """Replicas launched in this time die at the end of their start."""
    NO_METRICS = "no-metrics"
    """No page of metrics arrives."""
    STALE_METRICS = "stale-metrics"
    """The last page arrives again and again."""
    NAN_METRICS = "nan-metrics"
    """The pages are full of NaN."""
    NO_REPORTS = "no-reports"
    """The gateway's reports do not reach the controller."""
    LEAVE = "leave"
    """A ``share`` of the clients that come in this time leave after ``patience`` seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. Those that hit a moment ignore ``for_s``."""

    kind: FaultKind
    at_s: float = 0.0
    for_s: float = inf
    replica: int = 0
    factor: float = 5.0
    share: float = 1.0
    patience_s: float = 10.0

    def is_on(self, now_s: float) -> bool:
        """True while it lasts."""
        return self.at_s <= now_s < self.at_s + self.for_s

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Read ``KIND:key=value,...``.

        Raises:
            ValueError: it cannot be read; the message says what is allowed.
        """
        name, _, rest = text.strip().partition(":")
        try:
            kind = FaultKind(name)
        except ValueError:
            message = f"fault is {name!r}; allowed are {', '.join(kind.value for kind in FaultKind)}"
            raise ValueError(message) from None
        values: dict[str, float] = {}
        for pair in filter(None, rest.split(",")):
            key, _, value = pair.partition("=")
            if key not in _KEYS:
                message = f"fault {name} has no {key!r}; allowed are {', '.join(_KEYS)}"
                raise ValueError(message)
            values[key] = _number(name, key, value)
        return cls(
            kind=kind,
            at_s=values.get("at", 0.0),
            for_s=values.get("for", inf),
            replica=int(values.get("replica", 0)),
            factor=values.get("factor", 5.0),
            share=values.get("share", 1.0),
            patience_s=values.get("patience", 10.0),
        )


_KEYS = ("at", "for", "replica", "factor", "share", "patience")


def _number(fault: str, key: str, text: str) -> float:
    try:
        number = float(text.removesuffix("s"))
    except ValueError:
        number = -1.0
    if not 0 <= number < inf:
        message = f"fault {fault}: {key} is {text!r}; it must be a number of 0 or more"
        raise ValueError(message)
    return number
