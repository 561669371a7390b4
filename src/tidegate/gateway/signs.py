"""What an engine's answer says about itself: whether it failed or broke off.

Marks are looked for in raw bytes. Inside JSON a quotation mark and a line break are escaped, so no text
that a model writes can pass for one.
"""

from __future__ import annotations

import re

from tidegate.adapters.base import Manners
from tidegate.core.events import Failure

ERROR_HINT = b"error"
"""Only events with this in them are searched for the following; it costs a tenth of that."""
ERROR_EVENT = re.compile(rb'[\r\n](?:data: ?\{"error": ?[^n][^\r\n]*|event: ?error[\r\n])')
"""How engines say inside a stream that it failed. The client gets our error event in its place."""
CLIENTS_FAULT = re.compile(rb'"code": ?"?4[0-9][0-9]\b')
"""Inside such an event: the request was at fault, and the engine's own words are the better ones."""

ERROR_READ_MAX = 64 * 1024
"""Of an error's body that is read for its reason."""

PASSED_ON = frozenset({501})
"""Of the statuses above 499: the engine cannot do this at all, and neither can its peers."""
NOT_THE_CLIENTS_FAULT = frozenset({401, 403, 407})
"""Of the statuses below 500: the engine does not know *us*."""


def failure_of(status: int, manners: Manners) -> Failure | None:
    """How the attempt failed, if this status means that it did; None when the answer is to be passed on."""
    if status < 300:
        return None
    if status in manners.busy_statuses:
        return Failure.BUSY
    if status in manners.failed_statuses or status < 400 or status in NOT_THE_CLIENTS_FAULT:
        return Failure.ERROR
    return Failure.ERROR if status >= 500 and status not in PASSED_ON else None


def abort_in(events: bytes, manners: Manners) -> bytes | None:
    """The mark in these events that says that the engine broke off; None when there is none."""
    for mark in manners.abort_marks:
        if mark in events:
            return mark
    if ERROR_HINT not in events:
        return None
    match = ERROR_EVENT.search(b"\n" + events)
    if match is None or CLIENTS_FAULT.search(match[0]) is not None:
        return None
    return match[0][1:]


class ErrorBody:
    """The body of an error, gathered for its words: they may say that the engine took nothing on."""

    __slots__ = ("_busy_marks", "_failure", "_held")

    def __init__(self, failure: Failure, manners: Manners) -> None:
        self._failure = failure
        self._busy_marks = manners.busy_marks
        self._held = b""

    def add(self, out: bytes, *, ended: bool) -> bool:
        """Take more of it; True when enough is known."""
        self._held += out
        return ended or len(self._held) > ERROR_READ_MAX

    @property
    def failure(self) -> Failure:
        """How the attempt failed, by the status and by what has come of the body."""
        return Failure.BUSY if any(mark in self._held for mark in self._busy_marks) else self._failure
