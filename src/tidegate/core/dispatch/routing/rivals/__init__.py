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

Factory = Callable[[Dice, int], Picker]
"""From dice, and the tokens that fit into a replica's memory, to a fresh picker."""

RIVALS: dict[str, Factory] = {
    "round-robin": lambda _dice, _kv: RoundRobin(),
    "least-request": lambda dice, _kv: LeastRequest(dice),
    "power-of-two": lambda dice, _kv: PowerOfTwo(dice),
    "least-tokens": lambda _dice, _kv: LeastTokens(),
    "consistent-hash": lambda _dice, _kv: ConsistentHash(),
    "llm-d-sticky": lambda dice, _kv: LlmDSticky(dice),
    "llm-d-blend": LlmDBlend,
    "dynamo-kv": DynamoKv,
    "smg-cache-aware": lambda dice, _kv: SmgCacheAware(dice),
    "production-stack-loadaware": lambda dice, _kv: ProductionStackLoadAware(dice),
    "aibrix-prefix": lambda dice, _kv: AibrixPrefix(dice),
    "preble": Preble,
}


def rival(name: str, dice: Dice, kv_tokens: int) -> Picker:
    """A fresh one of this name.

    Raises:
        KeyError: there is none; the message lists those there are.
    """
    factory = RIVALS.get(name)
    if factory is None:
        message = f"router is {name!r}; known are {', '.join(RIVALS)}"
        raise KeyError(message)
    return factory(dice, kv_tokens)
