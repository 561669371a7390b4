"""The starts of a journal: when each was ordered, the stages that it was seen in, and what its engine said of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import msgspec

from tidegate.core.events import FleetConfigured, ReplicaSeen, WeightsSeen
from tidegate.core.fleet.artifacts import LEAST_BYTES
from tidegate.core.fleet.kinds import StartKinds
from tidegate.core.fleet.levers import Start, StartReport, report
from tidegate.core.lifecycle import Seen, State
from tidegate.core.nodes import Place
from tidegate.core.settings import FleetModel
from tidegate.core.types import ModelId
from tidegate.runtime.replay import JournalError, Replayed, event_of, read
from tidegate.runtime.segments import segments

_STAGE = {
    Seen.PROCURING: State.PROCURING,
    Seen.PULLING: State.PULLING,
    Seen.LOADING: State.LOADING,
    Seen.STARTING: State.STARTING,
}
_HEARD = ("ReplicaSeen", "WeightsSeen", "FleetConfigured")


@dataclass(slots=True)
class _Way:
    """A replica on its way up."""

    model: ModelId
    kind: str
    ordered_s: float
    state: State
    since_s: float
    stages: dict[State, float] = field(default_factory=dict)

    def go_on(self, state: State, now_s: float) -> None:
        """It is in another stage now; the same one seen again is no news."""
        if state is not self.state:
            self.stages[self.state] = self.stages.get(self.state, 0.0) + now_s - self.since_s
            self.state, self.since_s = state, now_s


@dataclass(slots=True)
class _Kind:
    """One model's starts in one of its ways."""

    starts: list[Start] = field(default_factory=list)
    wakes_s: list[float] = field(default_factory=list)
    failed: int = 0


class _Order(msgspec.Struct, frozen=True):
    """What launches and wake-ups have in common."""

    replica_id: str
    model: str = ""
    variant: str = ""
    place: Place | None = None


class StartBook:
    """Follows the turns of the fleet's controller, of one run after the other."""

    def __init__(self) -> None:
        self._ways: dict[str, _Way] = {}
        self._waking_s: dict[str, float] = {}
        self._of: dict[str, tuple[ModelId, str]] = {}
        self._ending: set[str] = set()
        self._kinds: dict[tuple[ModelId, str], _Kind] = defaultdict(_Kind)
        self._weights: dict[ModelId, WeightsSeen] = {}
        self._rates: dict[str, list[float]] = defaultdict(list)
        self._specs: dict[ModelId, FleetModel] = {}
        self._nodes = StartKinds()

    def reports(self, sleeps: Callable[[str], bool]) -> list[StartReport]:
        """One for each model and kind that was started or woken; ``sleeps`` says which engines can sleep."""
        rates = {source: median(each) for source, each in self._rates.items()}
        return [
            report(
                model,
                kind,
                found.starts,
                found.wakes_s,
                found.failed,
                rates,
                can_sleep=sleeps(self._specs[model].engine if model in self._specs else ""),
            )
            for (model, kind), found in sorted(self._kinds.items())
        ]

    def ordered(self, name: str, order: _Order, now_s: float) -> None:
        """A replica is to start, to wake or to end."""
        replica_id = order.replica_id
        if name == "Launch":
            model = ModelId(order.model)
            kind = self._kind(model, order)
            self._of[replica_id] = model, kind
            self._ways[replica_id] = _Way(model, kind, now_s, State.REQUESTED, now_s)
            self._ending.discard(replica_id)  # a former run had another of that name
        elif name == "Wake":
            self._waking_s[replica_id] = now_s
        else:
            self._ending.add(replica_id)

    def configured(self, event: FleetConfigured) -> None:
        """Which engines there are, and which nodes."""
        self._specs |= event.models
        self._nodes.configure(event.nodes)

    def _kind(self, model: ModelId, order: _Order) -> str:
        """As the controller tells starts apart."""
        spec = self._specs.get(model)
        if spec is None or order.place is None:
            return order.variant
        spec = next((spec.as_variant(one) for one in spec.variants if one.name == order.variant), spec)
        return self._nodes.at(order.variant, spec, order.place)

    def weights(self, event: WeightsSeen) -> None:
        """What is on a disk, and how it came there. The same fetch told twice is one."""
        last = self._weights.get(event.model)
        self._weights[event.model] = event
        fetch = event.fetched_bytes, event.fetched_in_s
        if last is not None and fetch == (last.fetched_bytes, last.fetched_in_s):
            return
        if event.fetched_bytes >= LEAST_BYTES and event.fetched_in_s > 0.0:
            self._rates[event.host].append(event.fetched_bytes / event.fetched_in_s)

    def seen(self, event: ReplicaSeen, now_s: float) -> None:
        """Something happened to a replica."""
        replica_id = event.replica_id
        way = self._ways.get(replica_id)
        match event.seen:
            case Seen.READY if way is not None:
                del self._ways[replica_id]
                self._kinds[way.model, way.kind].starts.append(self._start(way, event, now_s))
            case Seen.WOKEN if replica_id in self._waking_s and replica_id in self._of:
                self._kinds[self._of[replica_id]].wakes_s.append(now_s - self._waking_s.pop(replica_id))
            case Seen.SLEPT:
                self._waking_s.pop(replica_id, None)
            case Seen.EXITED | Seen.GAVE_UP | Seen.UNRESPONSIVE:
                self._waking_s.pop(replica_id, None)
                if way is not None:
                    del self._ways[replica_id]
                    self._kinds[way.model, way.kind].failed += replica_id not in self._ending
            case what if way is not None and what in _STAGE:
                way.go_on(_STAGE[what], now_s)
            case _:
                pass

    def _start(self, way: _Way, event: ReplicaSeen, now_s: float) -> Start:
        way.go_on(State.WARM, now_s)
        weights = self._weights.get(way.model)
        pulled = State.PULLING in way.stages
        return Start(
            took_s=now_s - way.ordered_s,
            stages=way.stages,
            parts=dict(event.parts),
            compiled=event.compiled,
            pulled_bytes=(weights.fetched_bytes or weights.total_bytes) if pulled and weights else None,
            source=weights.host if pulled and weights else "",
        )


def start_files(path: Path) -> list[Path]:
    """A journal's segments of all its runs, or the one file that is named: starts need no beginning of a run.

    Raises:
        JournalError: there is none.
    """
    if path.is_file():
        return [path]
    found = segments(path)
    if not found:
        raise JournalError(f"no journal at {path}")
    return found


def starts_of(files: list[Path]) -> StartBook:
    """Read all of them.

    Raises:
        JournalError: a line is not one of a journal, or of one that this version can read.
    """
    book = StartBook()
    for source, turn in read(files, Replayed()):
        if turn.brain != "fleet":
            continue
        if next(iter(turn.event), "") in _HEARD:
            _, event = event_of(turn, source)
            match event:
                case ReplicaSeen():
                    book.seen(event, turn.t)
                case WeightsSeen():
                    book.weights(event)
                case FleetConfigured():
                    book.configured(event)
                case _:
                    pass
        for name, order in _orders(turn.effects):
            book.ordered(name, order, turn.t)
    return book


def _orders(effects: msgspec.Raw) -> Iterator[tuple[str, _Order]]:
    if effects == b"[]":
        return
    for effect in _decode(effects):
        name, raw = next(iter(effect.items()))
        if name in ("Launch", "Wake", "Stop"):
            yield name, msgspec.json.decode(raw, type=_Order)


_decode = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode
