"""Which backend runs which model."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.adapters.base import EngineSpec
from tidegate.adapters.registry import ADAPTERS
from tidegate.backends.base import Fleet, FleetEvent
from tidegate.backends.local.fleet import LocalFleet
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.provisions import Provisions
from tidegate.backends.static import StaticFleet, StaticModel
from tidegate.config.settings import ModelSettings, Settings
from tidegate.core.types import ModelId, ReplicaId


class Fleets:
    """The backends of one policy: engines started here, and engines that someone else runs."""

    def __init__(self, settings: Settings) -> None:
        self._local = LocalFleet(
            _local_models(settings),
            state_dir=settings.state_dir,
            gpus=settings.gpus,
            weights=settings.weights,
        )
        self._static = StaticFleet(_static_models(settings))
        self.by_model: dict[ModelId, Fleet] = {}
        self._assign(settings)

    async def lock(self) -> None:
        """Have the state folder for this process alone until ``close``; before anything is written there.

        Raises:
            FleetInUse: another controller holds it.
        """
        await self._local.lock()

    async def open(self, report: Callable[[FleetEvent], None]) -> None:
        """Adopt what a former run left, then accept orders.

        Raises:
            FleetInUse: another controller holds this fleet.
        """
        await self._local.open(report)
        await self._static.open(report)

    def configure(self, settings: Settings) -> None:
        """Take over a new policy; replicas that run are left as they are."""
        self._local.configure(_local_models(settings), settings.weights)
        self._static.configure(_static_models(settings))
        self._assign(settings)

    def spec_of(self, model: ModelId, replica_id: ReplicaId) -> EngineSpec | None:
        """What a replica's engine was started with; None when nobody knows the replica."""
        fleet = self.by_model.get(model)
        return None if fleet is None else fleet.spec_of(replica_id)

    @property
    def provisions(self) -> Provisions | None:
        """What is kept on this machine's disk; None while the fleet is not open."""
        return self._local.provisions

    @property
    def unread_pages(self) -> dict[ModelId, int]:
        """Of each model, engines' own pages that could not be read."""
        unread = self._local.pages.unread + self._static.pages.unread
        return {model: unread[model] for model in self.by_model}

    def last_words(self, model: ModelId, replica_id: ReplicaId) -> str:
        """What an engine said last. It may hold anything, so it is for the admin page alone."""
        fleet = self.by_model.get(model)
        return "" if fleet is None else fleet.last_words(replica_id)

    async def close(self) -> None:
        """End every replica that was started here and let go of the rest."""
        await self._static.close()
        await self._local.close()

    def _assign(self, settings: Settings) -> None:
        # Updated in place: whoever holds the mapping sees the new policy. A model that is gone stays
        # known until its last replica has been stopped.
        self.by_model.update(
            {name: self._static if model.static else self._local for name, model in settings.models.items()}
        )


def _local_models(settings: Settings) -> list[LocalModel]:
    return [_local(model) for model in settings.models.values() if not model.static]


def _local(model: ModelSettings) -> LocalModel:
    if model.spec is None:
        raise ValueError(f"model {model.model} has neither weights nor static addresses")
    return LocalModel(
        model=model.model,
        adapter=ADAPTERS[model.fleet.engine],
        spec=model.spec,
        gpus_per_replica=model.gpus_per_replica,
        memory_bytes=model.memory_bytes,
        kind=model.fleet.kind,
        cores_per_replica=0 if model.gpus_per_replica else model.spec.threads,
        start_deadline_s=model.fleet.start_deadline_s,
        stop_grace_s=model.stop_grace_s,
        silent_after_s=model.silent_after_s,
        variants={name: _local(variant) for name, variant in model.variants.items()},
    )


def _static_models(settings: Settings) -> list[StaticModel]:
    return [_static(model) for model in settings.models.values() if model.static]


def _static(model: ModelSettings) -> StaticModel:
    return StaticModel(
        model=model.model,
        adapter=ADAPTERS[model.fleet.engine],
        addresses=model.static,
        spec=model.spec or EngineSpec(model.model, weights="", slots=model.fleet.slots),
        start_deadline_s=model.fleet.start_deadline_s,
        silent_after_s=model.silent_after_s,
        variants={name: _static(variant) for name, variant in model.variants.items()},
    )
