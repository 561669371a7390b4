"""What a policy may say and probably does not mean."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config import units
from tidegate.config.engines import batch_size
from tidegate.config.settings import ModelSettings, Settings
from tidegate.core.scaling_settings import ScalingPolicy

_AIMS = (ScalingPolicy.CONCURRENCY, ScalingPolicy.TIDAL)
"""The laws with a use for ``concurrency_target``."""


def warnings_of(settings: Settings) -> tuple[str, ...]:
    """Each in one sentence that names the keys and both numbers."""
    found = [warning for model in settings.models.values() for warning in _target(model)]
    for model in settings.models.values():
        for where, way in _ways(model):
            found += [*_batch(where, way), *_memory(where, way, settings)]
    found += [warning for model in settings.models.values() for warning in _unchecked(model)]
    return (*found, *_room_for_the_least(settings), *_spilling(settings))


def _ways(model: ModelSettings) -> Iterator[tuple[str, ModelSettings]]:
    """The model and its variants, each with its place in the file."""
    yield f"models.{model.model}", model
    for name, variant in model.variants.items():
        yield f"models.{model.model}.variants.{name}", variant


def _batch(where: str, model: ModelSettings) -> Iterator[str]:
    """What the engine is started with is not what is counted on."""
    slots, batch = model.fleet.slots, None
    if model.spec is not None:
        batch = batch_size(model.spec, model.fleet.engine, model.gpus_per_replica)
    if batch is not None and batch != slots:
        yield (
            f"{where}.slots is {slots} but the command line gives the {model.fleet.engine} engine "
            f"a batch size of {batch}; make them equal"
        )


def _target(model: ModelSettings) -> Iterator[str]:
    """A target and a batch size that differ cost money or latency, and look like neither."""
    slots, scaling = model.fleet.slots, model.fleet.scaling
    target = scaling.concurrency_target
    if scaling.policy in _AIMS and target is not None and target != slots:
        if target > slots and scaling.policy is ScalingPolicy.TIDAL:
            consequence = "the smaller one counts"
        elif target > slots:
            consequence = "replicas are added only when requests already wait"
        else:
            consequence = "replicas are added before those that run are full"
        yield (
            f"models.{model.model}.scaling.concurrency_target is {target:g} but "
            f"models.{model.model}.slots, the engine's batch size, is {slots}: {consequence}"
        )


def _memory(where: str, model: ModelSettings, settings: Settings) -> Iterator[str]:
    """A replica's memory counts only on a GPU whose own is known."""
    if model.memory_bytes is None:
        return
    said = f"{where}.memory is {units.format_size(model.memory_bytes)} but"
    unknown = [str(device.index) for device in settings.gpus if device.memory_bytes is None]
    silent = [] if settings.gpus else [n.name for n in settings.nodes if n.gpus[0].memory_bytes is None]
    if model.gpus_per_replica == 0:
        yield f"{said} {where}.gpus is 0: only memory of GPUs is counted"
    elif unknown:
        yield (
            f"{said} fleet.gpus does not say the memory of device {', '.join(unknown)}, which will carry one "
            f"replica at a time; write {{index: {unknown[0]}, memory: 80GiB}}"
        )
    elif silent:
        yield (
            f"{said} fleet.nodes.{silent[0]}.memory is not said, so each GPU there will carry one replica at a time"
        )


def _unchecked(model: ModelSettings) -> Iterator[str]:
    """Over plain HTTP whoever stands between can send other weights."""
    spec = model.spec
    if spec is not None and spec.weights.startswith("http://") and spec.weights_sha256 is None:
        yield (
            f"models.{model.model}.weights come over http:// and models.{model.model}.weights_sha256 does not say "
            "what must come; write it, or use https://"
        )


def _spilling(settings: Settings) -> Iterator[str]:
    """Spilling takes nothing of what a day's money must keep for an hour of it."""
    per_day = settings.limits.max_cost_per_day
    spilt = sum(model.fleet.spill_cost_per_h for model in settings.models.values())
    if per_day is not None and spilt > per_day:
        yield (
            f"all spill.max_cost together are {spilt:g}/h, but fleet.max_cost_per_day is {per_day:g}/d, which must "
            "bear an hour of it: nothing will be spilt"
        )


def _room_for_the_least(settings: Settings) -> Iterator[str]:
    """Caps come first, so some models would stay below their ``min_replicas``."""
    limits, models = settings.limits, settings.models.values()
    least = sum(model.fleet.scaling.min_replicas for model in models)
    if limits.max_replicas is not None and least > limits.max_replicas:
        yield f"all min_replicas together are {least}, but fleet.max_replicas is {limits.max_replicas}"
    started = [model for model in models if model.spec is not None]
    gpus = sum(model.fleet.scaling.min_replicas * model.gpus_per_replica for model in started)
    available = sum(len(node.gpus) for node in settings.nodes)
    if limits.max_gpus is not None:
        available = min(available, limits.max_gpus)
    if gpus > available:
        yield f"all min_replicas together need {gpus} GPUs, but the fleet may use {available}"
    cost = sum(model.fleet.scaling.min_replicas * model.fleet.price_per_h for model in models)
    if limits.max_cost_per_h is not None and cost > limits.max_cost_per_h:
        yield f"all min_replicas together cost {cost:g}/h, but fleet.max_cost is {limits.max_cost_per_h:g}/h"
