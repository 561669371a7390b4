"""The ways in which one model can be run: the settings of each, what each is worth, and how its starts go.

The model's own settings are the first one, without a name here and called ``default`` elsewhere. Numbers of replicas that
laws ask for are in replicas of that one. A replica of another variant counts as its *share*: what it answers when it is
full, over what one of the first does, both from the learned capacity (``core.capacity``) at the lengths of today's
requests. Until both are known it is the ratio of their slots; and always under laws that count requests which are there at
once (``COUNTING_POLICIES``): a slow replica holds its requests for longer, so what they count has grown already.
"""

from __future__ import annotations

from tidegate.core.fleet.answering import full_replica
from tidegate.core.fleet.predicting import traffic_of
from tidegate.core.fleet.replicas import Replica, route_gpu, size_in
from tidegate.core.fleet.scaling.policies import Demand
from tidegate.core.fleet.sizes import Size
from tidegate.core.fleet.starts import Block, StartGate
from tidegate.core.lifecycle import State
from tidegate.core.scaling_settings import COUNTING_POLICIES
from tidegate.core.settings import FleetModel

OWN = ""
DEFAULT = "default"
"""What the model's own settings are called where people read it."""
LEARN_EVERY_S = 60.0
SHARE_STEP = 0.1
"""A share that is measured so little otherwise stays as it is: a mix is not to change with each measurement."""
SHARE_LEAST, SHARE_MOST = 0.01, 100.0


class Variants:
    """One model's ways to run."""

    def __init__(self, spec: FleetModel) -> None:
        self.specs: dict[str, FleetModel] = {}
        """The first is the model's own."""
        self.sizes: dict[str, Size] = {}
        """What one replica of each takes."""
        self._gates: dict[str, StartGate] = {}
        self._shares: dict[str, float] = {}
        self._learn_s = 0.0
        self._learned: set[str] = set()
        self._take(spec)

    def __repr__(self) -> str:
        return f"<Variants {', '.join(f'{name or DEFAULT} {self.share(name):g}' for name in self.specs)}>"

    @property
    def is_mixed(self) -> bool:
        """There is more than one."""
        return len(self.specs) > 1

    @property
    def failures(self) -> int:
        """Failed starts in a row, of the variant that has most."""
        return max(gate.failures for gate in self._gates.values())

    def configure(self, spec: FleetModel) -> None:
        """New settings; old failures are forgiven."""
        self._take(spec)
        for gate in self._gates.values():
            gate.configure(spec.restarts)

    def named(self, name: str) -> str:
        """For people: empty where there is only one."""
        return (name or DEFAULT) if self.is_mixed else ""

    def spec(self, name: str) -> FleetModel | None:
        """How a replica of this variant would be started; None when it is not configured."""
        return self.specs.get(name)

    def gate(self, name: str) -> StartGate:
        """The failures of one variant; those of one that is gone count for the first."""
        return self._gates.get(name) or self._gates[OWN]

    def block(self, now_s: float) -> Block | None:
        """What forbids every start now; of several the one that is over first. None when some variant may be started."""
        blocks = [gate.block(now_s) for gate in self._gates.values()]
        known = [block for block in blocks if block is not None]
        if len(known) < len(blocks):
            return None
        return min(known, key=lambda block: block.until_s or 0.0)

    def blocked_until_s(self, now_s: float) -> list[float | None]:
        """When each variant that is blocked may be started again."""
        blocks = [gate.block(now_s) for gate in self._gates.values()]
        return [block.until_s for block in blocks if block is not None]

    def share(self, name: str) -> float:
        """Of a reference replica, what one of this variant carries."""
        return self._shares.get(name, 1)

    def share_of(self, replica: Replica) -> float:
        """What this replica carries, also when its variant is not configured any more."""
        if replica.variant in self._shares:
            return self._shares[replica.variant]
        return self.share_by_slots(replica.spec) if replica.variant else 1

    def share_by_slots(self, spec: FleetModel) -> float:
        """What one that was started so carries, before anything is known of it."""
        return _within(spec.slots / self.specs[OWN].slots)

    def bounds(self, least: int, most: int) -> tuple[int, int]:
        """Numbers of reference replicas between which so many replicas of any variant can be."""
        shares = self._shares.values()
        return int(least * min(shares)), max(1, -int(-most * max(shares) // 1))

    def learn(self, demand: Demand, now_s: float) -> None:
        """Measure the shares anew, where what replicas can do is known."""
        if now_s < self._learn_s or self._counts():
            return
        self._learn_s = now_s + LEARN_EVERY_S
        traffic, own = traffic_of(demand, now_s), demand.capacities.get("")
        if traffic is None or own is None:
            return
        base = full_replica(traffic, own, self.specs[OWN].slots).requests_per_s
        for name, spec in self.specs.items():
            capacity = demand.capacities.get(route_gpu(name, spec))
            if name == OWN or capacity is None:
                continue
            share = _within(full_replica(traffic, capacity, spec.slots).requests_per_s / base)
            if name not in self._learned or abs(share - self._shares[name]) > SHARE_STEP * self._shares[name]:
                self._learned.add(name)
                self._shares[name] = share

    def _counts(self) -> bool:
        return set(self.specs[OWN].scaling.policies) <= set(COUNTING_POLICIES)

    def _take(self, spec: FleetModel) -> None:
        known = self.specs
        self.specs = {OWN: spec} | {one.name: spec.as_variant(one) for one in spec.variants}
        self.sizes = {name: size_in(each, State.SERVING) for name, each in self.specs.items()}
        self._gates = {name: self._gates.get(name) or StartGate(spec.restarts) for name in self.specs}
        # What was measured stays true for a variant that is as it was, beside a first one that is.
        stays = {
            name
            for name in self._learned
            if name in self.specs
            and not self._counts()
            and all(_is_same(known[n], self.specs[n]) for n in (OWN, name))
        }
        self._learned = stays
        self._shares = {
            name: self._shares[name] if name in stays else self.share_by_slots(each) if name else 1
            for name, each in self.specs.items()
        }


def _is_same(one: FleetModel, other: FleetModel) -> bool:
    def machine(spec: FleetModel) -> tuple[object, ...]:
        return spec.slots, spec.gpus, spec.kind, spec.command_hash

    return machine(one) == machine(other)


def _within(share: float) -> float:
    return round(max(SHARE_LEAST, min(share, SHARE_MOST)), 2)
