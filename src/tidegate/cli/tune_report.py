"""What a search for settings found: a table, a policy file, a picture, an object for scripts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from tidegate.config.units import format_duration
from tidegate.core.scaling_settings import Promise
from tidegate.core.types import ModelId
from tidegate.planner.picture import Drawn, draw, page
from tidegate.planner.policy_file import written
from tidegate.planner.search import Tried
from tidegate.planner.trial import Settings
from tidegate.sim.fluid import Load, Score
from tidegate.sim.scenario import Scenario

NOT_ALL = "* The cheapest keeps the promise to all requests; these did not, and may be cheaper for that."


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that is told."""

    trace: str
    model: ModelId
    goal: float
    load: Load
    tuned_on: Load
    tried: list[Tried]
    shown: list[Tried]
    """The frontier, or as much of it as fits."""
    taken: Tried
    held_out: dict[int, Score]
    """By number of the trial; empty when nothing was held out."""
    scenario: Scenario

    @property
    def slo(self) -> str:
        """The promise in words."""
        slo = self.scenario.slo
        return f"TTFT {format_duration(slo.ttft_s)}, TPOT {format_duration(slo.tpot_s)}"

    @property
    def unit(self) -> str:
        """Of what is spent."""
        return "cost" if self.scenario.models[self.model].variants else "replica-hours"

    def amount(self, score: Score) -> str:
        """What was spent, in words."""
        return (
            f"{score.spent:.2f} {self.unit}"
            if self.unit == "replica-hours"
            else f"a cost of {score.spent:.2f}"
        )

    @property
    def keeps_goal(self) -> bool:
        """What was taken keeps the goal on the part tuned on, and on the one held out where there is one."""
        held = self.held_out.get(self.taken.number)
        return self.taken.score.attainment >= self.goal and (held is None or held.attainment >= self.goal)

    def verdict(self) -> str:
        """Whether what was taken keeps the goal, and where."""
        score, held = self.taken.score, self.held_out.get(self.taken.number)
        if score.attainment < self.goal:
            return f"No setting kept {self.goal:.2%}; this one kept most: {score.attainment:.2%}."
        if held is None:
            return "Nothing was held out: how it does on other traffic is not known."
        if held.attainment < self.goal:
            return (
                f"No setting kept {self.goal:.2%} on the held-out part too; this one kept most there: "
                f"{held.attainment:.2%}. Tune on more of it, with a smaller --hold-out."
            )
        return f"It keeps the goal on the held-out part too: {held.attainment:.2%}."


def print_report(report: Report) -> None:
    """The frontier, the settings as they were, and what was taken."""
    load = report.load
    title = (
        f"{report.trace}: {sum(load.requests):,.0f} requests in {load.span_s:,.0f} s, the first "
        f"{report.tuned_on.span_s:,.0f} s tuned on; {report.slo}; {len(report.tried)} settings tried"
    )
    click.echo(title)
    spent = report.unit.removeprefix("replica-")
    click.echo(
        f"{'':<4}{'tuned on: kept':>14}{spent:>9}{'regret':>10}{'held out: kept':>16}{spent:>9}{'regret':>10}"
    )
    rows = {one.number: one for one in [*report.shown, report.taken]}
    by_cost = sorted(rows.values(), key=lambda one: one.score.spent)
    listed = by_cost if report.tried[0].number in rows else [*by_cost, report.tried[0]]
    for one in listed:
        mark = ">" if one is report.taken else ""
        name = "as it was: " if one is report.tried[0] else ""
        kept, hours, regret = _cells(one.score)
        held_kept, held_hours, held_regret = _cells(report.held_out.get(one.number))
        click.echo(
            f"{mark:<4}{kept:>14}{hours:>9}{regret:>10}{held_kept:>16}{held_hours:>9}{held_regret:>10}  "
            f"{name}{described(one.settings)}"
        )
    taken = f"the cheapest that keeps {report.goal:.2%}. " if report.keeps_goal else ""
    click.echo(f"> taken: {taken}{report.verdict()}")
    told = [one.score for one in listed]
    told += [report.held_out[one.number] for one in listed if one.number in report.held_out]
    if not all(map(_keeps_all, told)):
        click.echo(NOT_ALL)


