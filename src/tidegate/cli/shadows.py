"""A second policy beside the one that acts, for people: what both are predicted to have kept and cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tidegate.core.effects import Shadowed


def print_shadows(shadows: Iterable[Shadowed], where: str = "") -> None:
    """Two columns for each model that has a second policy."""
    for shadow in shadows:
        click.echo(f"{shadow.model}: the shadow {shadow.policy} beside what acted{where}, both as predicted")
        click.echo(f"  {'':<16}{shadow.policy:>12}{'acting':>12}")
        for name, own, acting in _rows(shadow):
            click.echo(f"  {name:<16}{own:>12}{acting:>12}")
        click.echo(f"  {_regret(shadow)}\n")


def in_a_line(shadow: Shadowed) -> str:
    """What it wants, and why."""
    return f"{shadow.policy} would have {shadow.desired}: {shadow.because}"


def so_far(shadow: Shadowed) -> str:
    """How both have done, in one sentence."""
    rows = [f"{name} {own} (acting {acting})" for name, own, acting in _rows(shadow)]
    return f"as told last: {', '.join(rows)}. {_regret(shadow)}"


def _rows(shadow: Shadowed) -> list[tuple[str, str, str]]:
    rows = [
        ("promise kept", share(shadow.attainment), share(shadow.acting_attainment)),
        ("replica-hours", f"{shadow.replica_hours:.2f}", f"{shadow.acting_replica_hours:.2f}"),
    ]
    if shadow.cost or shadow.acting_cost:
        rows.append(("cost", f"{shadow.cost:.2f}", f"{shadow.acting_cost:.2f}"))
    return rows


def _regret(shadow: Shadowed) -> str:
    if shadow.regret is None:
        return "Regret is not known: it would have run nothing so far."
    more = "more" if shadow.regret >= 0.0 else "less"
    return f"Regret {shadow.regret:+.1%}: what acted has cost so much {more} than {shadow.policy} would have."


def share(value: float | None) -> str:
    """As a percentage; a question mark while it is not known."""
    return "?" if value is None else f"{value:.1%}"
