"""The router of one model, whichever law it follows: it chooses, hears what becomes of it, and tells what its law knows."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core.dispatch.ledger import Entry
from tidegate.core.dispatch.prefix import PrefixStats
from tidegate.core.dispatch.routing.cost import LeastSeconds, Terms
from tidegate.core.dispatch.routing.pick import Picker, Watcher
from tidegate.core.dispatch.routing.registry import Shared, router_for
from tidegate.core.dispatch.seats import Seat
from tidegate.core.events import RequestArrived, UpstreamEnded
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import ModelId, ReplicaId


class Router:
    """Owns the law in force. What happens is told to laws that learn; what only one law knows is unknown under others."""

    __slots__ = ("_config", "_law", "_model", "_seconds", "_shared", "_watcher")

    def __init__(self, model: ModelId, config: DispatchConfig, shared: Shared) -> None:
        self._model = model
        self._shared = shared
        self._take_up(config)

    def __repr__(self) -> str:
        return f"<Router {self._law!r}>"

    def configure(self, config: DispatchConfig, seats: Sequence[Seat], now_s: float) -> None:
        """Another law, where the settings say so. It begins anew, with what its kind of replica is known for."""
        before = self._config
        if (config.routing, config.adapter_slots) != (before.routing, before.adapter_slots):
            self._take_up(config)
            self.seats_are(seats, now_s)

    def _take_up(self, config: DispatchConfig) -> None:
        self._config = config
        law: Picker = router_for(self._model, config, self._shared)
        self._law = law
        self._watcher = law if isinstance(law, Watcher) else None
        self._seconds = law if isinstance(law, LeastSeconds) else None

    def pick(self, entry: Entry, candidates: Sequence[Seat], now_s: float) -> Seat:
        """The replica to use, of these."""
        return self._law.pick(entry, candidates, now_s)

    # ---- what becomes of it ----

    def sent(self, entry: Entry, seat: Seat, now_s: float) -> None:
        """The entry was given this seat."""
        if self._watcher is not None:
            self._watcher.sent(entry, seat, now_s)

    def began(self, entry: Entry, replica_id: ReplicaId, now_s: float) -> None:
        """Its answer has begun."""
        if self._watcher is not None:
            self._watcher.began(entry, replica_id, now_s)

    def answered(self, entry: Entry, replica_id: ReplicaId, now_s: float, ended: UpstreamEnded) -> None:
        """Its answer is complete; ``left`` follows."""
        if self._watcher is not None:
            self._watcher.answered(entry, replica_id, now_s, ended)

    def left(self, entry: Entry, replica_id: ReplicaId) -> None:
        """It has given its seat back, whatever became of it."""
        if self._watcher is not None:
            self._watcher.left(entry, replica_id)

    def seats_are(self, seats: Sequence[Seat], now_s: float) -> None:
        """These are the replicas from now on."""
        if self._watcher is not None:
            self._watcher.seats_are(seats, now_s)

    def cache_told(self, replica_id: ReplicaId, gone_before_s: float) -> None:
        """The replica's engine says that what was last used before this moment is no longer cached."""
        if self._seconds is not None:
            self._seconds.insight.cache_told(replica_id, gone_before_s)

    # ---- what it knows ----

    def cached_tokens(self, arrived: RequestArrived) -> float:
        """How much of a prompt some replica has in its cache, as far as that is known."""
        known = self._seconds
        return 0.0 if known is None or not arrived.prefix else known.insight.recall.longest(arrived)

    def least_s(self, arrived: RequestArrived, left_s: float) -> float:
        """What its prompt takes at least, as far as that is known and could be more than ``left_s``; else 0."""
        known = self._seconds
        return 0.0 if known is None or not arrived.prefix else known.insight.least_s(arrived, left_s)

    def alone_s(self, replica_id: ReplicaId, now_s: float) -> float:
        """Seconds of work that others would do again if the replica went, as far as that is known."""
        return 0.0 if self._seconds is None else self._seconds.insight.alone_s(replica_id, now_s)

    def prefix_stats(self) -> PrefixStats | None:
        """How well prompts' beginnings are foreseen; None where the law has no use for them."""
        return None if self._seconds is None else self._seconds.insight.recall.stats()

    def explain(self, entry: Entry, seats: Sequence[Seat], now_s: float) -> list[Terms]:
        """What each of these replicas would cost this entry, in the law's terms; empty for laws without any."""
        return [] if self._seconds is None else list(self._seconds.explain(entry, seats, now_s))
