"""From what the user names to scenarios: a policy file or the built-in one, laws by name, settings changed.

Everything goes through the policy file's own checks: ``--set`` changes the document before it is read, so a
mistake there is told like one in the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import yaml

from tidegate.cli.sim_engines import profile_for, setup_of
from tidegate.config import PolicyError, Settings, parse
from tidegate.config.constants import laws_of
from tidegate.config.schema import SECTIONS, keys_of
from tidegate.core.scaling_settings import DAY_S, Promise, ScalingPolicy, SloKeda
from tidegate.core.settings import DispatchConfig, FleetModel, Routing
from tidegate.core.types import ModelId
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.sequence import Limits
from tidegate.sim.faults import Fault
from tidegate.sim.scenario import Machines, Scenario, Scraping, Slo
from tidegate.workload.traces import Trace

GPU_PRICE_PER_H = 2.50
"""Of the built-in policy: an hour of one GPU."""

GPUS = 1_024
"""Devices that the built-in policy names: more than anybody simulates, so that only limits limit."""

STATIC = "static"
STATIC_MOST = 10_000
"""As with ``max_replicas``."""
LAWS = (*(policy.value for policy in ScalingPolicy), STATIC)
"""What ``--policy`` takes besides files, each with constants of its own if wanted (``ray:target=8,up_delay=5s``),
and several joined by ``+``; ``static`` is ``max_replicas`` at all times, ``static:N`` is N."""
MONDAY_S = 4 * DAY_S
"""From the zero of the brains' clock, a Thursday, to the first Monday: a trace begins on one, at midnight."""

