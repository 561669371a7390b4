"""What the default law says of its number, and the numbers behind it."""

from __future__ import annotations

from tidegate.core.fleet.scaling.forecast import SETS_FLOOR
from tidegate.core.fleet.scaling.fullest import Full
from tidegate.core.fleet.scaling.policies.base import FLOORS, Situation
from tidegate.core.fleet.scaling.reading import Reading
from tidegate.core.scaling_settings import Promise, Scaling


def said(scaling: Scaling, seen: Situation, reading: Reading, by: str, asked: int, *, is_late: bool) -> str:
    """What is needed, and for what; ``by`` is the source that asks for most."""
    full, load, peak = reading.full, reading.load, seen.demand.peak
    if not asked and not peak:
        silent = f"nobody asked in the last {scaling.window_s:g} s"
        return silent if seen.is_complete else "nothing is known of the demand"
    if full.requests_per_s is None or load.rate_per_s is None:
        words, verb = f"a peak of {peak:g} at {full.batch:g} a replica", "needs"
    else:
        words = f"{load.rate_per_s:.2f} requests/s at {full.requests_per_s:.2f} a replica ({full.bound_by})"
        words += f", {load.excess:.0f} waiting beyond that" if load.excess >= 1 else ""
        verb = "need"
    words += _beyond(full, seen.promise)
    if reading.foreseen is not None:
        words += (
            f", {reading.reserve:.2f} held for the {reading.foreseen.said} that the days before let expect"
        )
        words += f" within {reading.lead_s:.0f} s"
    elif reading.reserve > 0.005:
        words += f", {reading.reserve:.2f} held for growth in {reading.lead_s:.0f} s"
    words += ", one in place of a start that is overdue" if is_late else ""
    return f"{words} {verb} {asked}" if by == "ledger" else f"{words}; {by} needs {asked}"


def _beyond(full: Full, promise: Promise) -> str:
    """What is promised and would not be kept by any number."""
    slow: list[str] = []
    if full.token_alone_s is not None:
        took_ms, promised_ms = 1e3 * full.token_alone_s, 1e3 * promise.tpot_s
        slow.append(f"takes {took_ms:.0f} ms a token, promised {promised_ms:.0f} ms")
    if full.first_alone_s is not None:
        slow.append(f"has its first token after {full.first_alone_s:.1f} s, promised {promise.ttft_s:g} s")
    return f" (one request alone {' and '.join(slow)}: more replicas do not help)" if slow else ""


def because(scaling: Scaling, why: str, reading: Reading, wanted: int, held_by: str | None) -> str:
    """The same, with what keeps the number from being that."""
    match held_by:
        case None:
            return why
        case "short_burst":
            return f"{why}; bursts are mostly over before a replica serves, in {reading.lead_s:.0f} s"
        case "no data":
            return f"{why}; {wanted} kept, since not every gateway is heard"
        case "window":
            return f"{why}; {wanted} kept until a full window has been seen"
        case "growth_unknown":
            return f"{why}; {wanted} kept until it is known how demand grows in {reading.lead_s:.0f} s"
        case "memory_unknown":
            return f"{why}; {wanted} kept while not every engine says how full its memory is"
        case "latency_unknown":
            return f"{why}; {wanted} kept while nothing is heard of how fast answers come"
        case "scale_down_delay":
            return f"{why}; {wanted} was needed within the last {scaling.scale_down_delay_s:g} s"
        case "survivors":
            return f"{why}; {wanted - 1} would not keep the promise with something to spare"
        case "swings":
            return f"{why}; {wanted} kept, since the number has swung enough of late"
        case "step_by_step":
            return f"{why}; down step by step"
        case rule if rule in FLOORS:
            return f"{why}; not below {wanted} while {FLOORS[rule]}"
        case rule:
            return f"{why}; {wanted} kept: {rule}"


def inputs_of(reading: Reading, needed: float, held: int) -> dict[str, float]:
    """The numbers behind it. What is not known is left out."""
    inputs = {
        "needed": needed,
        "held": float(held),
        "batch": reading.full.batch,
        "lead_s": reading.lead_s,
        "reserve": reading.reserve,
        "excess": reading.load.excess,
        "clients_wait": float(reading.clients_wait),
    }
    if reading.foreseen is not None:
        inputs[SETS_FLOOR] = 1.0
    if reading.full.requests_per_s is not None:
        inputs["requests_per_s_each"] = reading.full.requests_per_s
    if reading.load.rate_per_s is not None:
        inputs["requests_per_s"] = reading.load.rate_per_s
    for one in reading.estimates:
        if one.replicas is not None:
            inputs[f"by_{one.name}"] = one.replicas
        if one.replicas is not None or one.is_expected:
            inputs[f"coverage_{one.name}"] = one.coverage
            if one.age_s is not None:
                inputs[f"age_{one.name}_s"] = one.age_s
    return inputs
