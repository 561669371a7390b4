"""The nodes of a policy: those that it names, or the machine that Tidegate runs on with the GPUs listed for it."""

from __future__ import annotations

from tidegate.config.model_keys import ModelKeys
from tidegate.config.node_keys import NodeKeys
from tidegate.config.problems import PolicyError, Problem
from tidegate.config.settings import Settings
from tidegate.config.shell_keys import Fleet
from tidegate.core.nodes import LOCAL, Gpu, Node


def nodes_of(fleet: Fleet) -> tuple[Node, ...]:
    """Where replicas are placed; empty when no GPU is known."""
    if fleet.nodes:
        return tuple(_node(name, node) for name, node in fleet.nodes.items())
    return (Node(LOCAL, tuple(fleet.gpus)),) if fleet.gpus else ()


def _node(name: str, node: NodeKeys) -> Node:
    gpus = tuple(Gpu(index, node.memory_bytes, node.kind or "") for index in range(node.gpus))
    return Node(name, gpus, node.price_per_h)


def fitting(node: Node, model: ModelKeys) -> int:
    """On how many of its GPUs one replica of a model could stand."""
    needed = model.memory_bytes
    return sum(
        model.kind in (None, gpu.kind)
        and (needed is None or gpu.memory_bytes is None or gpu.memory_bytes >= needed)
        for gpu in node.gpus
    )


def priced(fleet: Fleet, model: ModelKeys) -> ModelKeys:
    """The model with a price: without one of its own, a replica costs its share of the dearest node that it fits on."""
    if "price_per_h" in model.model_fields_set or model.static is not None:
        return model
    shares = [
        (node.price_per_h or 0.0) * model.gpus / len(node.gpus)
        for node in nodes_of(fleet)
        if fitting(node, model) >= model.gpus
    ]
    return model.model_copy(update={"price_per_h": max(shares, default=model.price_per_h)})


def check_here(settings: Settings, source: str) -> Settings:
    """The settings, if this machine can run them.

    Raises:
        PolicyError: they name nodes, and there is nothing yet that starts replicas on other machines.
    """
    if settings.nodes and not settings.gpus:
        message = (
            "names machines, which only `tidegate simulate` knows; the GPUs of this one are in fleet.gpus"
        )
        raise PolicyError(source, [Problem("fleet.nodes", None, message)])
    return settings
