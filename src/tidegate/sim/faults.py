"""What goes wrong, and when.

Written ``KIND:key=value,...``, as ``tidegate emulate`` has it: ``slow:factor=3,at=600,for=5m`` or
``kill:at=120,replica=2``. Times are seconds of the trace from its start, or durations. ``replica`` counts those
that serve at that moment, from 0 in order of id; left out, the first. Faults that overlap add up.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
    """It takes requests and gives nothing back until it is over, nor does it answer its health check: a process
    that is stopped. With ``health=1`` it answers that, as when only the GPU hangs; so ``tidegate emulate`` has it."""
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
    health: bool = False

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
        allowed = _KEYS[kind]
        for pair in filter(None, rest.split(",")):
            key, _, value = pair.partition("=")
            if key not in allowed:
                message = f"fault {name} has no {key!r}; allowed are {', '.join(allowed)}"
                raise ValueError(message)
            field, (read, wanted) = _FIELDS[key]
            if field in values:
                message = f"fault {name}: {key} is given twice"
                raise ValueError(message)
            number = read(value)
            if number is None:
                message = f"fault {name}: {key} is {value!r}; it must be {wanted}"
                raise ValueError(message)
            values[field] = number
        return cls(kind=kind, **values)  # type: ignore[arg-type]  # a field has what its reader gives


_LASTING = ("at", "for")
_KEYS: dict[FaultKind, tuple[str, ...]] = dict.fromkeys(FaultKind, _LASTING) | {
    FaultKind.KILL: ("at", "replica"),
    FaultKind.SLOW: (*_LASTING, "replica", "factor"),
    FaultKind.HANG: (*_LASTING, "replica", "health"),
    FaultKind.LEAVE: (*_LASTING, "share", "patience"),
}

_NUMBER = re.compile(r"\d{1,12}(?:\.\d{1,9})?")
_TIME = re.compile(rf"({_NUMBER.pattern})(ms|s|m|h|)")
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(text: str) -> float | None:
    found = _TIME.fullmatch(text)
    return float(found[1]) * _SECONDS[found[2]] if found else None


def _span(text: str) -> float | None:
    return _seconds(text) or None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def _factor(text: str) -> float | None:
    return (float(text) or None) if _NUMBER.fullmatch(text) else None


def _share(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) and float(text) <= 1 else None


def _switch(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


_A_TIME = (_seconds, "seconds such as 600, or a duration such as 10m")
_FIELDS: dict[str, tuple[str, tuple[Callable[[str], float | None], str]]] = {
    "at": ("at_s", _A_TIME),
    "for": ("for_s", (_span, f"more than 0, in {_A_TIME[1]}")),
    "replica": ("replica", (_whole, "a whole number from 0")),
    "factor": ("factor", (_factor, "a number above 0")),
    "share": ("share", (_share, "a number from 0 to 1")),
    "patience": ("patience_s", _A_TIME),
    "health": ("health", (_switch, "0 or 1")),
}
"""A key's field, how it is read (None: it cannot be), and what is allowed."""
