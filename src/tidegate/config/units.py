"""Durations, sizes and money, as people write them: ``90s``, ``1h30m``, ``16GiB``, ``2.50/h``.

Reading goes through ``Decimal``, so that what is written by ``format_*`` reads back as the very same
number. Everything here raises ``ValueError`` with a short reason.
"""

from __future__ import annotations

import re
from decimal import Decimal

# More digits are a slip of the finger; these keep every value exact in a float as well.
_NUMBER = r"\d{1,12}(?:\.\d{1,9})?"
_NANOSECOND = Decimal("1e-9")

_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = re.compile(
    rf"(?:(?P<d>{_NUMBER})d)?(?:(?P<h>{_NUMBER})h)?(?:(?P<m>{_NUMBER})m(?!s))?"
    rf"(?:(?P<s>{_NUMBER})s)?(?:(?P<ms>{_NUMBER})ms)?"
)
_SIZES = {"TiB": 2**40, "GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
_SIZE = re.compile(r"(\d{1,16}(?:\.\d{1,9})?) ?([KMGT]iB|B)")
_MONEY = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?/ ?h")
_TOKEN_PRICE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?/ ?M")
_MILLION = Decimal(1_000_000)
_MONEY_PER_DAY = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?/ ?d")


def parse_duration(text: str) -> float:
    """Seconds of ``250ms``, ``90s``, ``5m``, ``1h30m``, ``2d``, to the nanosecond. Larger units come first."""
    found = _DURATION.fullmatch(text)
    if found is None or not text:
        raise ValueError("not a duration")
    parts = {unit: Decimal(number) for unit, number in found.groupdict().items() if number is not None}
    thousandths = parts.pop("ms", Decimal(0))
    exact = sum((number * _SECONDS[unit] for unit, number in parts.items()), thousandths / 1000)
    return float(exact.quantize(_NANOSECOND))


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


def parse_money_per_day(text: str) -> float:
    """The money per day in ``60/d``."""
    found = _MONEY_PER_DAY.fullmatch(text)
    if found is None:
        raise ValueError("not money per day")
    return float(Decimal(found[1]))


def parse_token_price(text: str) -> float:
    """The price of one token in ``0.40/M``."""
    found = _TOKEN_PRICE.fullmatch(text)
    if found is None:
        raise ValueError("not a price per million tokens")
    return float(Decimal(found[1]) / _MILLION)


def format_token_price(per_token: float) -> str:
    """The same of a million."""
    return format_money(float(Decimal(repr(per_token)) * _MILLION), "M")


def format_money(per_hour: float, per: str = "h") -> str:
    """With two decimals, or more where they are needed."""
    exact = Decimal(repr(per_hour)).normalize()
    cents = exact.quantize(Decimal("0.01"))
    return f"{cents if cents == exact else exact:f}/{per}"


def format_money_per_day(per_day: float) -> str:
    """The same of a day."""
    return format_money(per_day, "d")
