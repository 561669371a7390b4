"""Who asks and for what: models, tenants and adapters in stated shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from tidegate.core.types import Dice, FlowId, ModelId
from tidegate.workload.chance import Weights, zipf_weights
from tidegate.workload.columns import Names
from tidegate.workload.traces import Trace


@dataclass(frozen=True, slots=True)
class Shares:
    """Names with weights. None among the names stands for none at all: the base model, no adapter."""

    names: tuple[str | None, ...]
    weights: tuple[float, ...]
    _drawn: Weights = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.names) != len(self.weights):
            message = f"{len(self.names)} names and {len(self.weights)} weights"
            raise ValueError(message)
        object.__setattr__(self, "_drawn", Weights(self.weights))

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Shares:
        """From a table of weights; they need not add up to 1."""
        return cls(tuple(weights), tuple(weights.values()))

    @classmethod
    def zipf(cls, names: Sequence[str | None], exponent: float = 1.0) -> Shares:
        """The k-th name in proportion to 1/k^exponent, as the popularity of LoRA adapters often is."""
        return cls(tuple(names), tuple(zipf_weights(len(names), exponent)))

    def draw(self, dice: Dice) -> str | None:
        return self.names[self._drawn.draw(dice)]


def labelled(
    trace: Trace,
    dice: Dice,
    *,
    models: Shares | None = None,
    tenants: Shares | None = None,
    adapters: Shares | None = None,
) -> Trace:
    """The trace with drawn names; all requests of one session get the same. What is not given stays."""
    named = trace.at(trace.arrived_s)
    if models is not None:
        named.models = Names()
        for name in _drawn(trace, models, dice):
            named.models.append(None if name is None else ModelId(name))
    if tenants is not None:
        named.tenants = Names()
        for name in _drawn(trace, tenants, dice):
            named.tenants.append(None if name is None else FlowId(name))
    if adapters is not None:
        named.adapters = Names()
        for name in _drawn(trace, adapters, dice):
            named.adapters.append(name)
    return named


def _drawn(trace: Trace, shares: Shares, dice: Dice) -> Iterator[str | None]:
    """One name a row; the rows of a session repeat the one that its first row drew."""
    kept: dict[str, str | None] = {}
    for session in trace.sessions or repeat(None, len(trace)):
        if session is None:
            yield shares.draw(dice)
        else:
            if session not in kept:
                kept[session] = shares.draw(dice)
            yield kept[session]
