"""Routers by name, and what those of one gateway share."""

from __future__ import annotations

from tidegate.core.capacity import CapacityBook
from tidegate.core.dispatch.prefix import PrefixIndex
from tidegate.core.dispatch.routing.cost import LeastSeconds
from tidegate.core.dispatch.routing.pick import LeastTokens, Picker, RoundRobin
from tidegate.core.dispatch.routing.rivals import rival
from tidegate.core.settings import PREFIX_INDEX_BYTES, DispatchConfig, Routing
from tidegate.core.types import Dice, ModelId


class Shared:
    """One capacity model for each kind of replica, one index of prefixes within one bound, one source of chance."""

    def __init__(self, dice: Dice | None = None) -> None:
        self.capacities = CapacityBook()
        self.index = PrefixIndex(PREFIX_INDEX_BYTES)
        self.dice = dice

    def __repr__(self) -> str:
        return f"<Shared {self.capacities!r} {self.index!r}>"


def router_for(model: ModelId, config: DispatchConfig, shared: Shared) -> Picker:
    """A fresh router of the configured kind.

    Raises:
        ValueError: one of the other systems' was asked for, and there are no dice.
    """
    match config.routing:
        case Routing.LEAST_SECONDS:
            return LeastSeconds(model, shared.capacities, shared.index, config.adapter_slots)
        case Routing.LEAST_TOKENS:
            return LeastTokens()
        case Routing.ROUND_ROBIN:
            return RoundRobin()
    if shared.dice is None:
        message = f"routing {config.routing.value} needs dice"
        raise ValueError(message)
    return rival(config.routing.value, shared.dice, config.kv_tokens)
