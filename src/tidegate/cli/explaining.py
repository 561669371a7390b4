"""``tidegate explain``: why a decision was made, what held it back, and what one replica more or less would have done;
or why a request was sent where it was."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from tidegate.cli.explaining_lists import INDENT, list_all, print_inputs, print_orders
from tidegate.cli.explaining_pools import explain_pool
from tidegate.cli.moments import Moment, shown
from tidegate.cli.shadows import in_a_line, share, so_far

if TYPE_CHECKING:
    from tidegate.core.effects import Decision
    from tidegate.core.types import ModelId
    from tidegate.runtime.decided import Decided, Recorded, RecordedPool

LISTED = 20


@click.command("explain", short_help="Say why a decision was made.")
@click.argument("journal", type=click.Path(exists=True, path_type=Path))
@click.argument("which", metavar="[ID]", required=False)
@click.option(
    "--at", "at_s", type=Moment(), metavar="MOMENT", help="The decision in force then: seconds, or a time."
)
@click.option("--model", help="Decisions about this model only.")
@click.option("--request", "request_id", metavar="ID", help="Why this request was sent where it was.")
@click.option("--all", "show_all", is_flag=True, help=f"List every decision, not only the last {LISTED}.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
def explain_command(
    journal: Path,
    which: str | None,
    at_s: float | None,
    model: str | None,
    request_id: str | None,
    *,
    show_all: bool,
    as_json: bool,
) -> None:
    """Say why a decision was made, from the journal that it was written to.

    ID is a decision's number in the list, with a p before it one about a pool, or a replica's id: then the decisions that
    started or ended it. Without an ID the decisions that changed something are listed, the last ones if they are many. With
    --request it says where a request was sent, and what each replica with room would have cost it.
    """
    import msgspec

    from tidegate.runtime.decided import Decided
    from tidegate.runtime.replay import JournalError, journal_files

    try:
        files = journal_files(journal)
        if request_id is not None:
            _explain_request(files, request_id, as_json=as_json)
            return
        found = Decided(files, None if model is None else cast("ModelId", model))
    except JournalError as error:
        raise click.UsageError(str(error)) from error
    if not found.decisions:
        raise click.ClickException(f"{journal} has no decision" + (f" about {model!r}" if model else ""))
    chosen = _chosen(found, which, at_s)
    if as_json:
        meant = {"decisions": found.decisions, "pools": found.pools} if chosen is None else chosen
        if chosen is None:
            meant |= {"prefetches": found.fetched, "shadows": found.shadows}
        click.echo(msgspec.json.encode(meant).decode())
    elif chosen is None:
        list_all(found, None if show_all else LISTED)
    else:
        for one in chosen["decisions"]:
            _explain(one, found.of)
        for about in chosen["pools"]:
            explain_pool(about, found.of_pools)


def _chosen(found: Decided, which: str | None, at_s: float | None) -> dict[str, Any] | None:
    """The decisions that are meant, about numbers and about pools; None for all of them."""
    if which is not None and at_s is not None:
        raise click.UsageError("an ID and --at say different things; name one of them")
    if at_s is not None:
        in_force = {one.decision.model: one for one in found.decisions if one.at_s <= at_s}
        pools = {one.pool.model: one for one in found.pools if one.at_s <= at_s}
        if not in_force:
            first = found.decisions[0]
            raise click.UsageError(f"--at {shown(at_s)}: the first decision is at {shown(first.at_s)}")
        return {"decisions": list(in_force.values()), "pools": list(pools.values())}
    if which is None:
        return None

    def is_meant(one: Recorded | RecordedPool, mark: str) -> bool:
        return which == f"{mark}{one.number}" or any(order.replica_id == which for order in one.orders)

    decisions = [one for one in found.decisions if is_meant(one, "")]
    pools_meant = [one for one in found.pools if is_meant(one, "p")]
    if not decisions and not pools_meant:
        numbers = f"{found.decisions[0].number} to {found.decisions[-1].number}"
        if which.isdecimal():
            raise click.UsageError(f"no decision {which}: there are {numbers}")
        if found.pools:
            numbers += f" and p{found.pools[0].number} to p{found.pools[-1].number}"
        raise click.UsageError(f"no decision about a replica {which}; decisions are {numbers}")
    return {"decisions": decisions, "pools": pools_meant}


def _explain_request(files: list[Path], request_id: str, *, as_json: bool) -> None:
    import msgspec

    from tidegate.cli.explaining_requests import keyed, show
    from tidegate.runtime.routed import routed

    found = routed(files, request_id)
    if found is None:
        raise click.UsageError(f"--request {request_id}: the journal has no such request")
    if as_json:
        click.echo(msgspec.json.encode({"request": keyed(found)}).decode())
    else:
        show(found)


# ---- for people ----


def _explain(one: Recorded, of: int) -> None:
    decision = one.decision
    click.echo(f"decision {one.number} of {of}, {shown(one.at_s)}, {one.source}")
    click.echo(f"  model     {decision.model}")
    click.echo(f"  replicas  {_change(decision)}")
    click.echo(f"  because   {decision.because}")
    click.echo(f"  held by   {_held(decision)}")
    click.echo(f"  heard     {one.event}")
    if one.shadow is not None:
        click.echo(f"  shadow    {in_a_line(one.shadow)}")
        click.echo(textwrap.fill(so_far(one.shadow), 100, initial_indent=INDENT, subsequent_indent=INDENT))
    print_inputs(decision.inputs)
    click.echo(
        f"\n  {'':<12}{'replicas':>9}{'slots':>7}{'without a slot':>16}{'promise kept':>14}{'cost per h':>12}"
    )
    rows = (("one less", decision.fewer), ("as decided", decision.chosen), ("one more", decision.more))
    for name, guess in rows:
        click.echo(
            f"  {name:<12}{guess.replicas:>9}{guess.slots:>7}{guess.queued:>16}{share(guess.attainment):>14}"
            f"{guess.cost_per_h:>12.2f}"
        )
    click.echo(f"  {_verdict(decision)}")
    print_orders(one.orders)


def _change(decision: Decision) -> str:
    mix = ", ".join(f"{count} {name}" for name, count in (decision.variants or {}).items())
    said = f" ({mix})" if mix else ""
    if decision.before == decision.desired:
        return f"{decision.desired}{said}, as before"
    return f"{decision.before} -> {decision.desired}{said}"


def _held(decision: Decision) -> str:
    if decision.held_by is None:
        return "nothing"
    asked = decision.inputs.get("asked")
    return decision.held_by if asked is None else f"{decision.held_by}; the demand alone asks for {asked:g}"


def _verdict(decision: Decision) -> str:
    """What the table says, in a sentence."""
    fewer, chosen, more = decision.fewer, decision.chosen, decision.more
    if fewer.attainment is None or chosen.attainment is None or more.attainment is None:
        return "How much of the promise is kept is not known: no requests, or nothing learned of the engines yet."
    lost = 100 * (chosen.attainment - fewer.attainment)
    gained = 100 * (more.attainment - chosen.attainment)
    saved, costs = chosen.cost_per_h - fewer.cost_per_h, more.cost_per_h - chosen.cost_per_h
    return (
        f"One less would keep {lost:.1f} points less of the next minute's promise and save {saved:.2f} an hour; "
        f"one more would keep {gained:.1f} points more for {costs:.2f}."
    )