_SCALING, _MODEL = ("models", "*", "scaling"), ("models", "*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What holds for every policy that is compared."""

    sets: tuple[str, ...] = ()
    router: str | None = None
    profile: str | None = None
    cold_start: ColdStart | None = None
    slo: Slo | None = None
    faults: tuple[Fault, ...] = ()
    machines: Machines = Machines()
    scraping: Scraping = Scraping()
    settle_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Named:
    """A policy and what to call it."""

    name: str
    scenario: Scenario


def scenarios(
    file: Path | None, policy: str | None, others: Sequence[str], wishes: Wishes, trace: Trace
) -> list[Named]:
    """The policy that was asked for and those it is compared with, in that order.

    Raises:
        PolicyError: a policy has mistakes.
        click.UsageError: something else cannot be.
    """
    if policy is not None and not _is_law(policy):
        message = (
            f"--policy {policy}: it must be one of {', '.join(LAWS)}, {STATIC}:N, NAME:constant=value,… or several "
            "laws joined by +"
        )
        raise click.UsageError(message)
    first = policy or ("built-in" if file is None else file.stem)
    found = [Named(first, _scenario(file, policy, wishes, trace))]
    for other in others:
        if _is_law(other):
            found.append(Named(other, _scenario(file, other, wishes, trace)))
        elif Path(other).is_file():
            found.append(Named(Path(other).stem, _scenario(Path(other), None, wishes, trace)))
        else:
            message = f"--compare {other}: neither a policy file nor one of {', '.join(LAWS)}"
            raise click.UsageError(message)
    return found


def _is_law(name: str) -> bool:
    law, _, rest = name.partition(":")
    if law != STATIC:
        return law.partition("+")[0].strip() in LAWS
    return not rest or (rest.isdecimal() and len(rest) < 6 and int(rest) <= STATIC_MOST)


def _scenario(file: Path | None, law: str | None, wishes: Wishes, trace: Trace) -> Scenario:
    settings = _settings(file, wishes, trace)
    slo = wishes.slo or _promised(settings)
    setups = {}
    for model, found in settings.models.items():
        # A trace names adapters as it likes, and simulated engines have them all.
        fleet = replace(_under_law(found.fleet, law, slo), adapters=None, loads_adapters=False)
        setup = setup_of(found, fleet, wishes.profile, wishes.cold_start, trace)
        dispatch = replace(_routed(found.dispatch, wishes.router, setup.limits), adapters=None)
        setups[model] = replace(setup, dispatch=dispatch)
    return Scenario(
        models=setups,
        fleet=settings.limits,
        slo=slo,
        machines=wishes.machines,
        nodes=settings.nodes if file is not None and wishes.machines.nodes is None else (),
        scraping=wishes.scraping,
        faults=wishes.faults,
        request_timeout_s=settings.gateway.request_timeout_s,
        settle_s=wishes.settle_s,
    )


# ---- the policy document ----


def _settings(file: Path | None, wishes: Wishes, trace: Trace) -> Settings:
    if file is None:
        document, source = built_in(wishes, trace), "built-in policy"
    else:
        source = str(file)
        text = file.read_text(encoding="utf-8")
        if not wishes.sets:
            return parse(text, source, base=file.absolute().parent)
        parse(text, source, base=file.absolute().parent)  # its own mistakes are told with its own lines
        document = yaml.safe_load(text)
    for change in wishes.sets:
        _set(document, change)
    base = file.absolute().parent if file else Path.cwd()
    together = f"{source} with --set"
    try:
        return parse(yaml.safe_dump(document, sort_keys=False), together, base=base)
    except PolicyError as error:  # the lines are those of a text that nobody has seen
        raise PolicyError(together, [replace(problem, line=None) for problem in error.problems]) from None


def built_in(wishes: Wishes, trace: Trace) -> dict[str, Any]:
    """The policy without a file: one model for each that the trace names, one to eight replicas of each."""
    profile = profile_for(ModelId(""), wishes.profile)
    names = [str(name) for name in trace.models.table] if trace.models else []
    model = {
        "engine": "emulated",
        "slots": 64,
        "gpus": profile.gpus,
        "price": f"{GPU_PRICE_PER_H * profile.gpus:.2f}/h",
        "scaling": {"min_replicas": 1, "max_replicas": 8, "window": "30s", "scale_down_delay": "5m"},
    }
    if len(names) > 1:
        model["scaling"] = model["scaling"] | {"min_replicas": 0}  # type: ignore[operator]
    copies = {name: yaml.safe_load(yaml.safe_dump(model)) for name in names or [profile.model]}
    fleet = {"max_starts_per_hour": 1_000, "gpus": list(range(GPUS))}
    return {"fleet": fleet, "models": copies}


def _set(document: dict[str, Any], change: str) -> None:
    """``KEY=VALUE``; a key of a model or of its scaling is set in every model."""
    key, equals, text = change.partition("=")
    if not equals:
        raise click.UsageError(f"--set {change}: it must be KEY=VALUE")
    value = yaml.safe_load(text) if text.lstrip("-").replace(".", "", 1).isdigit() else text
    path = tuple(key.split("."))
    if path[0] in ("fleet", "gateway", "models"):
        _put(document, path, value)
        return
    place = _place_of(path)
    for model in document["models"].values():
        _put(model, (*place, *path), value)


def _place_of(path: tuple[str, ...]) -> tuple[str, ...]:
    """Where below a model a key stands that was named without its section."""
    for place in (_SCALING, _MODEL, *SECTIONS):
        if place[:2] == _MODEL and place in SECTIONS and path[0] in keys_of(SECTIONS[place]):
            return place[2:]
    raise click.UsageError(f"--set {'.'.join(path)}: no model has such a setting; see docs/policy-file.md")


def _put(mapping: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    for part in path[:-1]:
        mapping = mapping.setdefault(part, {})
        if not isinstance(mapping, dict):
            raise click.UsageError(f"--set {'.'.join(path)}: {part} is no section")
    mapping[path[-1]] = value


# ---- laws and engines ----


def _routed(dispatch: DispatchConfig, router: str | None, limits: Limits) -> DispatchConfig:
    """With the router that was asked for, ours or another system's; words may be joined either way."""
    if router is None:
        return dispatch
    for routing in Routing:
        if router.replace("-", "_") == routing.value.replace("-", "_"):
            return replace(dispatch, routing=routing, kv_tokens=limits.kv_blocks * limits.block_tokens)
    known = ", ".join(routing.value for routing in Routing)
    raise click.UsageError(f"--router {router}: it must be one of {known}")


def _promised(settings: Settings) -> Slo:
    """What the file promises its first model's clients."""
    promise = next(iter(settings.models.values())).fleet.scaling.promise
    return Slo(promise.ttft_s, promise.tpot_s)


def _under_law(fleet: FleetModel, law: str | None, slo: Slo) -> FleetModel:
    """The same model under another law; ``None`` leaves it as it is. What is promised is what is judged."""
    schedule = replace(fleet.scaling.schedule, ahead_s=((0.0, MONDAY_S),))
    scaling = replace(fleet.scaling, promise=Promise(slo.ttft_s, slo.tpot_s), schedule=schedule)
    if law is None:
        return replace(fleet, scaling=scaling)
    if law.startswith(STATIC):
        number = int(law.partition(":")[2] or scaling.max_replicas)
        fixed = replace(scaling, policy=ScalingPolicy.CONCURRENCY, min_replicas=number, max_replicas=number)
        return replace(fleet, scaling=fixed, variants=())  # so many of the model's own settings
    try:
        laws = laws_of(law)
    except ValueError as error:
        raise click.UsageError(f"policy {law}: {error}") from None
    promise = SloKeda(ttft_s=slo.ttft_s, tpot_s=slo.tpot_s)
    return replace(fleet, scaling=replace(scaling.under(laws), slo_keda=promise))
