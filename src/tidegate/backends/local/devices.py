"""Which GPUs and CPU cores a replica gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.core.nodes import Gpu


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

    def take(self, gpus: int, memory_bytes: int | None, cores: int) -> Claim:
        """Devices for one more replica.

        Raises:
            NoDevice: not enough GPUs with enough room.
        """
        claim = Claim(self._choose_gpus(gpus, memory_bytes), memory_bytes, self._choose_cores(cores))
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

    def _choose_gpus(self, count: int, memory_bytes: int | None) -> tuple[int, ...]:
        if count == 0:
            return ()
        fitting = [index for index in sorted(self._gpus) if self._fits(index, memory_bytes)]
        if len(fitting) < count:
            room = "" if memory_bytes is None else f" with {memory_bytes / 2**30:.1f} GiB free"
            message = f"it needs {count} GPUs{room}; {len(fitting)} of {len(self._gpus)} are left"
            raise NoDevice(message)
        # The fullest that still fit: whole GPUs stay free for those who need them whole.
        fitting.sort(key=lambda index: (-self._used_bytes(index), index))
        return tuple(sorted(fitting[:count]))

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
