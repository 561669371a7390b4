"""All about one decision on what a pool is to hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tidegate.cli.explaining_lists import holds, print_inputs, print_orders
from tidegate.cli.moments import shown

if TYPE_CHECKING:
    from tidegate.core.effects import Pooled
    from tidegate.runtime.decided import RecordedPool


def explain_pool(one: RecordedPool, of: int) -> None:
    """What it holds, why, on which numbers, and what one more or less would have meant."""
    pool = one.pool
    click.echo(f"pool decision p{one.number} of {of}, {shown(one.at_s)}, {one.source}")
    click.echo(f"  model     {pool.model}")
    click.echo(f"  to hold   {holds(one)}")
    click.echo(f"  because   {pool.because}")
    click.echo(f"  held by   {pool.held_by or 'nothing'}")
    click.echo(f"  heard     {one.event}")
    print_inputs(pool.inputs)
    click.echo(f"\n  {'':<12}{'held':>9}{'uncovered':>12}{'cost per h':>12}")
    for name, guess in (("one less", pool.fewer), ("as decided", pool.chosen), ("one more", pool.more)):
        click.echo(f"  {name:<12}{guess.held:>9}{guess.uncovered:>12}{guess.cost_per_h:>12.2f}")
    click.echo(f"  {_verdict(pool)}")
    print_orders(one.orders)


def _verdict(pool: Pooled) -> str:
    """What the table says, in a sentence."""
    saved, costs = (
        pool.chosen.cost_per_h - pool.fewer.cost_per_h,
        pool.more.cost_per_h - pool.chosen.cost_per_h,
    )
    lost, gained = pool.fewer.uncovered - pool.chosen.uncovered, pool.chosen.uncovered - pool.more.uncovered
    less = f"One less would leave {lost} more to wait for a start and save {saved:.2f} an hour; "
    if not pool.chosen.held:
        less = ""
    more = f"one more would spare {gained} that wait and cost {costs:.2f}."
    return less + (more if less else more.capitalize())
