"""What must hold between the keys of one model's scaling: bounds, laws, their constants, schedules."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config.constants import constants_of, mistakes_in
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import KeyPath
from tidegate.config.variant_rules import addresses_of
from tidegate.core.scaling_settings import ScalingPolicy


def scaling_findings(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    """Every rule of these that the model breaks."""
    where = (*path, "scaling")
    yield from _bounds(where, model)
    yield from _thresholds(where, model)
    yield from _law(where, model)
    yield from _also(where, model)
    yield from _schedule(where, model)


def _bounds(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    scaling = model.scaling
    least, most = (*path, "min_replicas"), (*path, "max_replicas")
    top = scaling.max_replicas
    if model.static is not None and "max_replicas" not in scaling.model_fields_set:
        return
    if scaling.min_replicas > top:
        message = f"it must be at most max_replicas, which is {top}"
        yield Finding(least, str(scaling.min_replicas), message, (least, most))


def _thresholds(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    where, law = (*path, "thresholds"), model.scaling.thresholds
    policy = (*path, "policy")
    if model.scaling.policy != ScalingPolicy.THRESHOLDS.value:
        if law.model_fields_set:
            message = (
                f"has no meaning with policy {model.scaling.policy}; set policy: thresholds or leave it out"
            )
            yield Finding(where, None, message, (policy,))
        return
    for what in ("queue_depth", "gpu_utilization"):
        low, high = getattr(law, f"min_{what}"), getattr(law, f"max_{what}")
        if low >= high:
            key, other = (*where, f"min_{what}"), (*where, f"max_{what}")
            message = f"it must be below max_{what}, which is {high:g}"
            yield Finding(key, f"{low:g}", message, (key, other))


def _law(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    policy = ScalingPolicy(model.scaling.policy)
    known, named = constants_of(policy), (*path, "policy")
    if model.scaling.law and not known:
        message = f"has no meaning with policy {policy.value}, which has no constants; leave it out"
        yield Finding((*path, "law"), None, message, ((*path, "law"), named))
        return
    for key, message in mistakes_in(policy, model.scaling.law):
        where = (*path, "law", key)
        yield Finding(where, str(model.scaling.law[key]), message, (where, named))


def _also(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    seen = {model.scaling.policy}
    for place, text in enumerate(model.scaling.also):
        name = text.partition(":")[0]
        if name in seen:
            where = (*path, "also", place)
            yield Finding(
                where, name, "it is named already; each law counts once", (where, (*path, "policy"))
            )
        seen.add(name)


def _schedule(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    scaling, where = model.scaling, (*path, "schedule")
    if scaling.policy == ScalingPolicy.FORECAST.value and not scaling.schedule and not scaling.also:
        message = "is missing; with policy forecast nothing else asks for replicas before a forecast has proven itself"
        yield Finding((*path, "also"), None, message, ((*path, "policy"), (*path, "also")))
    if scaling.policy == ScalingPolicy.CRON.value and not scaling.schedule and not scaling.also:
        message = "is missing; with policy cron nothing else asks for replicas"
        yield Finding(where, None, message, ((*path, "policy"), where))
    most = addresses_of(model) if model.static and "max_replicas" not in scaling.model_fields_set else None
    most = scaling.max_replicas if most is None else most
    for place, floor in enumerate(scaling.schedule):
        if floor.replicas > most:
            key = (*where, place, "replicas")
            message = f"it must be at most max_replicas, which is {most}"
            yield Finding(key, str(floor.replicas), message, (key, (*path, "max_replicas")))
