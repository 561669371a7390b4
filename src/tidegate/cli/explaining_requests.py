"""What ``tidegate explain`` says of a request: when it was sent where, and what each replica would have cost it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli.moments import shown

if TYPE_CHECKING:
    from tidegate.core.dispatch.routing.cost import Choice, Terms
    from tidegate.runtime.routed import Routed

COLUMNS = ("waiting", "prefill", "slowness", "interference", "adapter", "others", "eviction")


def keyed(found: Routed) -> dict[str, object]:
    """For programs, each term by its name."""
    choices = [
        {**choice._asdict(), "terms": [terms._asdict() for terms in choice.terms]} for choice in found.choices
    ]
    return {
        "arrived_s": found.arrived_s,
        "arrived": found.arrived,
        "choices": choices,
        "is_as_recorded": found.is_as_recorded,
        "record": found.record,
        "spilt": None if found.spilt is None else {"at_s": found.spilt[0], "order": found.spilt[1]},
    }


def show(found: Routed) -> None:
    """For people."""
    arrived = found.arrived
    click.echo(f"request {arrived.request_id}, {shown(found.arrived_s)}")
    click.echo(f"  model     {arrived.model}" + (f", adapter {arrived.adapter}" if arrived.adapter else ""))
    click.echo(f"  prompt    {arrived.prompt_tokens:,} tokens, as estimated by its size")
    click.echo(f"  from      {arrived.flow}, class {arrived.priority}")
    if not found.choices:
        click.echo("  It was sent to no replica.")
    for number, choice in enumerate(found.choices, 1):
        after_s = choice.at_s - found.arrived_s
        click.echo(
            f"\n  {shown(choice.at_s)}  sent to {choice.replica_id}, attempt {number}, {after_s:.3f} s after it came"
        )
        _table(choice)
    if found.spilt is not None:
        at_s, order = found.spilt
        click.echo(f"\n  {shown(at_s)}  spilt, {at_s - found.arrived_s:.3f} s after it came: {order.because}")
    if not found.is_as_recorded:
        click.echo("\n  The journal has it otherwise: it was written by another version.")
    record = found.record
    if record is not None:
        first = "" if record.ttft_s is None else f", first byte after {record.ttft_s:.3f} s"
        cost = "" if record.spilt_cost is None else f", for {record.spilt_cost:.6f}"
        click.echo(f"\n  {record.outcome.value} after {record.e2e_s:.3f} s{first}{cost}")


def _table(choice: Choice) -> None:
    """Milliseconds of each replica, the soonest first."""
    if not choice.terms:
        click.echo("  Its router looks at counts alone, so there are no seconds to show.")
        return
    width = max(len(terms.replica_id) for terms in choice.terms)
    click.echo(
        f"    {'ms':<{width}}{'sum':>10}" + "".join(f"{name:>14}" for name in COLUMNS) + f"{'cached':>12}"
    )
    for terms in sorted(choice.terms, key=lambda terms: terms.total_s):
        click.echo(f"    {terms.replica_id:<{width}}" + _row(terms))


def _row(terms: Terms) -> str:
    parts = terms[2:9]
    return (
        f"{1e3 * terms.total_s:>10,.1f}"
        + "".join(f"{1e3 * part:>14,.1f}" for part in parts)
        + (f"{terms.cached_tokens:>12,.0f}")
    )
