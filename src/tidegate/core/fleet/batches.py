"""How many requests the engines of one model are known to run at once, variant by variant, and where that is fewer than
its slots say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidegate.core.fleet.replicas import Replica
from tidegate.core.fleet.variants import OWN, Variants
from tidegate.core.settings import FleetModel


class Batches:
    """Of one model. What a single engine has shown is the replica's (``batchsize``)."""

    def __init__(self, variants: Variants) -> None:
        self._variants = variants
        self._sizes: dict[str, int] = {}
        """Requests that engines of each variant run at once at most, where that has been seen."""

    def __repr__(self) -> str:
        return f"<Batches {self._sizes}>"

    def slots(self, variant: str) -> int:
        """Requests that one replica of this variant takes at once: what its settings say, or its engine's batch size where
        that is known to be smaller."""
        slots = self._spec(variant).slots
        return min(slots, self._sizes.get(variant, slots))

    def learn(self, variant: str, replicas: Iterable[Replica]) -> None:
        """One of this variant has shown its batch size, or a larger one than it was thought to have. ``replicas``: all of
        the model that were started as one would be now."""
        alike = [each for each in replicas if each.variant == variant and not each.is_ended]
        sizes = [each.batch.size for each in alike if each.batch.size]
        self._sizes.pop(variant, None)
        if sizes:
            self._sizes[variant] = min(sizes)

    def keep_same(self, before: Mapping[str, FleetModel]) -> None:
        """The variants have new settings; those were the old ones. What is known of engines that are started as they were
        stays known."""
        self._sizes = {
            name: batch
            for name, batch in self._sizes.items()
            if (was := before.get(name)) is not None
            and (now := self._variants.spec(name)) is not None
            and now.command_hash == was.command_hash
        }

    @property
    def mismatch(self) -> str:
        """Which engines run fewer requests at once than they are counted on for, in words; empty: none is known to."""
        said = []
        target = self._variants.specs[OWN].scaling.concurrency_target
        for variant, batch in sorted(self._sizes.items()):
            slots = self._spec(variant).slots
            if batch >= slots:
                continue
            whose = self._variants.named(variant)
            beyond = (
                f" and its concurrency_target {target:g}" if target is not None and target > batch else ""
            )
            said.append(
                f"{f'{whose}: ' if whose else ''}an engine runs {batch} requests at once while others wait in it, "
                f"but its slots are {slots}{beyond}; make them equal"
            )
        return "; ".join(said)

    def _spec(self, variant: str) -> FleetModel:
        return self._variants.spec(variant) or self._variants.specs[OWN]
