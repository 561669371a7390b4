"""The keys of schedules: how they are written and what they mean inside."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from tidegate.config import kinds
from tidegate.config.kinds import Kind
from tidegate.config.section import MAX_REPLICAS, Strict
from tidegate.core.scaling_settings import Schedule, ScheduledFloor

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
KNOWN_FROM, KNOWN_UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)
"""Between these the changes of local time are looked up."""


def clock_time() -> Kind:
    """A time of day. YAML reads 18:00 without quotation marks as a number to the base of 60, which is meant."""
    allowed = "a time of day from 00:00 to 24:00"

    def read(value: object) -> float:
        if isinstance(value, int) and not isinstance(value, bool) and 60 <= value <= 1_440:
            return 60.0 * value
        found = re.fullmatch(r"(\d{1,2}):(\d\d)", value) if isinstance(value, str) else None
        minutes = 60 * int(found[1]) + int(found[2]) if found and int(found[2]) < 60 else -1
        if not 0 <= minutes <= 1_440:
            raise ValueError(f'it must be {allowed}, such as "08:30"')
        return 60.0 * minutes

    def write(value: float) -> str:
        hours, minutes = divmod(int(value) // 60, 60)
        return f"{hours:02d}:{minutes:02d}"

    schema = {
        "anyOf": [
            {"type": "string", "pattern": r"^\d{1,2}:\d\d$"},
            {"type": "integer", "minimum": 60, "maximum": 1_440},
        ]
    }
    return Kind("time of day", "00:00 to 24:00", allowed, read, write, schema)


def weekdays() -> Kind:
    """Days of the week: ``mon-fri``, ``sat,sun``, ``daily``."""
    allowed = f"daily, or days and spans of days of {', '.join(DAYS)}, such as mon-fri or tue,sat"

    def read(value: object) -> tuple[int, ...]:
        if value == "daily":
            return tuple(range(7))
        found: set[int] = set()
        for part in value.split(",") if isinstance(value, str) else [""]:
            first, dash, last = part.strip().partition("-")
            last = last if dash else first
            if first not in DAYS or last not in DAYS:
                raise ValueError(f"it must be {allowed}")
            start, length = DAYS.index(first), (DAYS.index(last) - DAYS.index(first)) % 7
            found |= {(start + day) % 7 for day in range(length + 1)}
        return tuple(sorted(found))

    def write(value: tuple[int, ...]) -> str:
        return "daily" if len(value) == 7 else ",".join(DAYS[day] for day in value)

    day = "|".join(DAYS)
    pattern = rf"^(daily|({day})(-({day}))?(, ?({day})(-({day}))?)*)$"
    return Kind("days", "", allowed, read, write, {"type": "string", "pattern": pattern})


_FLOOR = ScheduledFloor(0)


class FloorKeys(Strict):
    """So many replicas at least, in some hours of some days, ready when they begin. Under any policy; with
    `policy: cron` nothing else counts. The hours are local ones, by `fleet.timezone`."""

    replicas: Annotated[int, kinds.whole(1, MAX_REPLICAS)] = Field(description="Not fewer than these")
    days: Annotated[tuple[int, ...], weekdays()] = Field(
        default=_FLOOR.days, description="On which days it begins: `daily`, `mon-fri`, `sat,sun`"
    )
    from_s: Annotated[float, clock_time()] = Field(
        default=_FLOOR.from_s, alias="from", description="When they are to be ready"
    )
    until_s: Annotated[float, clock_time()] = Field(
        default=_FLOOR.until_s,
        alias="until",
        description="When they may go; not after `from`: on the day after",
    )


def schedule_of(floors: list[FloorKeys], timezone: str) -> Schedule:
    """The floors with their zone's local time."""
    if not floors and timezone == "UTC":
        return Schedule()
    made = tuple(ScheduledFloor(floor.replicas, floor.from_s, floor.until_s, floor.days) for floor in floors)
    return Schedule(made, _ahead(timezone))


@lru_cache
def _ahead(timezone: str) -> tuple[tuple[float, float], ...]:
    """From when on local time is how far ahead of UTC."""
    zone = ZoneInfo(timezone)
    found = [(0.0, _offset_s(zone, KNOWN_FROM))]
    at = KNOWN_FROM
    while at < KNOWN_UNTIL:
        later = at + timedelta(days=1)
        if _offset_s(zone, later) != _offset_s(zone, at):
            low, high = at, later
            while high - low > timedelta(minutes=1):
                middle = low + (high - low) / 2
                low, high = (
                    (middle, high) if _offset_s(zone, middle) == _offset_s(zone, at) else (low, middle)
                )
            change = high.replace(second=0, microsecond=0)
            found.append((change.timestamp(), _offset_s(zone, later)))
        at = later
    return tuple(found)


def _offset_s(zone: ZoneInfo, at: datetime) -> float:
    offset = at.astimezone(zone).utcoffset()
    return 0.0 if offset is None else offset.total_seconds()
