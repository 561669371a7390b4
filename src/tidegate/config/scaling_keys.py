"""The keys of schedules and of laws' constants: how they are written and what they mean inside."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field

from tidegate.config import kinds, units
from tidegate.config.kinds import Kind
from tidegate.config.problems import did_you_mean
from tidegate.config.section import MAX_REPLICAS, Strict
from tidegate.core.fleet.scaling.policies import CONSTANTS
from tidegate.core.settings import ScalingPolicy, Schedule, ScheduledFloor

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
KNOWN_FROM, KNOWN_UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)
"""Between these the changes of local time are looked up."""

CONSTANT_NAME = kinds.text("name", r"[a-z][a-z0-9_]{0,49}", "the name of one of the law's constants")


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
            first, _, last = part.strip().partition("-")
            if first not in DAYS or (last or first) not in DAYS:
                raise ValueError(f"it must be {allowed}")
            start, length = DAYS.index(first), (DAYS.index(last or first) - DAYS.index(first)) % 7
            found |= {(start + day) % 7 for day in range(length + 1)}
        return tuple(sorted(found))

    def write(value: tuple[int, ...]) -> str:
        return "daily" if len(value) == 7 else ",".join(DAYS[day] for day in value)

    day = "|".join(DAYS)
    pattern = rf"^(daily|({day})(-({day}))?(, ?({day})(-({day}))?)*)$"
    return Kind("days", "", allowed, read, write, {"type": "string", "pattern": pattern})


def constant() -> Kind:
    """A law's constant: a duration, or a number without a unit. Which of them it must be is for a rule to say."""
    allowed = "a number of 0 or more, or a duration such as 90s"

    def read(value: object) -> float | str:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1e12:
            return float(value)
        try:
            return units.format_duration(units.parse_duration(value if isinstance(value, str) else ""))
        except ValueError:
            raise ValueError(f"it must be {allowed}") from None

    def write(value: float | str) -> object:
        return int(value) if isinstance(value, float) and value.is_integer() else value

    schema = {"type": ["number", "string"], "minimum": 0}
    return Kind("number or duration", "", allowed, read, write, schema)


CONSTANT = constant()
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


# ---- the constants of laws ----


def constants_of(policy: ScalingPolicy) -> dict[str, float | None]:
    """The constants that a policy file may change, as it spells them, with the law's own values."""
    kind = CONSTANTS.get(policy)
    if kind is None:
        return {}
    return {
        spelled(field.name): getattr(kind(), field.name)
        for field in fields(kind)
        if "bool" not in str(field.type)
    }


def spelled(name: str) -> str:
    """A constant's name in the file, where the unit stands in the value."""
    return name.removesuffix("_s")


def is_duration(policy: ScalingPolicy, key: str) -> bool:
    """It is a span of time."""
    return any(field.name == f"{key}_s" for field in fields(CONSTANTS[policy]))


def may_be_zero(policy: ScalingPolicy, key: str) -> bool:
    """Nothing is divided by it, and no loop waits for it."""
    return key.endswith(("_delay", "_window")) or constants_of(policy)[key] == 0.0


def mistakes_in(policy: ScalingPolicy, given: Mapping[str, float | str]) -> Iterator[tuple[str, str]]:
    """Each constant that this law does not have, or not with such a value, and what is wrong with it."""
    known = constants_of(policy)
    for key, value in given.items():
        if key not in known:
            meant = did_you_mean(key, known)
            hint = f"; did you mean {meant}?" if meant else ""
            yield key, f"{policy.value} has no such constant; it has {', '.join(known) or 'none'}{hint}"
        elif is_duration(policy, key) != isinstance(value, str):
            yield (
                key,
                "it must be a duration, such as 90s"
                if is_duration(policy, key)
                else "it must be a number without a unit",
            )
        elif value in (0.0, "0s") and not may_be_zero(policy, key):
            yield key, "it must be above 0"


def parsed_law(policy: ScalingPolicy, text: str) -> tuple[tuple[str, float], ...]:
    """The constants in ``key=value,...``, as a command line has them.

    Raises:
        ValueError: there is a mistake; the message names the constant, its value and what is allowed.
    """
    given: dict[str, float | str] = {}
    for part in filter(None, text.split(",")):
        key, _, written = part.partition("=")
        number = re.fullmatch(r"\d+(\.\d+)?", written)
        try:
            given[key] = CONSTANT.read(float(written) if number else written)
        except ValueError as error:
            message = f"{key} is {written!r}; {error}"
            raise ValueError(message) from None
    for key, mistake in mistakes_in(policy, given):
        message = f"{key} is {given[key]!r}; {mistake}"
        raise ValueError(message)
    return law_of(policy, given)


def law_of(policy: ScalingPolicy, given: Mapping[str, float | str]) -> tuple[tuple[str, float], ...]:
    """The changed constants by the names that the law has for them."""
    return tuple(
        (f"{key}_s", units.parse_duration(str(value))) if is_duration(policy, key) else (key, float(value))
        for key, value in sorted(given.items())
    )


def written_law(scaling_law: tuple[tuple[str, float], ...]) -> dict[str, Any]:
    """The same as the file has it."""
    return {
        spelled(name): units.format_duration(value) if name.endswith("_s") else CONSTANT.write(value)
        for name, value in scaling_law
    }


def constants_table() -> Iterator[tuple[str, str]]:
    """Each policy with constants, and these with their values, for the documentation."""
    for policy in CONSTANTS:
        told = [f"`{key}` {_told(policy, key, value)}" for key, value in constants_of(policy).items()]
        yield policy.value, ", ".join(told)


def _told(policy: ScalingPolicy, key: str, value: float | None) -> str:
    if value is None:
        return "none"
    return units.format_duration(value) if is_duration(policy, key) else f"{value:g}"
