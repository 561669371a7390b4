"""What a former run left: adopt what still serves, end the rest, before anything new is started."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from tidegate.adapters.base import Readiness
from tidegate.backends.local import processes
from tidegate.backends.local.group import Group
from tidegate.backends.local.model import LocalModel
from tidegate.backends.local.processes import Identity, Process
from tidegate.backends.local.site import Site
from tidegate.backends.local.state import Record
from tidegate.core.events import ReplicaAdopted, ReplicaSeen
from tidegate.core.lifecycle import Seen
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId, ReplicaId

log = logging.getLogger("tidegate.backends.local")

_PROBE_S = 1.5
_GRACE_S = 0.5
"""With both, a start after a ``kill -9`` is over within 3 s."""


@dataclass(frozen=True, slots=True)
class Heir:
    """A replica worth adopting."""

    record: Record
    model: LocalModel
    first: Identity
    asleep_at: int | None = None
    """The level of its sleep; None when it is awake."""

    @property
    def tier(self) -> Tier:
        """In which it is found."""
        return self.record.tier_awake if self.asleep_at is None else Tier.SLEEPING


async def settle(site: Site, models: Mapping[ModelId, LocalModel]) -> list[Heir]:
    """Find every replica of a former run, by its record or by its mark; those not returned are gone."""
    records = site.state.read()
    left = await asyncio.to_thread(processes.marked, site.state.fleet_id)
    ids = sorted(records.keys() | left.keys())
    settled = await asyncio.gather(
        *(_settle_one(site, models, each, records.get(each), left.get(each, [])) for each in ids)
    )
    return [heir for heir in settled if heir is not None]


async def _settle_one(
    site: Site,
    models: Mapping[ModelId, LocalModel],
    replica_id: ReplicaId,
    record: Record | None,
    left: list[Process],
) -> Heir | None:
    first = _first_process(record, left)
    heir, because = _worth_a_probe(models, record, first)
    if heir is not None and heir.record.asleep_at is not None:
        # Never probed for a token: a request to a sleeping engine crashes it (vllm#15483).
        if await site.client.is_asleep(heir.record.address, heir.model.adapter, _PROBE_S):
            site.ports.claim(heir.record.port)
            return replace(heir, asleep_at=heir.record.asleep_at)
        because = "it was put to sleep, and does not say that it sleeps"
    elif heir is not None:
        because = await _adopt(site, heir)
        if because is None:
            return heir
    if first is not None or left:
        log.info("replica %s of a former run is ended: %s", replica_id, because)
    immortal = await Group(site.state.fleet_id, replica_id, first).end(_GRACE_S)
    if immortal:
        _keep_clear_of(site, replica_id, record, immortal)
        return None
    site.state.remove(replica_id)
    # Whoever names replicas must not use this name again.
    site.report(ReplicaSeen(replica_id, Seen.EXITED, detail=f"of a former run, ended: {because}"))
    return None


def _keep_clear_of(site: Site, replica_id: ReplicaId, record: Record | None, pids: list[int]) -> None:
    """It cannot be killed, so it still has what it had. Its record stays for the start after this one."""
    log.error("replica %s of a former run: processes %s cannot be killed", replica_id, pids)
    if record is not None:
        site.devices.claim(record.claim)
        site.ports.claim(record.port)
        # Whoever places replicas must know what is not free.
        tier = record.tier_awake
        site.report(
            ReplicaAdopted(replica_id, record.model, record.address, tier, record.variant, record.place)
        )
    site.report(ReplicaSeen(replica_id, Seen.UNRESPONSIVE, detail="of a former run, cannot be killed"))


def _first_process(record: Record | None, left: list[Process]) -> Identity | None:
    if record is not None and record.pid is not None and record.started_ticks is not None:
        return Identity(record.pid, record.started_ticks)
    # Killed between the start and the note of it: the first process is the one that leads its group.
    leaders = [process.identity for process in left if process.identity.pid == process.group]
    return leaders[0] if len(leaders) == 1 else None


def _worth_a_probe(
    models: Mapping[ModelId, LocalModel], record: Record | None, first: Identity | None
) -> tuple[Heir | None, str | None]:
    if record is None:
        return None, "there is no record of it"
    if first is None or processes.started_ticks_of(first.pid) != first.started_ticks:
        return None, "its first process is gone"
    configured = models.get(record.model)
    model = None if configured is None else configured.as_variant(record.variant)
    if model is None:
        what = f"variant {record.variant} of model" if record.variant else "model"
        return None, f"{what} {record.model} is no longer configured"
    try:
        is_same = model.command_hash() == record.command_hash
    except ValueError:
        is_same = False
    if not is_same:
        return None, "its command has changed"
    whole = msgspec.structs.replace(record, pid=first.pid, started_ticks=first.started_ticks)
    return Heir(whole, model, first), None


async def _adopt(site: Site, heir: Heir) -> str | None:
    """Claim what the replica has and ask it for a token; otherwise say why it is not adopted."""
    if not site.devices.claim(heir.record.claim):
        return "its devices are no longer configured"
    site.ports.claim(heir.record.port)
    answer = await site.client.probe(heir.record.address, heir.model.adapter, heir.model.spec, _PROBE_S)
    if answer.readiness is Readiness.READY:
        site.state.write(heir.record)
        return None
    site.devices.give_back(heir.record.claim)
    site.ports.give_back(heir.record.port)
    return f"it does not answer a probe: {answer.detail}"