def described(settings: Settings) -> str:
    """Settings in a line."""
    target = settings.concurrency_target
    parts = [
        settings.policy.value,
        f"{settings.min_replicas}-{settings.max_replicas} replicas",
        f"window {format_duration(settings.window_s)}",
        f"down after {format_duration(settings.scale_down_delay_s)}",
    ]
    if target is not None:
        parts.append(f"target {target:g}")
    if settings.margin != 1.0:
        parts.append(f"{settings.margin:g} of the promise")
    return ", ".join(parts)


def _cells(score: Score | None) -> tuple[str, str, str]:
    if score is None:
        return "", "", ""
    mark = "  " if _keeps_all(score) else " *"
    return f"{score.attainment:.2%}", f"{score.spent:.2f}", f"{score.regret or 0.0:+.0%}{mark}"


def _keeps_all(score: Score) -> bool:
    """To the digits that are shown."""
    return round(score.attainment, 4) >= 1.0


def one_object(report: Report) -> dict[str, Any]:
    """Everything, for scripts."""

    def told(one: Tried) -> dict[str, Any]:
        held = report.held_out.get(one.number)
        settings = asdict(one.settings) | {"policy": one.settings.policy.value}
        return {
            "number": one.number,
            "settings": settings,
            "tuned": asdict(one.score),
            "held_out": None if held is None else asdict(held),
        }

    return {
        "trace": report.trace,
        "model": report.model,
        "goal": report.goal,
        "slo": asdict(report.scenario.slo),
        "requests": sum(report.load.requests),
        "tuned_s": report.tuned_on.span_s,
        "held_out_s": report.load.span_s - report.tuned_on.span_s,
        "trials": len(report.tried),
        "before": told(report.tried[0]),
        "taken": told(report.taken),
        "keeps_goal": report.keeps_goal,
        "verdict": report.verdict(),
        "frontier": [told(one) for one in report.shown],
    }


def write_all(report: Report, file: Path | None, options: dict[str, Any]) -> None:
    """The files that were asked for."""
    drawn = Drawn(
        f"{report.trace}: {len(report.tried)} settings, {report.slo}",
        report.tried,
        report.shown,
        report.taken,
        report.goal,
        report.unit,
    )
    if options["html"] is not None:
        options["html"].write_text(page(drawn), encoding="utf-8")
    if options["png"] is not None:
        try:
            draw(drawn, options["png"])
        except ImportError as error:
            raise click.UsageError(
                "--png needs matplotlib: in a clone run make setup, else pip install 'tidegate[report]'"
            ) from error
    if options["out"] is not None:
        slo = report.scenario.slo
        promise = Promise(slo.ttft_s, slo.tpot_s)
        document = _document(report, file)
        text = written(document, report.model, report.taken.settings, promise, _remarks(report))
        options["out"].write_text(text, encoding="utf-8")


def _document(report: Report, file: Path | None) -> dict[str, Any]:
    """The file's own; without one, a model on an emulated engine, to be replaced by a real one."""
    if file is not None:
        document: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        return document
    fleet = report.scenario.models[report.model].fleet
    return {
        "models": {
            report.model: {
                "engine": fleet.engine,
                "slots": fleet.slots,
                "price": f"{fleet.price_per_h:.2f}/h",
                "scaling": {},
            }
        }
    }


def _remarks(report: Report) -> list[str]:
    score, held = report.taken.score, report.held_out.get(report.taken.number)
    found = [
        f"Found by `tidegate tune` on {report.trace}: {len(report.tried)} settings tried, {report.slo}.",
        (
            f"On the part tuned on it keeps {score.attainment:.2%} for {report.amount(score)}, "
            f"{score.regret or 0.0:+.0%} beside the cheapest known afterwards, which keeps all of it."
        ),
    ]
    if held is not None:
        found.append(
            f"On the part held out: {held.attainment:.2%} for {held.spent:.2f}, {held.regret or 0.0:+.0%}."
        )
    if not report.keeps_goal:
        found.insert(0, f"WARNING: {report.verdict()}")
    if report.taken.settings.margin != 1.0:
        found.append(
            f"The promise below is {report.taken.settings.margin:g} of what is to be kept: the law plans with this margin."
        )
    return found
