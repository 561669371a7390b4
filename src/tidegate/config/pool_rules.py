"""What must hold between the keys of a model's pool, and between models that share one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidegate.config.engines import sleeps
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.problems import KeyPath


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
        for attribute in _SAME_IN_A_GROUP:
            if getattr(model, attribute) != getattr(models[other], attribute):
                key = ModelKeys.model_fields[attribute].alias or attribute
                where = ("models", name, "pool", "group")
                message = f"{key} must be the same as that of {other}, with which it shares its replicas"
                yield Finding(where, group, message, (where, ("models", name, key), ("models", other, key)))
