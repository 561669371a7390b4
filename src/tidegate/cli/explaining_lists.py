"""What was decided, in lists: two lines each, about numbers, about pools and about weights that were fetched ahead."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from tidegate.cli.moments import SINCE_1970_S, shown
from tidegate.cli.shadows import in_a_line, print_shadows, share

if TYPE_CHECKING:
    from tidegate.runtime.decided import Decided, Fetched, Order, Recorded, RecordedPool

INDENT = " " * 12
COVERAGE = "coverage_"
"""Of each source that a law has asked, how much was heard."""


def list_all(found: Decided, last: int | None) -> None:
    """By time. ``last`` so many of those that changed something; None: all of them."""
    changes = [one for one in found.decisions if one.decision.before != one.decision.desired]
    numbers = found.decisions if last is None else changes
    rows: list[tuple[float, list[str]]] = [(one.at_s, _number(one)) for one in numbers]
    rows += [(one.at_s, _pool(one)) for one in found.pools]
    rows += [(one.at_s, _fetch(one)) for one in found.fetched]
    rows.sort(key=lambda row: row[0])
    listed = rows if last is None else rows[-last:]
    click.echo(f"{'':>6}  {'at':<23}{'replicas':<10}{'kept with one less, as decided, one more':<42}held by")
    for _, lines in listed:
        for line in lines:
            click.echo(line)
    beside = f", {len(found.pools)} about pools" if found.pools else ""
    of = f"{len(found.decisions)} decisions, {len(changes)} of them changed a number{beside}"
    rest = "" if last is None else f"; the last {len(listed)} of those are here, --all shows every one"
    click.echo(f"{of}{rest}. `tidegate explain JOURNAL NUMBER` says more.")
    if found.shadows:
        click.echo()
        print_shadows(found.shadows.values())


def _number(one: Recorded) -> list[str]:
    decision = one.decision
    guesses = (decision.fewer, decision.chosen, decision.more)
    kept = " / ".join(share(guess.attainment) for guess in guesses)
    change = f"{decision.before} -> {decision.desired}"
    lines = [
        f"{one.number:>6}  {shown(one.at_s, 1):<23}{change:<10}{kept:<42}{decision.held_by or 'nothing'}",
        f"{'':>8}{decision.model}: {decision.because}",
    ]
    if one.shadow is not None:
        lines.append(f"{'':>8}in the shadow {in_a_line(one.shadow)}")
    return lines


def _pool(one: RecordedPool) -> list[str]:
    number, pool = f"p{one.number}", one.pool
    return [
        f"{number:>6}  {shown(one.at_s, 1):<23}{holds(one):<52}{pool.held_by or 'nothing'}",
        f"{'':>8}{pool.model}, its pool: {pool.because}",
    ]


def _fetch(one: Fetched) -> list[str]:
    order = one.prefetch
    inputs = ", ".join(f"{name} {_input(value)}" for name, value in order.inputs.items())
    return [
        f"{'':>6}  {shown(one.at_s, 1):<23}weights are fetched to {order.node}",
        f"{'':>8}{order.model}: {order.because}{f' ({inputs})' if inputs else ''}",
    ]


def holds(one: RecordedPool) -> str:
    """What a pool is to hold."""
    pool = one.pool
    kind = f" ({pool.variant})" if pool.variant else ""
    return f"{pool.warm} warm, {pool.sleeping} asleep{kind}{', weights on the disk' if pool.cached else ''}"


def print_inputs(inputs: Mapping[str, float]) -> None:
    """The numbers that something was decided on; those of the law's sources in a table."""
    sources = [key.removeprefix(COVERAGE) for key in inputs if key.startswith(COVERAGE)]
    tabled = {key for source in sources for key in (f"by_{source}", f"{COVERAGE}{source}", f"age_{source}_s")}
    told = ", ".join(f"{name} {_input(value)}" for name, value in inputs.items() if name not in tabled)
    click.echo(textwrap.fill(told, 100, initial_indent="  inputs    ", subsequent_indent=INDENT))
    if sources:
        click.echo(f"\n  {'source':<12}{'replicas':>9}{'heard of it':>13}{'age':>9}")
    for source in sources:
        asks, age_s = inputs.get(f"by_{source}"), inputs.get(f"age_{source}_s")
        click.echo(
            f"  {source:<12}{'?' if asks is None else f'{asks:.2f}':>9}{share(inputs[COVERAGE + source]):>13}"
            f"{'?' if age_s is None else f'{age_s:.1f} s':>9}"
        )


def print_orders(orders: Iterable[Order]) -> None:
    """What was ordered, a line each."""
    for order in orders:
        variant = f" ({order.variant})" if order.variant else ""
        place = f" on {order.place}" if order.place else ""
        click.echo(
            f"\n  {shown(order.at_s)}  {order.order} {order.replica_id}{variant}{place}: {order.because}"
        )
    click.echo()


def _input(value: float) -> str:
    return f"{value:,.6g}" if value < SINCE_1970_S else shown(value, 1)
