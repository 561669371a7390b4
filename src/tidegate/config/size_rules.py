"""What one replica takes must fit into the fleet."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.config import units
from tidegate.config.finding import Finding
from tidegate.config.model_keys import ModelKeys
from tidegate.config.nodes import fitting, nodes_of
from tidegate.config.problems import KeyPath
from tidegate.config.shell_keys import Fleet


def size_findings(path: KeyPath, model: ModelKeys, fleet: Fleet) -> Iterator[Finding]:
    """A model of which not even one replica could ever be started."""
    gpus, price, cap = (*path, "gpus"), (*path, "price"), ("fleet", "max_gpus")
    listed = ("fleet", "nodes" if fleet.nodes else "gpus")
    most = max((len(node.gpus) for node in nodes_of(fleet)), default=0)
    if model.static is None and model.gpus > most:
        what = "GPUs of the largest of fleet.nodes" if fleet.nodes else "devices in fleet.gpus"
        yield Finding(
            gpus, str(model.gpus), f"it must be at most {most}, the number of {what}", (gpus, listed)
        )
    elif model.static is None:
        yield from _misfits(path, model, fleet, listed)
    if fleet.max_gpus is not None and model.gpus > fleet.max_gpus:
        message = f"it must be at most fleet.max_gpus, which is {fleet.max_gpus}"
        yield Finding(gpus, str(model.gpus), message, (gpus, cap))
    if fleet.max_cost_per_h is not None and model.price_per_h > fleet.max_cost_per_h:
        message = f"it must be at most fleet.max_cost, which is {units.format_money(fleet.max_cost_per_h)}"
        yield Finding(price, units.format_money(model.price_per_h), message, (price, ("fleet", "max_cost")))


def _misfits(path: KeyPath, model: ModelKeys, fleet: Fleet, listed: KeyPath) -> Iterator[Finding]:
    """There are GPUs enough, but too few of the kind, or with the memory, that one replica needs."""
    gpus, kind, memory = (*path, "gpus"), (*path, "kind"), (*path, "memory")
    where = "on one of fleet.nodes" if fleet.nodes else "in fleet.gpus"
    anyway = model.model_copy(update={"memory_bytes": None})
    alike = max((fitting(node, anyway) for node in nodes_of(fleet)), default=0)
    roomy = max((fitting(node, model) for node in nodes_of(fleet)), default=0)
    if model.kind is not None and alike < max(1, model.gpus):
        message = f"{alike} devices {where} are of that kind, and a replica needs {model.gpus}"
        yield Finding(kind, model.kind, message, (kind, gpus, listed))
    elif model.memory_bytes is not None and roomy < model.gpus:
        message = f"{roomy} devices {where} have so much memory, and a replica needs {model.gpus}"
        yield Finding(memory, units.format_size(model.memory_bytes), message, (memory, gpus, kind, listed))
