"""Why one request of a journal was sent where it was: its dispatcher, played again and asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidegate.core.dispatch import Dispatcher
from tidegate.core.dispatch.routing.cost import Choice
from tidegate.core.effects import Record, Resume, Send, Spill
from tidegate.core.events import RequestArrived
from tidegate.core.types import ReplicaId, RequestId
from tidegate.runtime.replay import Replayed, event_of, read, recorded_effects
from tidegate.runtime.turns import Brain


@dataclass(frozen=True, slots=True)
class Routed:
    """One request's way."""

    arrived_s: float
    arrived: RequestArrived
    choices: tuple[Choice, ...]
    """Each time that it was sent to a replica of ours; not the second attempts beside a first (``Hedge``)."""
    is_as_recorded: bool
    """False when this version chose otherwise than what is written."""
    record: Record | None
    """How it ended; None when the journal ends before."""
    spilt: tuple[float, Spill] | None = None
    """When it went to a pay-per-token upstream, and why; None: it did not."""


def routed(files: list[Path], request_id: str) -> Routed | None:
    """The way of a request; None when the journal has no such request.

    Raises:
        JournalError: a line is not one of a journal, or of one that this version can read.
    """
    dispatcher = Dispatcher()
    brain: Brain = dispatcher
    choices = dispatcher.ask_about(RequestId(request_id))
    name = request_id.encode()
    arrival: tuple[float, RequestArrived] | None = None
    sent: list[ReplicaId] = []
    record: Record | None = None
    spilt: tuple[float, Spill] | None = None
    for source, turn in read(files, Replayed()):
        if turn.brain != "dispatch":
            continue
        event = event_of(turn, source)[1]
        if isinstance(event, RequestArrived) and event.request_id == request_id:
            arrival = turn.t, event
        brain.on(event, turn.t)
        if arrival is None or name not in bytes(turn.effects):
            continue
        ours = [
            one for one in recorded_effects(turn, source) if getattr(one, "request_id", None) == request_id
        ]
        sent += [one.replica_id for one in ours if isinstance(one, Send | Resume)]
        spilt = next(((turn.t, one) for one in ours if isinstance(one, Spill)), spilt)
        record = next((one for one in ours if isinstance(one, Record)), None)
        if record is not None:
            break
    if arrival is None:
        return None
    is_as_recorded = sent == [choice.replica_id for choice in choices]
    return Routed(*arrival, tuple(choices), is_as_recorded, record, spilt)
