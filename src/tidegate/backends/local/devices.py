"""Which GPUs and CPU cores are whose.

The controller chooses GPUs (``core.fleet.placement``). Here they are checked: what was told wrong, or is held by a
process that cannot be killed, is refused. Cores are chosen here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.nodes import LOCAL, Gpu, Place


@dataclass(frozen=True, slots=True)
class Claim:
    """The devices of one replica."""

    gpus: tuple[int, ...] = ()
    memory_bytes: int | None = None
    """On each of its GPUs; None takes them whole."""
    cores: tuple[int, ...] = ()


class NoDevice(RuntimeError):
    """The replica does not fit on what is left."""


class Devices:
    """What is there and who has it. A claim holds until it is given back."""

    def __init__(self, gpus: Iterable[Gpu] = (), cores: Iterable[int] = ()) -> None:
        self._gpus = {gpu.index: gpu for gpu in gpus}
        self._cores = tuple(sorted(cores))
        self._claims: list[Claim] = []

    def __repr__(self) -> str:
        return f"<Devices {len(self._gpus)} GPUs, {len(self._cores)} cores, {len(self._claims)} claims>"

    def take(self, gpus: int, place: Place | None, cores: int) -> Claim:
        """The devices that the controller has chosen for one more replica, and cores.

        Raises:
            NoDevice: they are not here, not free, or not as many as it needs.
        """
        if gpus == 0:
            claim = Claim(cores=self._choose_cores(cores))
        else:
            self._check(gpus, place)
            assert place is not None
            claim = Claim(place.gpus, place.memory_bytes, self._choose_cores(cores))
        self._claims.append(claim)
        return claim

    def claim(self, claim: Claim) -> bool:
        """Mark the devices of a replica that runs already; False when they are not there for it."""
        fits = all(index in self._gpus and self._fits(index, claim.memory_bytes) for index in claim.gpus)
        if fits:
            self._claims.append(claim)
        return fits

    def give_back(self, claim: Claim) -> None:
        """The replica is gone."""
        if claim in self._claims:
            self._claims.remove(claim)

    def _check(self, count: int, place: Place | None) -> None:
        if place is None or place.node != LOCAL or len(place.gpus) != count:
            told = "none" if place is None else f"{len(place.gpus)} of {place.node}"
            raise NoDevice(f"it needs {count} GPUs of this machine, and its order names {told}")
        for index in place.gpus:
            if index not in self._gpus:
                raise NoDevice(f"GPU {index} is not among the {len(self._gpus)} in fleet.gpus")
            if not self._fits(index, place.memory_bytes):
                room = "" if place.memory_bytes is None else f" for {place.memory_bytes / 2**30:.1f} GiB more"
                raise NoDevice(f"GPU {index} has no room{room}: another replica is there")

    def _fits(self, index: int, memory_bytes: int | None) -> bool:
        present = self._claims_on(index)
        total = self._gpus[index].memory_bytes
        if memory_bytes is None or total is None or any(claim.memory_bytes is None for claim in present):
            return not present
        return self._used_bytes(index) + memory_bytes <= total

    def _used_bytes(self, index: int) -> int:
        return sum(claim.memory_bytes or 0 for claim in self._claims_on(index))

    def _claims_on(self, index: int) -> Sequence[Claim]:
        return [claim for claim in self._claims if index in claim.gpus]

    def _choose_cores(self, count: int) -> tuple[int, ...]:
        if count == 0 or not self._cores:
            return ()
        load = Counter(core for claim in self._claims for core in claim.cores)
        return tuple(sorted(sorted(self._cores, key=lambda core: (load[core], core))[:count]))
