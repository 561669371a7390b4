"""Wall-clock date-times as whole nanoseconds, without the system's clock or time zones.

Nanoseconds in an int lose nothing; a float of seconds since 1970 would be off by up to 120 of them.
"""

from __future__ import annotations

import re

from tidegate.workload.arrival import BadValue

NS = 1_000_000_000

_FORM = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)
_DAYS_IN_MONTH = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def parsed_ns(text: str) -> int:
    """Nanoseconds since 1970-01-01 of ``2023-11-16 18:15:46.6805900``; without a zone, taken as UTC."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        message = f"time stamp is {text.strip()!r}; YYYY-MM-DD HH:MM:SS.fraction was expected"
        raise BadValue(message)
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (
        1 <= month <= 12 and 1 <= day <= _days_in(year, month) and hour < 24 and minute < 60 and second < 60
    ):
        message = f"time stamp is {text.strip()!r}; there is no such moment"
        raise BadValue(message)
    seconds = _days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second
    fraction = int((match[7] or "").ljust(9, "0"))
    return (seconds - _offset_s(match)) * NS + fraction


def _offset_s(match: re.Match[str]) -> int:
    """How far the zone is ahead of UTC."""
    if match[8] is None:
        return 0
    seconds = int(match[9]) * 3_600 + int(match[10]) * 60
    return seconds if match[8] == "+" else -seconds


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days_in(year: int, month: int) -> int:
    return 29 if month == 2 and _is_leap(year) else _DAYS_IN_MONTH[month - 1]


def _days_since_1970(year: int, month: int, day: int) -> int:
    """Days of the Gregorian calendar (Hinnant, chrono-compatible low-level date algorithms, 2013).

    Years begin in March there, so that the leap day is the last of its year.
    """
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468
