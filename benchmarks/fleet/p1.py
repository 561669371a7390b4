"""Regret in a published setting: ServeGen's fourteen days, slots of ten minutes, starts that take one slot.

At most one request in a thousand may be beyond what can be carried; a replica carries 8 requests a second on m-large and 40
on m-small. Laws that are tuned take the cheapest of their settings that keeps this on days 1-7, and days 8-14 are reported;
beside it stands the cheapest one of those that keep it on days 8-14, picked afterwards. The rows that were published are
those of the whole fourteen days: a fixed fleet for the busiest slot, one that is to be 70 % full by the last slot, and the
best of many reactive settings picked on all the days. On m-small the slots that nobody recorded are filled.

Ours is the real controller with the default law (``slotwise``), its delay and its risk tuned. Last come laws that no one can
have, which know the next slot but for its jumps: what they lose, or cost, is what a jump costs whoever does not foresee it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from math import ceil
from typing import Any

from benchmarks.fleet.frame import Asked
from benchmarks.fleet.slotlaws import (
    DAY,
    FILLS,
    HOLDS,
    REPORTED,
    TUNED,
    WHOLE,
    Score,
    Traffic,
    at_the_peak,
    filled,
    foreseeing,
    insured,
    reactive,
    recorded,
)
from benchmarks.fleet.slotwise import follow
from tidegate.core.scaling_settings import Promise, Scaling

LOST = 0.001
MODELS = {"m-large": ("language-m-large", 8.0, 1.30), "m-small": ("language-m-small", 40.0, 1.40)}
"""File, requests a second of a replica, and what is aimed at."""
HPA_FILL = 0.7
RISES = (1.25, 1.5, 2.0, 3.0)
JUMPS = 3
SETTINGS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "small": ((1_800.0, 7_200.0), (0.03, 0.01, 0.003)),
    "medium": ((1_800.0, 3_600.0, 7_200.0), (0.1, 0.03, 0.01, 0.003)),
    "full": ((600.0, 1_800.0, 3_600.0, 7_200.0, 10_800.0), (0.2, 0.1, 0.05, 0.03, 0.01, 0.003)),
}
"""Delays in seconds and risks of the default law."""
PROMISE = Promise(ttft_s=10.0, tpot_s=2.0)
"""Kept by a full replica of the slowest kind: how full one becomes is bound by what it holds."""


@dataclass(frozen=True, slots=True)
class Task:
    """The default law with one setting on one workload."""

    model: str
    delay_s: float
    risk: float


@dataclass(frozen=True, slots=True)
class Tried:
    """One setting of a law, on both weeks."""

    setting: str
    tuned: Score
    reported: Score
    whole: Score


def run(asked: Asked) -> dict[str, Any]:
    """The tables and their figures."""
    delays_s, risks = SETTINGS[asked.size]
    found: dict[str, Any] = {"lost_at_most": LOST}
    for model in MODELS:
        if model in asked.loads:
            tasks = [Task(model, *each) for each in product(delays_s, risks)]
            found[model] = _model(asked, model, asked.in_order(play, tasks, f"p1, {model}"))
    return found


def play(task: Task) -> Tried:
    """Fourteen days, scored by the week."""
    traffic = traffic_of(task.model)
    most = 4 * max(traffic.needs(WHOLE))
    scaling = Scaling(
        min_replicas=1,
        max_replicas=most,
        window_s=30.0,
        scale_down_delay_s=task.delay_s,
        promise=PROMISE,
        law=(("risk", task.risk),),
    )
    running = ceil(traffic.rates[0] / (HPA_FILL * traffic.each_per_s))
    course = follow(traffic.rates, traffic.each_per_s, scaling, running)
    columns = course.served, course.charged, course.lost
    setting = f"delay {task.delay_s / 60:g} min, risk {task.risk:g}"
    return _tried(setting, lambda span: traffic.score(span, *columns))


def traffic_of(model: str, *, is_filled: bool = True) -> Traffic:
    """The workload's rates."""
    name, each_per_s, _ = MODELS[model]
    rates = recorded(name)
    return Traffic(filled(rates) if is_filled else tuple(rates), each_per_s)


def _tried(setting: str, score: Callable[[slice], Score]) -> Tried:
    return Tried(setting, score(TUNED), score(REPORTED), score(WHOLE))


def _reactive(traffic: Traffic) -> list[Tried]:
    """Every setting."""
    tried = []
    for fill, hold in product(FILLS, HOLDS):
        numbers = reactive(traffic, fill, hold)
        setting = f"{fill:.3g} full by the highest of {10 * (hold + 1)} min"
        tried.append(_tried(setting, lambda span, numbers=numbers: traffic.played(span, numbers)))
    return tried


