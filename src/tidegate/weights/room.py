"""Room in the store: what is kept, what it takes, and what is thrown away first."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from tidegate.weights.errors import NoRoom
from tidegate.weights.pins import alone, changing, lock_of
from tidegate.weights.refs import refs_in

_KEEP_FREE_BYTES = 256 * 1024 * 1024
"""Of the disk, for those who write logs and journals on it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One thing that can be thrown away as a whole: a tree, or what was compiled for one kind of machine."""

    name: str
    path: Path
    bytes: int
    used_at_s: float
    is_used: bool
    is_compiled: bool
    sources: tuple[str, ...] = ()


class Room:
    """What the store's folder takes of the disk, within its bound."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self._folder = folder
        self._max_bytes = max_bytes

    def __repr__(self) -> str:
        return f"<Room in {self._folder}, at most {self._max_bytes} bytes>"

    def kept(self) -> list[Kept]:
        """All trees and compilations, those used last at the end."""
        by_digest: dict[str, list[str]] = {}
        for ref in refs_in(self._folder):
            by_digest.setdefault(ref.digest, []).append(ref.source)
        found = [
            _kept(path, is_compiled, tuple(by_digest.get(path.name, ())))
            for part, is_compiled in (("trees", False), ("compiled", True))
            for path in (self._folder / part).iterdir()
            if path.is_dir() and not path.name.startswith(".")
        ]
        return sorted(found, key=lambda each: (each.used_at_s, each.name))

    def used_bytes(self) -> int:
        """On the disk, by contents, by what is on its way and by what was compiled; contents count once."""
        sizes: dict[int, int] = {}
        for part in ("blobs", "partial", "compiled"):
            sizes |= _sizes_below(self._folder / part)
        return sum(sizes.values())

    def make(self, wanted_bytes: int, *, unused_for_s: float = 0.0) -> list[Kept]:
        """Throw away what was used longest ago until these bytes fit. What went.

        Args:
            wanted_bytes: To be written next.
            unused_for_s: Spare what was used more recently than this.

        Raises:
            NoRoom: all that may go is gone, and they do not fit.
        """
        gone: list[Kept] = []
        with changing(self._folder):
            if self._lacking(wanted_bytes) <= 0:
                return gone
            self._sweep_partial()
            self._sweep_blobs()
            may_go = [
                each
                for each in self.kept()
                if not each.is_used and each.used_at_s <= time.time() - unused_for_s
            ]
            if self._lacking(wanted_bytes) > sum(each.bytes for each in may_go):
                # Nothing is thrown away in vain.
                raise NoRoom(self._no_room(wanted_bytes))
            for kept in may_go:
                if self._lacking(wanted_bytes) <= 0:
                    return gone
                if self._throw_away(kept):
                    gone.append(kept)
            if self._lacking(wanted_bytes) > 0:
                raise NoRoom(self._no_room(wanted_bytes))
        return gone

    def prune(self, *, older_than_s: float, partial: bool, dry: bool = False) -> list[Kept]:
        """Throw away what nobody has used for so long. What went, or would go when ``dry``."""
        now_s = time.time()
        with changing(self._folder):
            old = [
                each for each in self.kept() if not each.is_used and now_s - each.used_at_s >= older_than_s
            ]
            gone = old if dry else [each for each in old if self._throw_away(each)]
            if partial and not dry:
                self._sweep_partial()
        return gone

    def _lacking(self, wanted_bytes: int) -> int:
        """How many bytes must go before these fit; 0 or less when they do."""
        of_disk = (
            wanted_bytes + _KEEP_FREE_BYTES - shutil.disk_usage(self._folder).free if wanted_bytes else 0
        )
        of_bound = 0 if self._max_bytes is None else self.used_bytes() + wanted_bytes - self._max_bytes
        return max(of_disk, of_bound)

    def _no_room(self, wanted_bytes: int) -> str:
        if self._max_bytes is not None and self.used_bytes() + wanted_bytes > self._max_bytes:
            return (
                f"the cache may hold {self._max_bytes} bytes (weights.cache_size), and {wanted_bytes} more do not "
                "fit beside what is in use"
            )
        return f"the disk has no room for {wanted_bytes} bytes"

    def _throw_away(self, kept: Kept) -> bool:
        """Unless somebody uses it."""
        with alone(lock_of(kept.path)) as is_unused:
            if not is_unused:
                return False
            # Out of sight at once: it is never half there.
            gone = kept.path.with_name(f".{kept.name}.gone")
            shutil.rmtree(gone, ignore_errors=True)
            kept.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            self._sweep_blobs()
            return True

    def _sweep_blobs(self) -> None:
        """Contents that are in no tree and not on their way into one."""
        for path in (self._folder / "blobs").iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_nlink == 1:
                    path.unlink()

    def _sweep_partial(self) -> None:
        """What nobody is fetching at present."""
        for folder in (self._folder / "partial").iterdir():
            if not folder.is_dir():
                continue
            with alone(folder.with_suffix(".lock"), 0o600) as is_unused:
                if is_unused:
                    shutil.rmtree(folder, ignore_errors=True)


def _kept(folder: Path, is_compiled: bool, sources: tuple[str, ...]) -> Kept:
    lock = lock_of(folder)
    with alone(lock) as is_unused:
        used_at_s = lock.stat().st_mtime
    size = sum(_sizes_below(folder).values())
    return Kept(folder.name, folder, size, used_at_s, not is_unused, is_compiled, sources)


def _sizes_below(folder: Path) -> dict[int, int]:
    """Bytes on the disk by inode."""
    sizes: dict[int, int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                stat = os.lstat(os.path.join(root, name))  # noqa: PTH118 (a Path each is three times slower)
                if stat.st_size:
                    sizes[stat.st_ino] = stat.st_blocks * 512
    return sizes
