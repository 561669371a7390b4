"""Floors by the time of day: office hours, batch nights.

The core has no calendar. ``now_s`` counts seconds from a zero that the shell chose (1970 in UTC when it serves), and the
settings say how far the local time was ahead of it from which moment on; so summer time is a line in a table, and a
replayed day is the same day. A week begins on Monday at midnight, local time.

A floor is for when replicas are to be *ready*: it is raised as much earlier as a start is expected to take.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from tidegate.core.scaling_settings import DAY_S, WEEK_S, Schedule, ScheduledFloor

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
THURSDAY_S = 3 * DAY_S
"""1970-01-01 was one."""


def week_s(schedule: Schedule, now_s: float) -> float:
    """Seconds since Monday, midnight, local time."""
    return (now_s + _ahead_s(schedule, now_s) + THURSDAY_S) % WEEK_S


def time_of_day(schedule: Schedule, at_s: float) -> str:
    """Hours and minutes by local time, such as ``14:05``."""
    minutes = int(((at_s + _ahead_s(schedule, at_s)) % DAY_S) // 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def day_of_week(schedule: Schedule, at_s: float) -> str:
    """By local time, such as ``Monday``."""
    return DAYS[int(week_s(schedule, at_s) // DAY_S)]


def floor_at(schedule: Schedule, now_s: float, lead_s: float) -> tuple[int, float | None]:
    """The number below which the schedule lets nothing go, and when it may say something else next.

    ``lead_s`` is how long a start is expected to take. The moment is None without any floor.
    """
    if not schedule.floors:
        return 0, None
    at_s = week_s(schedule, now_s)
    number, next_s = 0, WEEK_S
    for floor in schedule.floors:
        for from_s, until_s in _spans(floor):
            begins_s = from_s - min(lead_s, WEEK_S - (until_s - from_s))
            into_s = (at_s - begins_s) % WEEK_S
            if into_s < until_s - begins_s:
                number = max(number, floor.replicas)
                next_s = min(next_s, until_s - begins_s - into_s)
            else:
                next_s = min(next_s, WEEK_S - into_s)
    return number, now_s + next_s


def _ahead_s(schedule: Schedule, now_s: float) -> float:
    moments = [from_s for from_s, _ in schedule.ahead_s]
    place = bisect_right(moments, now_s) - 1
    return schedule.ahead_s[max(0, place)][1] if schedule.ahead_s else 0.0


def _spans(floor: ScheduledFloor) -> Iterator[tuple[float, float]]:
    """Begin and end on each of its days; one that ends before it begins goes on past midnight."""
    length_s = (floor.until_s - floor.from_s) % DAY_S or DAY_S
    for day in floor.days:
        yield day * DAY_S + floor.from_s, day * DAY_S + floor.from_s + length_s
