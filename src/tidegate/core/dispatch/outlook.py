"""How long requests that wait in a line will wait, from what its slots have shown.

A slot is held for so long at the mean, so the slots there are take so many tokens a second from the queue. While more
slots may come that is not the whole truth: whoever arrives with a flood that the fleet is about to grow for would be
told of the wait at the few replicas that serve now. So slots that can come count from the moment they can.
"""

from __future__ import annotations

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.line import Line


def rate(line: Line, now_s: float) -> float | None:
    """Expected tokens a second that leave the queue for the slots there are; None when not known."""
    held_s, work = line.waits.hold_s(now_s), line.queue.mean_work
    return None if held_s is None or not work or not line.slots else line.slots * work / held_s


def wait_s(line: Line, entry: Entry, now_s: float, kept_tokens: float = 0.0) -> float | None:
    """How long a newcomer will wait: for those before it, for ``kept_tokens`` of promised places, and for a slot.
    None when that is not known."""
    present = rate(line, now_s)
    if present is None:
        return None
    ahead = line.queue.ahead(entry) + (line.queue.mean_work or 0.0) + kept_tokens
    more = 0 if line.route is None else line.route.growth_slots
    if not more:
        return ahead / present
    grows_in_s = _grows_in_s(line, now_s)
    if grows_in_s is None:
        return None
    left = ahead - present * grows_in_s
    if left <= 0.0:
        return ahead / present
    return grows_in_s + left * line.slots / (present * (line.slots + more))


def clears_s(line: Line, now_s: float) -> float:
    """Until those who wait now have been sent to the slots there are; 0 when that is not known."""
    present = rate(line, now_s)
    return 0.0 if present is None else line.queue.work / present


def share_of_usual(line: Line, entry: Entry) -> float:
    """Of the usual time that a slot is held, what an answer that may not be as long as usual takes."""
    limit, usual = entry.arrived.max_output_tokens, line.queue.usual_tokens
    if limit is None or usual is None or limit >= usual:
        return 1.0
    return (1.0 + limit) / (1.0 + usual)


def _grows_in_s(line: Line, now_s: float) -> float | None:
    """Until the first of the slots that may come is there; None when that is not known."""
    coming = [ready_s for seat in line.seats if (ready_s := seat.route.expected_ready_s) is not None]
    if coming:
        return max(0.0, min(coming) - now_s)
    return None if line.route is None else line.route.growth_s
