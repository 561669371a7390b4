"""Durations, sizes and money, as people write them: ``90s``, ``1h30m``, ``16GiB``, ``2.50/h``.

Reading goes through ``Decimal``, so that what is written by ``format_*`` reads back as the very same
number. Everything here raises ``ValueError`` with a short reason.
"""

from __future__ import annotations

import re
from decimal import Decimal

_MAX_DIGITS = 18
"""More is a slip of the finger, and ``Decimal`` would take a million of them."""

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(
    r"(?:(?P<d>N)d)?(?:(?P<h>N)h)?(?:(?P<m>N)m(?!s))?(?:(?P<s>N)s)?(?:(?P<ms>N)ms)?".replace(
        "N", rf"\d{{1,{_MAX_DIGITS}}}(?:\.\d{{1,{_MAX_DIGITS}}})?"
    )
)
_SIZES = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_SIZE = re.compile(rf"(\d{{1,{_MAX_DIGITS}}}(?:\.\d{{1,{_MAX_DIGITS}}})?) ?([KMGT]iB|B)")
_MONEY = re.compile(rf"(\d{{1,{_MAX_DIGITS}}}(?:\.\d{{1,{_MAX_DIGITS}}})?) ?/ ?h")


def parse_duration(text: str) -> float:
    """Seconds of ``250ms``, ``90s``, ``5m``, ``1h30m``, ``2d``; the largest unit comes first."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError("not a duration")
    parts = {unit: Decimal(number) for unit, number in found.groupdict().items() if number is not None}
    thousandths = parts.pop("ms", Decimal(0))
    return float(sum((number * _SECONDS[unit] for unit, number in parts.items()), thousandths / 1000))


def format_duration(seconds: float) -> str:
    """The shortest mixed form: 5400 is ``1h30m``, 0.25 is ``250ms``."""
    left = Decimal(repr(seconds))
    written = ""
    for unit, size in _SECONDS.items():
        count, left = divmod(left, size)
        if count:
            written += f"{count:f}{unit}"
    if left:
        written += f"{(left * 1000).normalize():f}ms"
    return written or "0s"


def parse_size(text: str) -> int:
    """Bytes of ``512MiB``, ``1.5GiB``, ``100B``."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("not a size")
    size = Decimal(found[1]) * _SIZES[found[2]]
    if size != int(size):
        raise ValueError("not a whole number of bytes")
    return int(size)


def format_size(size: int) -> str:
    """In the largest unit that leaves no fraction."""
    unit = next((unit for unit, bytes_ in _SIZES.items() if size and size % bytes_ == 0), "B")
    return f"{size // _SIZES[unit]}{unit}"


def parse_money(text: str) -> float:
    """The price per hour in ``2.50/h``, in whatever currency the operator counts."""
    found = _MONEY.fullmatch(text)
    if found is None:
        raise ValueError("not a price per hour")
    return float(Decimal(found[1]))


def format_money(per_hour: float) -> str:
    """With two decimals, or more where they are needed."""
    exact = Decimal(repr(per_hour)).normalize()
    cents = exact.quantize(Decimal("0.01"))
    return f"{cents if cents == exact else exact:f}/h"
