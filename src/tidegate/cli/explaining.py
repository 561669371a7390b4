"""``tidegate explain``: why a decision was made, what held it back, and what one replica more or less would have done;
or why a request was sent where it was."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tidegate.cli.moments import SINCE_1970_S, Moment, shown

if TYPE_CHECKING:
    from tidegate.core.effects import Decision
    from tidegate.runtime.decided import Recorded

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

    ID is a decision's number in the list, or a replica's id: then the decision that started or ended it. Without an ID
    the decisions that changed a number are listed, the last ones if they are many. With --request it says where a request
    was sent, and what each replica with room would have cost it.
    """
    import msgspec

    from tidegate.runtime.decided import decisions
    from tidegate.runtime.replay import JournalError, journal_files

    try:
        files = journal_files(journal)
        if request_id is not None:
            _explain_request(files, request_id, as_json=as_json)
            return
        found = list(decisions(files))
    except JournalError as error:
        raise click.UsageError(str(error)) from error
    of = len(found)
    if model is not None:
        found = [one for one in found if one.decision.model == model]
    if not found:
        raise click.ClickException(f"{journal} has no decision" + (f" about {model!r}" if model else ""))
    chosen = _chosen(found, which, at_s)
    if as_json:
        meant = found if chosen is None else chosen
        click.echo(msgspec.json.encode({"decisions": meant}).decode())
    elif chosen is None:
        _list(found, show_all=show_all)
    else:
        for one in chosen:
            _explain(one, of)


def _chosen(found: list[Recorded], which: str | None, at_s: float | None) -> list[Recorded] | None:
    """The decisions that are meant; None for all of them."""
    if which is not None and at_s is not None:
        raise click.UsageError("an ID and --at say different things; name one of them")
    if at_s is not None:
        in_force = {one.decision.model: one for one in found if one.at_s <= at_s}
        if not in_force:
            raise click.UsageError(f"--at {shown(at_s)}: the first decision is at {shown(found[0].at_s)}")
        return list(in_force.values())
    if which is None:
        return None
    if which.isdecimal():
        named = [one for one in found if one.number == int(which)]
    else:
        named = [one for one in found if any(order.replica_id == which for order in one.orders)]
    if not named:
        what = (
            f"no decision {which}: there are"
            if which.isdecimal()
            else f"no decision about a replica {which}; decisions are"
        )
        raise click.UsageError(f"{what} {found[0].number} to {found[-1].number}")
    return named


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


def _list(found: list[Recorded], *, show_all: bool) -> None:
    """Two lines a decision; those that changed nothing are counted only, unless all are asked for."""
    changes = [one for one in found if one.decision.before != one.decision.desired]
    listed = found if show_all else changes[-LISTED:]
    click.echo(f"{'':>6}  {'at':<23}{'replicas':<10}{'kept with one less, as decided, one more':<42}held by")
    for one in listed:
        decision = one.decision
        guesses = (decision.fewer, decision.chosen, decision.more)
        kept = " / ".join(_share(guess.attainment) for guess in guesses)
        change = f"{decision.before} -> {decision.desired}"
        click.echo(
            f"{one.number:>6}  {shown(one.at_s, 1):<23}{change:<10}{kept:<42}{decision.held_by or 'nothing'}"
        )
        click.echo(f"{'':>8}{decision.model}: {decision.because}")
    of = f"{len(found)} decisions, {len(changes)} of them changed a number"
    rest = "" if show_all else f"; the last {len(listed)} of those are here, --all shows every one"
    click.echo(f"{of}{rest}. `tidegate explain JOURNAL NUMBER` says more.")


def _explain(one: Recorded, of: int) -> None:
    decision = one.decision
    click.echo(f"decision {one.number} of {of}, {shown(one.at_s)}, {one.source}")
    click.echo(f"  model     {decision.model}")
    click.echo(f"  replicas  {_change(decision)}")
    click.echo(f"  because   {decision.because}")
    click.echo(f"  held by   {_held(decision)}")
    click.echo(f"  heard     {one.event}")
    inputs = ", ".join(f"{name} {_input(value)}" for name, value in decision.inputs.items())
    click.echo(textwrap.fill(inputs, 100, initial_indent="  inputs    ", subsequent_indent=" " * 12))
    click.echo(
        f"\n  {'':<12}{'replicas':>9}{'slots':>7}{'without a slot':>16}{'promise kept':>14}{'cost per h':>12}"
    )
    rows = (("one less", decision.fewer), ("as decided", decision.chosen), ("one more", decision.more))
    for name, guess in rows:
        click.echo(
            f"  {name:<12}{guess.replicas:>9}{guess.slots:>7}{guess.queued:>16}{_share(guess.attainment):>14}"
            f"{guess.cost_per_h:>12.2f}"
        )
    click.echo(f"  {_verdict(decision)}")
    for order in one.orders:
        variant = f" ({order.variant})" if order.variant else ""
        place = f" on {order.place}" if order.place else ""
        click.echo(
            f"\n  {shown(order.at_s)}  {order.order} {order.replica_id}{variant}{place}: {order.because}"
        )
    click.echo()


def _input(value: float) -> str:
    return f"{value:,.6g}" if value < SINCE_1970_S else shown(value, 1)


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


def _share(value: float | None) -> str:
    return "?" if value is None else f"{value:.1%}"
