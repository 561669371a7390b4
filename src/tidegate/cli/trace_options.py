"""The options that say which part of a trace is meant, shared by the commands that read one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

FORMATS = "azure-llm, mooncake, servegen-rate, azure-functions, burstgpt, jsonl, csv or gateway-log"


class Duration(click.ParamType[float]):
    """A span of time as people write it: ``90s``, ``5m``, ``1h30m``."""

    name = "duration"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        from tidegate.config.units import parse_duration

        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration such as 250ms, 90s, 5m or 1h30m", param, ctx)


def _factor(name: str, what: str) -> Callable[[Command], Command]:
    above_0 = click.FloatRange(min=0, min_open=True)
    return click.option(name, type=above_0, default=1.0, show_default=True, help=what)


def trace_options(command: Command) -> Command:
    """Add them; ``wanted_trace`` takes them from the command's arguments."""
    options = (
        click.option("--format", "form", metavar="NAME", help=f"{FORMATS}; guessed when clear."),
        click.option("--lengths", help="For requests without: PROMPT/OUTPUT tokens, or a file to draw from."),
        _factor("--rate-scale", "So many times the requests."),
        _factor("--time-scale", "Every moment times this."),
        click.option("--from", "from_s", type=Duration(), default=0.0, help="Leave out what comes before."),
        click.option("--until", "until_s", type=Duration(), help="Leave out what comes after."),
        click.option("--seed", type=int, default=1, show_default=True, help="Of everything that is drawn."),
    )
    for option in reversed(options):
        command = option(command)
    return command
