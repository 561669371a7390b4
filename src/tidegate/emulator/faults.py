"""Faults on order: what can be wrong with an emulated engine, and with which request.

Written ``KIND:key=value,...``, such as ``slow:factor=5,for=30s`` or ``cut:after_tokens=5,every=3``.
Durations are on the wall clock, whatever the time scale. A fault begins at once, or ``after`` so many
requests or so long; it lasts ``for`` so long, or until it is cleared. Faults of a request hit each one,
or ``every`` so many: ``every=3`` the third, the sixth and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from tidegate.emulator import specs


class FaultKind(Enum):
    """What goes wrong."""

    SLOW = "slow"
    """Steps take ``factor`` times as long."""
    HANG = "hang"
    """No token comes any more, while health and metrics still answer."""
    CRASH = "crash"
    """The process is gone."""
    REFUSE = "refuse"
    """New connections are refused."""
    CUT = "cut"
    """The connection ends in the middle of the answer."""
    ABORT = "abort"
    """The answer ends early with ``finish_reason: "abort"`` and ``[DONE]``, as if all were well."""
    STATUS = "status"
    """An error status instead of an answer."""
    SILENT = "silent"
    """The request is taken, and not a byte comes back."""
    LORA = "lora"
    """LoRA adapters cannot be loaded: an error status instead."""


OF_A_REQUEST = frozenset({FaultKind.CUT, FaultKind.ABORT, FaultKind.STATUS, FaultKind.SILENT})

_WHEN: dict[str, specs.Read] = {"after": specs.count_or_duration, "for": specs.duration}
_WHICH: dict[str, specs.Read] = {**_WHEN, "every": specs.count}
_KEYS: Mapping[FaultKind, Mapping[str, specs.Read]] = {
    FaultKind.SLOW: {"factor": specs.factor, **_WHEN},
    FaultKind.HANG: _WHEN,
    FaultKind.CRASH: {"after": specs.count_or_duration},
    FaultKind.REFUSE: _WHEN,
    FaultKind.CUT: {"after_tokens": specs.count, **_WHICH},
    FaultKind.ABORT: {"after_tokens": specs.count, **_WHICH},
    FaultKind.STATUS: {"code": specs.status, **_WHICH},
    FaultKind.SILENT: _WHICH,
    FaultKind.LORA: {"code": specs.status, **_WHEN},
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as ordered."""

    kind: FaultKind
    after_requests: int = 0
    after_s: float = 0.0
    for_s: float | None = None
    """None: until it is cleared."""
    every: int = 1
    factor: float = 5.0
    after_tokens: int = 1
    code: int = 503

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
        values = specs.fields(f"fault {name}", rest, _KEYS[kind])
        after = values.pop("after", 0)
        values["after_s" if isinstance(after, float) else "after_requests"] = after
        if "for" in values:
            values["for_s"] = values.pop("for")
        return cls(kind, **values)


class Ordered:
    """A fault and how far it has come. Owned by the board."""

    def __init__(self, fault: Fault, received: int) -> None:
        self.fault = fault
        self.is_active = False
        self._received_before = received
        self._met = 0

    def is_due_at(self, received: int) -> bool:
        """True when the request just received is the first beyond those that it lets pass."""
        passes = self.fault.after_requests
        return not self.is_active and 0 < passes < received - self._received_before

    def meets(self) -> bool:
        """Count one request while it is active; True when it hits this one."""
        self._met += 1
        return self._met % self.fault.every == 0


def most_tokens(tokens: int, fault: Fault | None) -> int:
    """How many of an answer's tokens come out under a fault of its request."""
    if fault and fault.kind in (FaultKind.CUT, FaultKind.ABORT):
        return min(tokens, fault.after_tokens)
    return tokens
