"""The decisions of a journal, each with the orders that came of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidegate.core.effects import Decision
from tidegate.core.nodes import Place
from tidegate.core.types import ModelId, ReplicaId
from tidegate.runtime.replay import JournalError, Replayed, read

ORDERS = ("Launch", "Promote", "Demote", "Sleep", "Wake", "Stop")


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


class _Head(msgspec.Struct, frozen=True):
    """What all orders have in common."""

    replica_id: str
    because: str = ""
    model: str | None = None
    variant: str = ""
    place: Place | None = None


def decisions(files: list[Path]) -> Iterator[Recorded]:
    """All of one run, in order. A decision's orders are complete when the next one of its model has come.

    Raises:
        JournalError: a line is not one of a journal, or of one that this version can read.
    """
    decode = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
    last: dict[ModelId, Recorded] = {}
    model_of: dict[str, ModelId] = {}
    number = 0
    for source, turn in read(files, Replayed()):
        if turn.brain != "fleet" or turn.effects == b"[]":
            continue
        for effect in decode(turn.effects):
            name, raw = next(iter(effect.items()))
            if name == "Decision":
                number += 1
                found = Recorded(number, turn.t, source, next(iter(turn.event), ""), _decision(raw, source))
                last[found.decision.model] = found
                yield found
            elif name in ORDERS:
                head = msgspec.json.decode(raw, type=_Head)
                if head.model is not None:
                    model_of[head.replica_id] = ModelId(head.model)
                model = model_of.get(head.replica_id)
                decided = last.get(model) if model is not None else None
                if decided is not None:
                    about, why = ReplicaId(head.replica_id), head.because
                    decided.orders.append(Order(turn.t, name, about, why, head.variant, head.place))


def _decision(raw: msgspec.Raw, source: str) -> Decision:
    try:
        return msgspec.json.decode(raw, type=Decision)
    except msgspec.ValidationError as error:
        raise JournalError(f"{source}: this version reads Decision otherwise: {error}") from None
