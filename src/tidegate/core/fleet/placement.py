"""On which GPUs a replica goes: bin packing that keeps room for the next start.

All GPUs of one replica are on one node and of one kind. Among the places that fit, it goes where the most room is
left for the largest replica that may be started next; among equals, where the most is left for the next largest, and
so on; then where the fewest empty GPUs are taken; then on the fullest node, where the fewest GPUs stay empty and the least
memory stays free beside it; then on the cheapest node, then by name and index. So a replica of one GPU splits a node's last room for one of four only where no other place exists.

A place that exists is always found: nodes and kinds are all looked at, and on one of them any GPUs that fit will do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidegate.core.fleet.sizes import Size
from tidegate.core.nodes import Gpu, Node, Place

_GIB = 2**30
NAMED_MOST = 3
"""Nodes that a refusal names, the ones with the most room first."""
REMEMBERED_MOST = 20_000
"""States of nodes for which the best step is remembered: with eight GPUs to a node there are a few hundred."""

DeviceState = tuple[int, int, int]
"""Memory in all (-1: not known), memory taken, and replicas there (-1: one has it whole)."""


def room_on(state: DeviceState, memory_bytes: int | None) -> int:
    """How many more replicas fit on one GPU."""
    total, used, count = state
    if memory_bytes is None or total < 0:
        return int(count == 0)
    return 0 if count < 0 else max(0, total - used) // memory_bytes


def room_in(states: Iterable[DeviceState], size: Size) -> int:
    """How many more replicas fit on these GPUs, each on as many different ones as it needs."""
    rooms = [room for state in states if (room := room_on(state, size.memory_bytes))]
    if len(rooms) < size.gpus:
        return 0
    if size.gpus == 1:
        return sum(rooms)
    if size.memory_bytes is None:
        return len(rooms) // size.gpus
    # So many fit when no GPU has to be used twice by one of them.
    count = sum(rooms) // size.gpus
    while sum(min(room, count) for room in rooms) < count * size.gpus:
        count -= 1
    return count


def with_one_more(state: DeviceState, memory_bytes: int | None) -> DeviceState:
    """The same GPU with one more replica on it."""
    total, used, count = state
    if memory_bytes is None or total < 0:
        return total, used, -1
    return total, used + memory_bytes, count + 1


@dataclass(slots=True)
class _Device:
    """One GPU and what it carries."""

    gpu: Gpu
    used_bytes: int = 0
    shared: int = 0
    whole: int = 0
    """Replicas that have it for themselves: one, unless somebody was told wrong."""

    @property
    def state(self) -> DeviceState:
        total = -1 if self.gpu.memory_bytes is None else self.gpu.memory_bytes
        return total, self.used_bytes, -1 if self.whole else self.shared

    def change(self, memory_bytes: int | None, by: int) -> None:
        if memory_bytes is None or self.gpu.memory_bytes is None:
            self.whole += by
        else:
            self.used_bytes += by * memory_bytes
            self.shared += by


@dataclass(slots=True)
class _Bank:
    """The GPUs of one kind in one node."""

    node: str
    kind: str
    price_per_gpu: float
    devices: list[_Device]
    _states: tuple[DeviceState, ...] | None = None

    @property
    def states(self) -> tuple[DeviceState, ...]:
        """In order, so that two banks in which the same is left are equal. Sorted when somebody looks: most are only
        filled."""
        if self._states is None:
            self._states = tuple(sorted(device.state for device in self.devices))
        return self._states

    def note(self) -> None:
        """Something came or went."""
        self._states = None


Step = tuple[tuple[int, ...], tuple[DeviceState, ...]]
"""How bad it would be, smallest first; and the states of the GPUs that would be taken."""


class Outlook:
    """What may be started next, and which step on a node leaves the most room for it. It only remembers what follows
    from the sizes, so grounds may share it."""

    def __init__(self, sizes: Iterable[Size] = ()) -> None:
        """``sizes``: of the configured models."""
        needs = {size.on_gpus for size in sizes if size.needs_place}
        self._sizes = sorted(needs, key=lambda s: (-s.gpus, -_weight(s), s.kind))
        self._steps: dict[tuple[str, tuple[DeviceState, ...], int, int | None], Step | None] = {}

    def __repr__(self) -> str:
        return f"<Outlook {len(self._sizes)} sizes>"

    def step(self, kind: str, states: tuple[DeviceState, ...], size: Size) -> Step | None:
        """The best way to put one more on these GPUs; None when it does not fit."""
        key = kind, states, size.gpus, size.memory_bytes
        if key not in self._steps:
            if len(self._steps) >= REMEMBERED_MOST:
                self._steps.clear()
            steps = (self._judged(kind, states, size, taken) for taken in _choices(states, size))
            self._steps[key] = min(steps, default=None)
        return self._steps[key]

    def _judged(
        self, kind: str, states: tuple[DeviceState, ...], size: Size, taken: tuple[DeviceState, ...]
    ) -> Step:
        after = list(states)
        for state in taken:
            after.remove(state)
        changed = [with_one_more(state, size.memory_bytes) for state in taken]
        after += changed
        # Sizes of another kind lose nothing here, and must not shift the order of the others.
        lost = [
            room_in(states, other) - room_in(after, other) if other.kind in ("", kind) else 0
            for other in self._sizes
        ]
        opened = sum(count == 0 for _, _, count in taken)
        empty = sum(count == 0 for _, _, count in after)
        free = sum(total - used for total, used, count in changed if count > 0)
        return (*lost, opened, empty, free), taken


def _weight(size: Size) -> float:
    return float("inf") if size.memory_bytes is None else size.memory_bytes


def _choices(states: tuple[DeviceState, ...], size: Size) -> Iterator[tuple[DeviceState, ...]]:
    """Sets of GPUs on which it fits: each kind of state for one GPU, the fullest ones for several."""
    fitting = [state for state in states if room_on(state, size.memory_bytes)]
    if len(fitting) < size.gpus:
        return
    if size.gpus == 1:
        yield from ((state,) for state in dict.fromkeys(fitting))
        return
    fitting.sort(key=lambda state: (-state[1], state[0]))
    yield tuple(fitting[: size.gpus])


class Ground:
    """What stands on the nodes. Whoever takes or leaves a place says so here."""

    def __init__(self, nodes: Iterable[Node], outlook: Outlook, kept: str | None = None) -> None:
        """``kept``: a node that is kept free for one model, so others find no place there."""
        self._outlook = outlook
        self._kept = kept
        self._devices: dict[tuple[str, int], tuple[_Bank, _Device]] = {}
        self._banks: list[_Bank] = []
        self._found: dict[tuple[Size, bool], Place | None] = {}
        self._refused: dict[Size, str] = {}
        """Both remember answers since something last came or went: many models ask about few sizes."""
        for node in nodes:
            self._add(node)

    def __repr__(self) -> str:
        return f"<Ground {len(self._banks)} banks, {len(self._devices)} GPUs>"

    def _add(self, node: Node) -> None:
        price = (node.price_per_h or 0.0) / max(1, len(node.gpus))
        by_kind: dict[str, list[_Device]] = {}
        for gpu in node.gpus:
            by_kind.setdefault(gpu.kind, []).append(_Device(gpu))
        for kind, devices in by_kind.items():
            devices.sort(key=lambda device: device.gpu.index)
            bank = _Bank(node.name, kind, price, devices)
            self._banks.append(bank)
            self._devices.update({(node.name, each.gpu.index): (bank, each) for each in devices})

    @property
    def is_known(self) -> bool:
        """There are nodes at all."""
        return bool(self._banks)

    def hold(self, place: Place) -> None:
        """A replica stands there, whether it fits or not. GPUs that are not known hold nothing."""
        self._change(place, 1)

    def free(self, place: Place) -> None:
        """The replica that was held there is gone."""
        self._change(place, -1)

    @contextmanager
    def as_if(self) -> Iterator[None]:
        """Whoever is held or freed meanwhile is freed or held again: what is remembered stays true."""
        found, self._found, refused, self._refused = self._found, {}, self._refused, {}
        yield
        self._found, self._refused = found, refused

    def fits(self, place: Place) -> bool:
        """One more replica could stand on just these GPUs."""
        found = [self._devices.get((place.node, index)) for index in place.gpus]
        return all(each is not None and room_on(each[1].state, place.memory_bytes) for each in found)

    def find(self, size: Size, *, is_kept_for: bool = False) -> Place | None:
        """The best place for one more; None when there is none. ``is_kept_for``: it is of the model for which a node is
        kept."""
        key = size.on_gpus, is_kept_for
        if key not in self._found:
            self._found[key] = self._best(size, is_kept_for=is_kept_for)
        return self._found[key]

    def _best(self, size: Size, *, is_kept_for: bool) -> Place | None:
        best: tuple[tuple[int, ...], float, str, str] | None = None
        found: tuple[_Bank, tuple[DeviceState, ...]] | None = None
        for bank in self._banks:
            if (size.kind and size.kind != bank.kind) or (bank.node == self._kept and not is_kept_for):
                continue
            step = self._outlook.step(bank.kind, bank.states, size)
            if step is None:
                continue
            score = step[0], bank.price_per_gpu, bank.node, bank.kind
            if best is None or score < best:
                best, found = score, (bank, step[1])
        return None if found is None else Place(found[0].node, _indexes(*found), size.memory_bytes)

    def most_free(self, size: Size) -> str | None:
        """The node on which the fewest GPUs have to become free for one more; None when it would fit on none."""
        ranked = [(-free, bank.node) for bank in self._banks if (free := self._free(bank, size)) is not None]
        return min(ranked)[1] if ranked else None

    def why_not(self, size: Size) -> str:
        """Why there is no place for it, naming the nodes that come nearest."""
        size = size.on_gpus
        if size not in self._refused:
            self._refused[size] = self._refusal(size)
        return self._refused[size]

    def _refusal(self, size: Size) -> str:
        kind = f" of kind {size.kind}" if size.kind else ""
        room = "" if size.memory_bytes is None else f" with {size.memory_bytes / _GIB:g} GiB free"
        frees: dict[str, int] = {}
        for bank in self._banks:
            free = self._free(bank, size)
            if free is not None:
                frees[bank.node] = max(free, frees.get(bank.node, 0))
        if not frees:
            return f"no node has {_gpus(size.gpus)}{kind}{room.replace(' free', '')}"
        what = f"{size.gpus} GPUs{kind}{room}" if room else f"{size.gpus} free GPUs{kind}"
        if size.gpus == 1:
            what = f"a GPU{kind}{room}" if room else f"a free GPU{kind}"
        nearest = sorted(frees.items(), key=lambda pair: (-pair[1], pair[0]))
        said = [f"{node} has {free}" for node, free in nearest[:NAMED_MOST]]
        if len(nearest) > NAMED_MOST:
            said.append("others fewer" if nearest[NAMED_MOST][1] < nearest[0][1] else "others no more")
        if self._kept is not None and frees.get(self._kept, 0) >= size.gpus:
            said.append(f"{self._kept} is kept for a larger one that has waited longer")
        return f"no node has {what}; {', '.join(said)}"

    def _change(self, place: Place, by: int) -> None:
        self._found.clear()
        self._refused.clear()
        for index in place.gpus:
            found = self._devices.get((place.node, index))
            if found is not None:
                bank, device = found
                device.change(place.memory_bytes, by)
                bank.note()

    @staticmethod
    def _free(bank: _Bank, size: Size) -> int | None:
        """GPUs on which one more of it would fit; None when it would not even on empty ones."""
        if size.kind and size.kind != bank.kind:
            return None
        empty = [(state[0], 0, 0) for state in bank.states]
        if sum(room_on(state, size.memory_bytes) > 0 for state in empty) < size.gpus:
            return None
        return sum(room_on(state, size.memory_bytes) > 0 for state in bank.states)


def _indexes(bank: _Bank, taken: tuple[DeviceState, ...]) -> tuple[int, ...]:
    """The first GPUs that are in these states."""
    wanted, chosen = list(taken), []
    for device in bank.devices:
        if device.state in wanted:
            wanted.remove(device.state)
            chosen.append(device.gpu.index)
    return tuple(sorted(chosen))


def _gpus(count: int) -> str:
    return "a GPU" if count == 1 else f"{count} GPUs"
