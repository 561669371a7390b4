"""Free slots are filled from the front of a line: whose turn it is, who may go in its place, who is set aside."""

from __future__ import annotations

from tidegate.core.dispatch import admission, choosing, outlook
from tidegate.core.dispatch.floor import DispatchEffect, Floor
from tidegate.core.dispatch.giving_way import way_for
from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.line import Line
from tidegate.core.dispatch.routing.cost import Choice
from tidegate.core.outcomes import Outcome


def fill(floor: Floor, line: Line, now_s: float) -> list[DispatchEffect]:
    """Fill free slots from the front of the line. Who has no time left for an answer is not sent.

    Whose turn it is and whose adapter only replicas without room have, or none, is set aside and keeps its turn
    there: it holds up nobody whom the others can serve.
    """
    queue = line.queue
    effects = _fill_aside(floor, line, now_s) if queue.aside else []
    while (first := queue.first(now_s)) is not None:
        entry = first
        if entry.arrived.deadline_s - now_s < line.waits.least_service_s() * outlook.share_of_usual(
            line, entry
        ):
            effects += floor.expire(entry, line, now_s)
            continue
        orders = place(floor, entry, line, now_s)
        if orders is None and line.tenants.count > 1:
            entry, orders = _place_other(floor, entry, line, now_s)
        if orders is None and line.is_held_up_by(first, now_s):
            effects += refuse_adapter(floor, first, line, now_s) or _set_aside(floor, first, line, now_s)
            continue
        if orders is None:
            break
        queue.take(entry)
        effects += orders
    return effects


def _place_other(
    floor: Floor, entry: Entry, line: Line, now_s: float
) -> tuple[Entry, list[DispatchEffect] | None]:
    """Send somebody else's entry, since this one may not take what is free. Only one that has less in flight, or is
    shorter than all that were tried, can be better off."""
    is_light, shortest = line.is_light(entry), entry.arrived.prompt_tokens
    for other in line.queue.others(entry):
        tokens, other_is_light = other.arrived.prompt_tokens, line.is_light(other)
        if tokens < shortest or (other_is_light and not is_light):
            orders = place(floor, other, line, now_s)
            if orders is not None:
                return other, orders
            is_light, shortest = is_light or other_is_light, min(shortest, tokens)
    return entry, None


def _fill_aside(floor: Floor, line: Line, now_s: float) -> list[DispatchEffect]:
    effects: list[DispatchEffect] = []
    for entry in line.queue.aside.in_order():
        orders = place(floor, entry, line, now_s)
        if orders is not None:
            line.queue.take(entry)
            effects += orders
    return effects


def _set_aside(floor: Floor, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect]:
    """Its turn has come. The controller hears at once of an adapter that nobody has."""
    known = line.adapters_awaited()
    line.queue.set_aside(entry)
    return [] if line.adapters_awaited() == known else [floor.report(now_s)]


def refuse_adapter(floor: Floor, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect] | None:
    """End an entry whose adapter is not to be had; None when it is, or may be soon."""
    adapter, configured = entry.arrived.adapter, line.config.adapters
    if adapter is None:
        return None
    outcome, retry_after_s = Outcome.REJECTED_UNKNOWN_MODEL, None
    because = f"the model {line.model!r} has no adapter {adapter!r} any more"
    if configured is None or adapter in configured:
        troubles = line.route.troubles if line.route is not None else ()
        trouble = next((told for told in troubles if told.adapter == adapter), None)
        if trouble is None:
            return None
        outcome, because = Outcome.REJECTED_NOBODY, trouble.because
        retry_after_s = admission.retry_after_nobody(trouble.until_s, now_s)
    if entry.resumes:
        outcome, retry_after_s = Outcome.FAILED_MIDSTREAM, None
    return floor.turn_away(entry, outcome, because, now_s, retry_after_s)


def refuse_adapters(floor: Floor, line: Line, now_s: float) -> list[DispatchEffect]:
    """The same for all who wait."""
    if line.config.adapters is None and (line.route is None or not line.route.troubles):
        return []
    asking = [entry for entry in line.queue if entry.arrived.adapter is not None]
    effects: list[DispatchEffect] = []
    for entry in sorted(asking, key=lambda entry: entry.number):
        effects += refuse_adapter(floor, entry, line, now_s) or []
    return effects


def place(floor: Floor, entry: Entry, line: Line, now_s: float) -> list[DispatchEffect] | None:
    """Send the entry to the replica that is best for it; None when all are taken.

    Where tenants or classes compete, longer prompts that have no token yet may have to give way.
    """
    seat = choosing.choose(line, entry, now_s)
    way = way_for(line, entry, seat, now_s) if line.tenants.is_contested else None
    if way is not None:
        seat = way[0]
    if seat is not None and entry.request_id == floor.asked_about:
        floor.choices.append(Choice(now_s, seat.replica_id, tuple(choosing.explain(line, entry, now_s))))
    if way is None:
        return None if seat is None else [floor.seat(entry, line, seat, now_s)]
    seat, gone = way
    effects: list[DispatchEffect] = []
    for other in gone:
        effects += floor.take_back(other, line, now_s)
    effects.append(floor.seat(entry, line, seat, now_s))
    seat.guest = entry
    return effects
