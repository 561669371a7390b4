"""The decisions of a journal, each with the orders that came of it: about the number that serves, and about the pool.

What a second policy would have had is told beside them; what was fetched ahead has reasons of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec

from tidegate.core.effects import Decision, Pooled, Prefetch, Shadowed
from tidegate.core.fleet.warmpool import FOR_POOL
from tidegate.core.nodes import Place
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.replay import JournalError, Replayed, Turn, read

ORDERS = ("Launch", "Promote", "Demote", "Sleep", "Wake", "Stop")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Order:
    """What was ordered about one replica."""

    at_s: float
    order: str
    replica_id: ReplicaId
    because: str
    variant: str = ""
    """Of a launch: in which of the model's ways; empty: as its own settings say."""
    place: Place | None = None
    """Of a launch: on which GPUs."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One decision as it was written."""

    number: int
    """Of all the journal's decisions; the first is 1."""
    at_s: float
    source: str
    """Segment and line."""
    event: str
    """The fact that began the turn."""
    decision: Decision
    orders: list[Order] = field(default_factory=list)
    """What was ordered for its model until the next decision about it."""
    shadow: Shadowed | None = None
    """What the model's second policy had said by then."""


@dataclass(frozen=True, slots=True)
class RecordedPool:
    """One decision about what a pool is to hold."""

    number: int
    """Of all the journal's; the first is 1."""
    at_s: float
    source: str
    event: str
    pool: Pooled
    orders: list[Order] = field(default_factory=list)
    """What was ordered for this pool until the next decision about it."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Weights that were ordered ahead of need."""

    at_s: float
    source: str
    prefetch: Prefetch


class _Head(msgspec.Struct, frozen=True):
    """What all orders have in common."""

    replica_id: str
    because: str = ""
    model: str | None = None
    variant: str = ""
    place: Place | None = None


class Decided:
    """All that was decided in one run, in order. ``model``: about this one only; numbers stay those of the whole run.

    Raises:
        JournalError: a line is not one of a journal, or of one that this version can read.
    """

    def __init__(self, files: list[Path], model: ModelId | None = None) -> None:
        self.decisions: list[Recorded] = []
        self.pools: list[RecordedPool] = []
        self.fetched: list[Fetched] = []
        self.of = self.of_pools = 0
        """How many decisions of either kind there are in the run, about all models."""
        self.shadows: dict[ModelId, Shadowed] = {}
        """What each second policy said last."""
        self._last: dict[ModelId, Recorded] = {}
        self._last_pool: dict[ModelId, RecordedPool] = {}
        self._model_of: dict[str, ModelId] = {}
        decode = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
        for source, turn in read(files, Replayed()):
            if turn.brain == "fleet" and turn.effects != b"[]":
                effects = [next(iter(effect.items())) for effect in decode(turn.effects)]
                self._take(source, turn, effects)
        self.of, self.of_pools = len(self.decisions), len(self.pools)
        if model is not None:
            self.decisions = [one for one in self.decisions if one.decision.model == model]
            self.pools = [one for one in self.pools if one.pool.model == model]
            self.fetched = [one for one in self.fetched if one.prefetch.model == model]
            self.shadows = {name: said for name, said in self.shadows.items() if name == model}

    def __repr__(self) -> str:
        return f"<Decided {len(self.decisions)} decisions, {len(self.pools)} about pools>"

    def _take(self, source: str, turn: Turn, effects: Sequence[tuple[str, msgspec.Raw]]) -> None:
        event = next(iter(turn.event), "")
        for name, raw in effects:  # told after the decisions of their turn, and about them
            if name == "Shadowed":
                shadow = _read(raw, Shadowed, source)
                self.shadows[shadow.model] = shadow
        for name, raw in effects:
            if name == "Decision":
                decision = _read(raw, Decision, source)
                number, shadow_then = len(self.decisions) + 1, self.shadows.get(decision.model)
                found = Recorded(number, turn.t, source, event, decision, shadow=shadow_then)
                self.decisions.append(found)
                self._last[decision.model] = found
            elif name == "Pooled":
                pool = _read(raw, Pooled, source)
                about = RecordedPool(len(self.pools) + 1, turn.t, source, event, pool)
                self.pools.append(about)
                self._last_pool[pool.model] = about
            elif name == "Prefetch":
                self.fetched.append(Fetched(turn.t, source, _read(raw, Prefetch, source)))
            elif name in ORDERS:
                self._take_order(name, turn.t, msgspec.json.decode(raw, type=_Head))

    def _take_order(self, name: str, at_s: float, head: _Head) -> None:
        if head.model is not None:
            self._model_of[head.replica_id] = ModelId(head.model)
        model = self._model_of.get(head.replica_id)
        if model is None:
            return
        cause = self._last_pool.get(model) if head.because.startswith(FOR_POOL) else self._last.get(model)
        if cause is not None:
            about = ReplicaId(head.replica_id)
            cause.orders.append(Order(at_s, name, about, head.because, head.variant, head.place))


def _read(raw: msgspec.Raw, kind: type[T], source: str) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise JournalError(f"{source}: this version reads {kind.__name__} otherwise: {error}") from None
