"""What must survive a ``kill -9`` of Tidegate: which replicas it started, and how.

One JSON file per replica, replaced as a whole, written before the process is started and completed
after it. A lock file is held as long as the fleet is open: two controllers would undo each other's work.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from pathlib import Path
from urllib.parse import quote

import msgspec

from tidegate.backends.base import FleetInUse
from tidegate.backends.local.devices import Claim
from tidegate.core.nodes import LOCAL, Place
from tidegate.core.tiers import Tier
from tidegate.core.types import Address, ModelId, ReplicaId


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One replica, as it was ordered and then started."""

    replica_id: ReplicaId
    model: ModelId
    command_hash: str
    host: str
    port: int
    claim: Claim
    pid: int | None = None
    """Of its first process, which leads its group and session. None: not started yet, as far as is known."""
    started_ticks: int | None = None
    """When the kernel says that process began; the same pid with another start is somebody else."""

    variant: str = ""
    """In which of its model's ways it was started; empty: as the model's own settings say."""
    asleep_at: int | None = None
    """The level of its sleep, written before it is told to and until it is awake again."""
    is_warm: bool = False
    """The gateways were told last that it waits without traffic; when it sleeps or drains, that it had waited before."""

    adapters: dict[str, str] = {}
    """LoRA adapters that it can be asked for, each with the mark of its source."""
    adapters_before: dict[str, str] = {}
    """All that it was ever told to load; written before it is."""

    @property
    def address(self) -> Address:
        """Where its engine listens."""
        return Address(self.host, self.port)

    @property
    def tier_awake(self) -> Tier:
        """In which it is unless it sleeps."""
        return Tier.WARM if self.is_warm else Tier.SERVING

    @property
    def place(self) -> Place | None:
        """Its GPUs here; None when it has none."""
        return Place(LOCAL, self.claim.gpus, self.claim.memory_bytes) if self.claim.gpus else None


class StateFolder:
    """The folder, locked from construction until ``close``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder = folder.resolve()
        self.fleet_id = hashlib.sha256(str(self.folder).encode()).hexdigest()[:16]
        """Marks this fleet's processes. From the path, so that they are known even if the files are lost."""
        self._lock = _locked(self.folder / "lock")
        self._records = self.folder / "replicas"
        self._records.mkdir(mode=0o700, exist_ok=True)

    def close(self) -> None:
        """Let go of the lock."""
        os.close(self._lock)

    def write(self, record: Record) -> None:
        """Replace the replica's file; a reader sees the old or the new one, whole."""
        path = self._path(record.replica_id)
        fresh = path.with_suffix(".new")
        # Somebody may have cleaned up behind our back.
        self._records.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fresh.write_bytes(msgspec.json.encode(record))
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise

    def remove(self, replica_id: ReplicaId) -> None:
        """The replica is gone."""
        self._path(replica_id).unlink(missing_ok=True)

    def read(self) -> dict[ReplicaId, Record]:
        """All records. A file that cannot be read is removed: its process is found by its mark."""
        records = {}
        for path in sorted(self._records.glob("*.json")):
            try:
                record = msgspec.json.decode(path.read_bytes(), type=Record)
            except msgspec.DecodeError:
                path.unlink(missing_ok=True)
            else:
                records[record.replica_id] = record
        return records

    def _path(self, replica_id: ReplicaId) -> Path:
        return self._records / f"{quote(replica_id, safe='')}.json"


def _locked(path: Path) -> int:
    lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        message = f"another Tidegate runs the fleet in {path.parent}"
        raise FleetInUse(message) from None
    return lock
