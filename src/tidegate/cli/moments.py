"""How a moment of a journal is shown to people, and read from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

SINCE_1970_S = 1e9
"""Moments of `tidegate serve` are later than this (September 2001); those of a simulation begin at 0."""


def shown(at_s: float, digits: int = 3) -> str:
    """A live run's moment on this machine's clock, as its log has it; a simulated one in seconds of its trace."""
    if at_s < SINCE_1970_S:
        return f"{at_s:,.{digits}f} s"
    whole = f"{datetime.fromtimestamp(at_s, UTC).astimezone():%Y-%m-%d %H:%M:%S.%f}"
    return whole[: len(whole) - 6 + digits]


class Moment(click.ParamType[float]):
    """Seconds of the journal, or a time of this machine's clock as it is shown."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The moment, in seconds of the journal."""
        try:
            return float(value)
        except ValueError:
            pass
        try:
            return datetime.fromisoformat(value).timestamp()
        except ValueError:
            self.fail(f"{value!r} is neither seconds nor a time such as '2026-08-31 16:25:07'", param, ctx)
