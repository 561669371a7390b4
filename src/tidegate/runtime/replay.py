"""Reads a journal and plays it through the brains again.

The brains are pure, so the same events at the same times must give the same effects, byte for byte.
Where they do not, either the code has changed since or a promise is broken; both are worth knowing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tidegate.core import effects, events
from tidegate.core.dispatch import Dispatcher
from tidegate.core.fleet import FleetController
from tidegate.runtime.journal import line
from tidegate.runtime.segments import segments
from tidegate.runtime.turns import Brain


class JournalError(ValueError):
    """A file is not a journal, or not one that can be replayed."""


class Turn(msgspec.Struct, frozen=True):
    """One line, the event and effects still as written."""

    t: float
    brain: str
    event: dict[str, msgspec.Raw]
    effects: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Difference:
    """A turn that came out otherwise."""

    source: str
    at_s: float
    brain: str
    event: str
    recorded: str
    replayed: str


@dataclass(slots=True)
class Replayed:
    """What a replay found."""

    turns: int = 0
    effects: int = 0
    differences: int = 0
    first: list[Difference] = field(default_factory=list)
    """The first few differences."""
    missing: int = 0
    """Turns that the journal itself says it lost; nothing after them can be vouched for."""
    unreadable: int = 0
    """Torn lines, as a power cut leaves at the end."""
    by_event: Counter[str] = field(default_factory=Counter)

    @property
    def is_faithful(self) -> bool:
        """Every effect came out byte for byte, and no turn was missing."""
        return self.turns > 0 and not self.differences and not self.missing and not self.unreadable


DIFFERENCES_KEPT = 20
_EVENT_TYPES: dict[str, type] = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and kind.__module__ == events.__name__
}
_EFFECT_TYPES: dict[str, type] = {
    name: kind
    for name, kind in vars(effects).items()
    if isinstance(kind, type) and kind.__module__ == effects.__name__
}
_decode_effects = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode


def journal_files(path: Path) -> list[Path]:
    """The segments of one run: of the run that a file belongs to, or of the newest in a folder.

    Raises:
        JournalError: there is none, or the run's beginning is gone.
    """
    if path.is_file() and not path.name[-12:-6].isdigit():
        return [path]
    folder = path if path.is_dir() else path.parent
    found = segments(folder)
    if not found or not path.exists():
        raise JournalError(f"no journal at {path}")
    run = (found[-1] if path.is_dir() else path).name[:-13]
    of_run = [segment for segment in found if segment.name[:-13] == run]
    if not of_run[0].name.endswith("-000001.jsonl"):
        raise JournalError(
            f"run {run} begins with {of_run[0].name}: its first segments were dropped to keep within "
            "journal.max_size, so its brains cannot be brought to the same state"
        )
    return of_run


def read(files: list[Path], found: Replayed) -> Iterator[tuple[str, Turn]]:
    """Every turn with the place it stands at. Lost and torn lines are counted in ``found``."""
    decode = msgspec.json.Decoder(Turn).decode
    for path in files:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                try:
                    yield f"{path.name}:{number}", decode(text)
                except msgspec.ValidationError:
                    found.missing += _missing(text, f"{path.name}:{number}")
                except msgspec.DecodeError:
                    found.unreadable += 1


def _missing(text: bytes, source: str) -> int:
    """How many turns a line says are missing: none when it opens a run."""
    try:
        head = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        return 0 if "journal" in head else int(bytes(head["missing"]))
    except (msgspec.DecodeError, KeyError, ValueError):
        raise JournalError(f"{source} is not a line of a journal") from None


def replay(files: list[Path]) -> Replayed:
    """Play one run through fresh brains and compare every effect with what was recorded.

    Raises:
        JournalError: a line is not one of a journal, or of one that this version can read.
    """
    found = Replayed()
    brains: dict[str, Brain] = {}
    for source, turn in read(files, found):
        brain = brains.get(turn.brain)
        if brain is None:
            brain = brains[turn.brain] = _fresh(turn.brain, source)
        name, event = event_of(turn, source)
        ordered = brain.on(event, turn.t)
        recorded = bytes(turn.effects)
        replayed = msgspec.json.encode(line(turn.brain, turn.t, event, ordered)["effects"])
        found.turns += 1
        found.effects += len(ordered)
        found.by_event[f"{turn.brain}.{name}"] += 1
        if recorded != replayed:
            found.differences += 1
            if len(found.first) < DIFFERENCES_KEPT:
                found.first.append(
                    Difference(source, turn.t, turn.brain, name, recorded.decode(), replayed.decode())
                )
    return found


def event_of(turn: Turn, source: str) -> tuple[str, object]:
    """A turn's event by name and as it was.

    Raises:
        JournalError: this version knows no such event, or reads it otherwise.
    """
    name, raw = next(iter(turn.event.items()), ("", msgspec.Raw()))
    kind = _EVENT_TYPES.get(name)
    if kind is None:
        raise JournalError(f"{source}: there is no event {name!r}")
    try:
        return name, msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise JournalError(f"{source}: this version reads {name} otherwise: {error}") from None


def recorded_effects(turn: Turn, source: str) -> list[object]:
    """A turn's effects as they were.

    Raises:
        JournalError: this version knows no such effect, or reads it otherwise.
    """
    found: list[object] = []
    for effect in _decode_effects(turn.effects):
        name, raw = next(iter(effect.items()), ("", msgspec.Raw()))
        kind = _EFFECT_TYPES.get(name)
        if kind is None:
            raise JournalError(f"{source}: there is no effect {name!r}")
        try:
            found.append(msgspec.json.decode(raw, type=kind))
        except msgspec.ValidationError as error:
            raise JournalError(f"{source}: this version reads {name} otherwise: {error}") from None
    return found


def _fresh(brain: str, source: str) -> Brain:
    match brain:
        case "dispatch":
            return Dispatcher()
        case "fleet":
            return FleetController()
        case _:
            raise JournalError(f"{source}: there is no brain {brain!r}")
