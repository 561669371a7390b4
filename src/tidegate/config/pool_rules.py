"""What must hold between the keys of a model's pool, and between models that share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.config import units
from tidegate.config.engines import sleeps
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import KeyPath
from tidegate.config.variant_keys import VariantKeys


def pool_findings(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    """Of one model's ``pool``."""
    pool = model.pool
    least, most = (*path, "pool", "min_warm"), (*path, "pool", "max_warm")
    if pool.min_warm > pool.max_warm:
        message = f"it must be at most max_warm, which is {pool.max_warm}"
        yield Finding(least, str(pool.min_warm), message, (least, most))
    if pool.max_sleeping and not sleeps(model.engine):
        key, engine = (*path, "pool", "max_sleeping"), (*path, "engine")
        message = f"it must be 0 with engine {model.engine}, which cannot sleep"
        yield Finding(key, str(pool.max_sleeping), message, (key, engine))
    if model.static is not None and (pool.max_warm or pool.max_sleeping):
        where = (*path, "pool")
        message = "cannot stand together with static, an engine that someone else runs; leave one out"
        yield Finding(where, None, message, (where, (*path, "static")))


def pool_price_findings(path: KeyPath, model: ModelKeys) -> Iterator[Finding]:
    """What is held costs no more than what serves: else whoever goes to the pool could break a cap on money."""
    pool = model.pool
    held = max(pool.warm_price_per_h or 0.0, pool.sleeping_price_per_h)
    if (pool.max_warm or pool.max_sleeping) and 0.0 < model.price_per_h < held:
        price, key = (*path, "price"), (*path, "pool")
        message = f"nothing in its pool may cost more, and there is {units.format_money(held)}"
        yield Finding(price, units.format_money(model.price_per_h), message, (price, key))


_SAME_IN_A_GROUP = (
    "engine",
    "weights",
    "slots",
    "context_tokens",
    "extra_args",
    "env",
    "command",
    "lora",
    "gpus",
    "kind",
    "memory_bytes",
)


def group_findings(models: Mapping[str, ModelKeys]) -> Iterator[Finding]:
    """Models that share a pool but are not started alike."""
    first: dict[str, str] = {}
    for name, model in models.items():
        group = model.pool.group
        if not group:
            continue
        other = first.setdefault(group, name)
        differ = [each for each in _SAME_IN_A_GROUP if getattr(model, each) != getattr(models[other], each)]
        keys = [ModelKeys.model_fields[attribute].alias or attribute for attribute in differ]
        if _ways(model) != _ways(models[other]):
            keys.append("variants")
        for key in keys:
            where = ("models", name, "pool", "group")
            message = f"{key} must be the same as that of {other}, with which it shares its replicas"
            yield Finding(where, group, message, (where, ("models", name, key), ("models", other, key)))


def _ways(model: ModelKeys) -> dict[str, list[object]]:
    """How each of its variants is started."""
    return {
        name: [getattr(variant, each) for each in _SAME_IN_A_GROUP if each in VariantKeys.model_fields]
        for name, variant in model.variants.items()
    }
