"""What a new policy file cannot change in a running Tidegate."""

from __future__ import annotations

from tidegate.config.settings import ModelSettings, Settings
from tidegate.core.types import Address

_GATEWAY = ("host", "port", "admin_host", "admin_port")


def differences(old: Settings, new: Settings) -> list[str]:
    """The keys that differ and take effect only with a restart; empty when ``new`` can be taken over whole.

    Models may come and go, and limits, API keys, routing, queues, scaling, restarts, prices and deadlines
    may change at any time: they are values of the brains and of the gateway. Replicas whose engines would
    now be started otherwise are replaced by the controller. Engines that someone else runs are not ours
    to replace.
    """
    fixed = [f"gateway.{name}" for name in _GATEWAY if _differs(old.gateway, new.gateway, name)]
    if old.gpus != new.gpus:
        fixed.append("fleet.gpus")
    elif old.nodes != new.nodes:
        fixed.append("fleet.nodes")
    if old.state_dir != new.state_dir:
        fixed.append("fleet.state_dir")
    if old.weights.cache_dir != new.weights.cache_dir:
        fixed.append("weights.cache_dir")
    if old.journal_dir != new.journal_dir:
        fixed.append("journal.dir")
    if old.journal_max_bytes != new.journal_max_bytes:
        fixed.append("journal.max_size")
    for name in old.models.keys() & new.models.keys():
        before, after = _static(old.models[name]), _static(new.models[name])
        fixed += [f"models.{name}.{key}static" for key in before if before[key] != after.get(key)]
    return sorted(fixed)


def _static(model: ModelSettings) -> dict[str, tuple[Address, ...]]:
    """Addresses by the place where they stand. A variant that comes or goes changes nothing for the others."""
    return {"": model.static} | {f"variants.{name}.": each.static for name, each in model.variants.items()}


def _differs(old: object, new: object, attribute: str) -> bool:
    return bool(getattr(old, attribute) != getattr(new, attribute))
