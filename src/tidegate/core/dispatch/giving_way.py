"""Long prompts that have no token yet give way: an engine computes prompts in the order in which it gets them.

A quiet tenant's short prompt that is sent behind a loud one's 8,000 tokens waits until those are computed, whatever
its claim. So the dispatcher takes the long one back and sends it again behind the short one. Nothing of an answer is
lost, since none has come; an engine that keeps prefixes has the computed blocks still (vLLM, SGLang, llama.cpp) and
goes on where it was, and one that does not loses at most ``max_yields`` times what it had computed of that prompt.
"""

from __future__ import annotations

from tidegate.core.dispatch.ledger import Entry, Phase
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.seats import Seat
from tidegate.core.dispatch.waits import SAMPLES_FEW

PATIENCE_S = 0.02
"""A shorter wait behind other prompts is nobody's fault: one step of an engine takes longer."""
LONGER_RATIO = 2.0
"""Whoever gives way has so many times the tokens of whoever is let pass, at least."""


def way_for(line: Line, entry: Entry, seat: Seat | None, now_s: float) -> tuple[Seat, list[Entry]] | None:
    """A replica with less before this entry, and the requests that are to be taken back from it first; None
    when ``seat``, the one chosen for it as things are, is as good."""
    if seat is not None and not seat.opening:
        return None
    most, pace = line.config.max_yields, line.waits.pace
    usual_s = pace.at(0.1)
    if not most or not usual_s or len(pace) < SAMPLES_FEW:
        return None
    if seat is not None and seat.opening * usual_s <= PATIENCE_S:
        return None
    is_light, longer = line.is_light(entry), LONGER_RATIO * entry.arrived.prompt_tokens
    best: tuple[int, int, Seat, list[Entry]] | None = None
    for other in line.seats_for(entry):
        if not other.serves or not other.unbegun or (other.is_held and other.room(now_s) <= 0):
            continue
        if max(other.unbegun.values()) < longer:
            continue  # Asked for at every turn while a line is long, and mostly so.
        there = [other.in_flight[request_id] for request_id in other.unbegun]
        gone = [one for one in there if _gives_way(one, entry, line, most, is_light=is_light)]
        if not gone or other.free + len(gone) <= 0:
            continue
        lost = sum(one.arrived.prompt_tokens for one in gone)
        ahead = other.opening - lost
        if best is None or (ahead, lost) < best[:2]:
            best = ahead, lost, other, gone
    if best is None or (seat is not None and best[0] >= seat.opening):
        return None
    return best[2], best[3]


def _gives_way(one: Entry, entry: Entry, line: Line, most: int, *, is_light: bool) -> bool:
    if one.yields >= most or one.phase is not Phase.SENT or one.hedge_id is not None or one.resumes:
        return False
    if one.arrived.prompt_tokens < LONGER_RATIO * entry.arrived.prompt_tokens:
        return False
    theirs, ours = one.arrived.priority, entry.arrived.priority
    if theirs != ours:
        return theirs < ours
    return is_light and not line.is_light(one)