def _model(asked: Asked, model: str, own: Sequence[Tried]) -> dict[str, Any]:
    aim = MODELS[model][2]
    traffic = traffic_of(model)
    asked.say(f"{model}, {traffic.each_per_s:g} requests/s a replica, {aim:.2f} aimed at")
    asked.say(f"  {'':<72}{'served':>8}{'lost':>9}{'charged':>9}")
    published = {}
    for is_filled in (True, False) if traffic.rates != tuple(recorded(MODELS[model][0])) else (True,):
        published["filled" if is_filled else "as recorded"] = _published(asked, model, is_filled=is_filled)
    plain = _picked(asked, "reactive", _reactive(traffic))
    for tried in own:
        _say(asked, f"tidal, days 1-7: {tried.setting}", tried.tuned)
        _say(asked, "       days 8-14", tried.reported)
    on_all = _picked_on_all(asked, "tidal, 14 days, best", own)
    ours = _picked(asked, "tidal", own)
    return {
        "aim": aim,
        "published": published,
        "reactive": plain,
        "tidal": {"on_all_days": on_all, **ours},
        "tidal_settings": [asdict(tried) for tried in own],
        "bounds": _bounds(asked, traffic),
    }


def _say(asked: Asked, what: str, score: Score) -> dict[str, float]:
    asked.say(f"  {what:<72}{score.served:>8.2f}{score.lost:>9.3%}{score.charged:>9.2f}")
    return asdict(score)


def _published(asked: Asked, model: str, *, is_filled: bool) -> dict[str, Any]:
    """All fourteen days, as the published figures have them."""
    traffic = traffic_of(model, is_filled=is_filled)
    says = "14 days" if is_filled else "14 days, gaps as recorded"
    return {
        "peak": _say(asked, f"{says}: peak", traffic.played(WHOLE, at_the_peak(traffic))),
        "hpa": _say(asked, f"{says}: 70 % full", traffic.played(WHOLE, reactive(traffic, HPA_FILL, 0))),
        "reactive": _picked_on_all(asked, f"{says}, best", _reactive(traffic)),
    }


def _picked(asked: Asked, law: str, tried: Sequence[Tried]) -> dict[str, Any]:
    """The setting that days 1-7 choose, on days 8-14; and the one that days 8-14 would have chosen."""
    good = [one for one in tried if one.tuned.lost <= LOST]
    chosen = (
        min(good, key=lambda one: one.tuned.served) if good else min(tried, key=lambda one: one.tuned.lost)
    )
    _say(asked, f"{law}, days 1-7: {chosen.setting}", chosen.tuned)
    _say(asked, f"{law}, days 8-14: the same", chosen.reported)
    lucky = [one for one in tried if one.reported.lost <= LOST]
    best = min(lucky, key=lambda one: one.reported.served, default=None)
    if best is not None:
        _say(asked, f"{law}, days 8-14, picked afterwards: {best.setting}", best.reported)
    else:
        asked.say(f"  {law}, days 8-14, picked afterwards: none keeps it")
    return {"chosen": asdict(chosen), "afterwards": None if best is None else asdict(best)}


def _picked_on_all(asked: Asked, what: str, tried: Sequence[Tried]) -> dict[str, Any] | None:
    """As the published reactive law was: picked on the very days that it is scored on."""
    good = [one for one in tried if one.whole.lost <= LOST]
    if not good:
        asked.say(f"  {what}: none keeps it")
        return None
    best = min(good, key=lambda one: one.whole.served)
    return _say(asked, f"{what}: {best.setting}", best.whole)


def _bounds(asked: Asked, traffic: Traffic) -> dict[str, Any]:
    """What can't be had without knowing jumps before they come."""
    knows, floors = {}, {}
    for rise in RISES:
        what = f"days 8-14, knows the next slot but for rises beyond {rise:g} times"
        knows[f"{rise:g}"] = _say(asked, what, traffic.played(REPORTED, foreseeing(traffic, rise)))
        if knows[f"{rise:g}"]["lost"] > LOST:
            beside = insured(traffic, rise, REPORTED, LOST)
            if beside is not None:
                floors[f"{rise:g}"] = _say(asked, "  with the cheapest floor that keeps it", beside)
    return {"knows": knows, "with_floor": floors, "jumps": _jumps(asked, traffic)}


def _jumps(asked: Asked, traffic: Traffic) -> list[dict[str, float]]:
    """The largest rises of days 8-14, and what each costs whoever does not know of it."""
    rates, total = traffic.rates, sum(traffic.rates[REPORTED])
    rises = sorted(range(REPORTED.start, len(rates)), key=lambda slot: rates[slot - 1] - rates[slot])[:JUMPS]
    found = []
    for slot in rises:
        before, after = rates[slot - 1], rates[slot]
        lost, spared = (after - before) / total, max(0.0, after - before / HPA_FILL) / total
        found.append({"slot": slot, "from": before, "to": after, "lost_full": lost, "lost_70": spared})
        asked.say(
            f"  day {slot // DAY + 1}, slot {slot}: {before:.0f} to {after:.0f} requests/s; "
            f"who was full before loses {lost:.3%} of the week's requests, who was 70 % full {spared:.3%}"
        )
    return found
