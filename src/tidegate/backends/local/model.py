"""What the local backend must know about a model to run replicas of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidegate.adapters import commands
from tidegate.adapters.base import Adapter, EngineSpec
from tidegate.core.types import ModelId
from tidegate.weights.needs import by_identity


@dataclass(frozen=True, slots=True)
class LocalModel:
    """One model and how its replicas are run here."""

    model: ModelId
    adapter: Adapter
    spec: EngineSpec
    gpus_per_replica: int = 0
    memory_bytes: int | None = None
    """GPU memory that a replica takes on each of its GPUs; replicas then share a GPU while they fit.
    None: a GPU carries one replica."""
    kind: str = ""
    """Of its GPUs, where it matters."""
    cores_per_replica: int = 0
    """CPU cores each replica is pinned to, spread evenly; 0 leaves it to the kernel."""
    start_deadline_s: float = 600.0
    stop_grace_s: float = 10.0
    """Between SIGTERM and SIGKILL."""
    silent_after_s: float = 10.0
    """A replica that serves and has given no answer for so long is reported as unresponsive."""

    variants: Mapping[str, LocalModel] = field(default_factory=dict)
    """Further ways to run it."""

    def as_variant(self, name: str) -> LocalModel | None:
        """How a replica of this variant is run, empty for the model's own way; None when there is no such variant."""
        return self.variants.get(name) if name else self

    def at_start(self) -> LocalModel:
        """What its engine is started with: without the LoRA adapters that it is given once it is ready."""
        api = self.adapter.lora_api
        if api is None or api.at_start or not self.spec.lora:
            return self
        return replace(self, spec=replace(self.spec, lora={}))

    def with_adapters(self, names: Iterable[str]) -> LocalModel:
        """What an engine that runs has: these adapters, each from where it would be loaded now."""
        if self.adapter.lora_api is None or self.spec.lora is None:
            return self
        return replace(
            self, spec=replace(self.spec, lora={name: self.spec.lora.get(name, "") for name in names})
        )

    def command_hash(self) -> str:
        """The same for two replicas that were started alike, whatever their ports and devices.

        Raises:
            ValueError: there is no command for it.
        """
        spec = by_identity(self.spec)
        return commands.command_hash(self.adapter, spec, self.gpus_per_replica, self.memory_bytes, self.kind)
