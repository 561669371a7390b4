"""Other systems' routing laws by name, with their own constants: for comparison, and for migration.

Each file names its source. Chance comes only from the dice that are handed in.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.core.dispatch.routing.pick import LeastTokens, Picker, RoundRobin
from tidegate.core.dispatch.routing.rivals.aibrix import AibrixPrefix
from tidegate.core.dispatch.routing.rivals.dynamo import DynamoKv
from tidegate.core.dispatch.routing.rivals.llm_d import LlmDBlend, LlmDSticky
from tidegate.core.dispatch.routing.rivals.preble import Preble
from tidegate.core.dispatch.routing.rivals.production_stack import ProductionStackLoadAware
from tidegate.core.dispatch.routing.rivals.smg import SmgCacheAware
from tidegate.core.dispatch.routing.rivals.spread import ConsistentHash, LeastRequest, PowerOfTwo
from tidegate.core.types import Dice

RIVALS: dict[str, Callable[[Dice], Picker]] = {
    "round-robin": lambda _dice: RoundRobin(),
    "least-request": LeastRequest,
    "power-of-two": PowerOfTwo,
    "least-tokens": lambda _dice: LeastTokens(),
    "consistent-hash": lambda _dice: ConsistentHash(),
    "llm-d-sticky": LlmDSticky,
    "llm-d-blend": LlmDBlend,
    "dynamo-kv": DynamoKv,
    "smg-cache-aware": SmgCacheAware,
    "production-stack-loadaware": ProductionStackLoadAware,
    "aibrix-prefix": AibrixPrefix,
    "preble": Preble,
}


def rival(name: str, dice: Dice) -> Picker:
    """A fresh one of this name.

    Raises:
        KeyError: there is none; the message lists those there are.
    """
    try:
        return RIVALS[name](dice)
    except KeyError:
        message = f"router is {name!r}; known are {', '.join(RIVALS)}"
        raise KeyError(message) from None
