"""A recorded day beside the same day under other settings, for people and for scripts."""

from __future__ import annotations

from typing import Any

import click

from tidegate.cli.moments import shown
from tidegate.core.fleet.variants import DEFAULT, OWN
from tidegate.core.types import ModelId
from tidegate.runtime.courses import Course, Step
from tidegate.runtime.otherwise import Otherwise

SHOWN = 30
OPEN_LOOP = (
    "The recorded demand is open loop: it came as it came, with the queue that stood before the recorded fleet, and does "
    "not answer to other numbers of replicas. Both promises are predictions by one model, to be compared with each other."
)
SAME = (
    "The settings are those of that day, and today's code decides as that day's did: both courses are the recorded one. The "
    "promise is predicted, not measured."
)


def print_courses(found: Otherwise, name: str) -> None:
    """Each model: sums, the first difference, and the numbers side by side."""
    for model in found.recorded:
        _print_model(found, model, name)
    for model in found.left_out:
        click.echo(f"{model}: {name} has no such model; it was left out")
    if found.missing:
        click.echo(f"{found.missing} turns are missing: the journal could not keep up")
    click.echo(SAME if found.is_same else OPEN_LOOP)


def _print_model(found: Otherwise, model: ModelId, name: str) -> None:
    recorded, replayed = found.recorded[model], found.replayed[model]
    click.echo(f"{model}: {found.span_s:,.0f} s, {_starts(found.start_s[model])}")
    click.echo(f"  {'':<22}{'recorded':>12}{name:>24}")
    for title, figure in _FIGURES:
        click.echo(f"  {title:<22}{figure(recorded):>12}{figure(replayed):>24}")
    first_s = found.first_difference(model)
    click.echo(f"  first difference      {'none' if first_s is None else f'at {shown(first_s, 1)}'}")
    if first_s is not None:
        _print_steps(recorded, replayed, first_s)
    click.echo()


def _starts(start_s: dict[str, float]) -> str:
    first = f"a start takes {start_s[OWN]:.1f} s"
    others = [f", of {name} {taken_s:.1f} s" for name, taken_s in start_s.items() if name != OWN]
    return first + "".join(others)


def _print_steps(recorded: Course, replayed: Course, from_s: float) -> None:
    moments = sorted({s.at_s for course in (recorded, replayed) for s in course.steps if s.at_s >= from_s})
    click.echo(f"\n  {'at':>21}{'recorded':>10}{'replayed':>10}  because")
    for at_s in moments[:SHOWN]:
        here = [step for course in (recorded, replayed) for step in course.steps if step.at_s == at_s]
        why = here[-1].because
        numbers = (_number(course.steps, at_s) for course in (recorded, replayed))
        click.echo(f"  {shown(at_s, 1):>21}{''.join(f'{number:>10}' for number in numbers)}  {why}")
    if len(moments) > SHOWN:
        click.echo(f"  and {len(moments) - SHOWN} moments more; --json has them all")


def _number(steps: list[Step], at_s: float) -> str:
    return next((str(step.desired) for step in reversed(steps) if step.at_s <= at_s), "")


def _kept(course: Course) -> str:
    kept = course.judged.attainment
    return "?" if kept is None else f"{kept:.2%}"


_FIGURES = (
    ("promise kept", _kept),
    ("replica-hours", lambda course: f"{course.judged.replica_hours:.2f}"),
    ("cost", lambda course: f"{course.judged.cost:.2f}"),
    ("changes of the number", lambda course: str(max(0, len(course.steps) - 1))),
    ("starts", lambda course: str(course.starts)),
)


def one_object(found: Otherwise, name: str) -> dict[str, Any]:
    """Everything, for scripts."""
    return {
        "settings": name,
        "span_s": found.span_s,
        "missing": found.missing,
        "left_out": found.left_out,
        "open_loop": not found.is_same,
        "is_recorded_course": found.is_same,
        "models": {
            model: {
                "start_s": found.start_s[model][OWN],
                "start_s_by_variant": {
                    name or DEFAULT: start_s for name, start_s in found.start_s[model].items()
                },
                "first_difference_s": found.first_difference(model),
                "recorded": _course(found.recorded[model]),
                "replayed": _course(found.replayed[model]),
            }
            for model in found.recorded
        },
    }


def _course(course: Course) -> dict[str, Any]:
    return {
        "predicted_attainment": course.judged.attainment,
        "judged_s": course.judged.judged_s,
        "replica_hours": course.judged.replica_hours,
        "cost": course.judged.cost,
        "starts": course.starts,
        "steps": course.steps,
    }
