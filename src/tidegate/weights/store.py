"""What is kept of weights on this machine.

::

    blobs/SHA256             contents, each once, read-only
    trees/DIGEST/NAME        a folder of hard links to them, as an engine is given it; DIGEST names its contents
    trees/DIGEST.lock        held shared by every process of an engine that uses the tree
    refs/KEY.json            what a source was found to be
    partial/KEY/NUMBER/      files on their way
    compiled/KEY/            what engines compiled, with a lock beside it like that of a tree
    lock                     held while the above is changed

Every step is complete or has not happened: contents get their name once they are whole, a tree is renamed
into place, a ref is replaced. That a tree is in use is not written down anywhere, it *is* the lock: the kernel
lets go of it when the last process of the engine has ended, whoever was killed before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.weights.errors import NoRoom
from tidegate.weights.source import Source, tree_digest

_KEEP_FREE_BYTES = 256 * 1024 * 1024
"""Of the disk, for those who write logs and journals on it."""


class StoredFile(msgspec.Struct, frozen=True):
    """One file of a tree."""

    size: int
    sha256: str


class Ref(msgspec.Struct, frozen=True, kw_only=True):
    """What a source was found to be, and what fetching it was like."""

    source: str
    """For people: no signature in it."""
    digest: str
    is_folder: bool
    files: dict[str, StoredFile]
    revision: str | None = None
    host: str = ""
    fetched_bytes: int = 0
    """Over the network; less than all when something was here already."""
    fetched_in_s: float = 0.0
    fetched_at_s: float = 0.0
    """Seconds since 1970."""

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.size for file in self.files.values())


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


class Pin:
    """As long as it lives, here or in a process that inherited ``descriptor``, its tree stays."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def __repr__(self) -> str:
        return f"<Pin {self.path.name}>"

    def let_go(self) -> None:
        """It is not needed here any longer. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


class Store:
    """The cache folder. Several processes may use it at once."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.folder = folder
        self._max_bytes = max_bytes
        for name in ("blobs", "trees", "refs", "partial", "compiled"):
            (folder / name).mkdir(mode=0o755, parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"<Store {self.folder}>"

    # ---- looking ----

    def ref(self, source: Source) -> Ref | None:
        """What the source was found to be, if that is here, whole."""
        return self.known(source) if self.missing_bytes(source) == 0 else None

    def missing_bytes(self, source: Source) -> int | None:
        """Of a source: 0 when it is here; None when it never was, so that nobody knows how much there is."""
        ref = self.known(source)
        if ref is None:
            return None
        tree = self._tree(ref.digest)
        return sum(file.size for name, file in ref.files.items() if not _has_length(tree / name, file.size))

    def pin(self, source: Source) -> Pin | None:
        """Keep the source's tree from being thrown away. Its path is what the engine is given; None: not here."""
        ref = self.ref(source)
        if ref is None:
            return None
        tree = self._tree(ref.digest)
        pin = _shared(_lock_of(tree), tree if ref.is_folder else tree / next(iter(ref.files)))
        if self.ref(source) is None:
            # Thrown away between the look and the lock.
            pin.let_go()
            return None
        return pin

    def refs(self) -> list[Ref]:
        """All that were ever found, here or not."""
        found = []
        for path in sorted((self.folder / "refs").glob("*.json")):
            with contextlib.suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=Ref))
        return found

    def kept(self) -> list[Kept]:
        """All trees and compilations, those used last at the end."""
        by_digest: dict[str, list[str]] = {}
        for ref in self.refs():
            by_digest.setdefault(ref.digest, []).append(ref.source)
        found = [
            _kept(path, is_compiled, tuple(by_digest.get(path.name, ())))
            for part, is_compiled in (("trees", False), ("compiled", True))
            for path in (self.folder / part).iterdir()
            if path.is_dir() and not path.name.startswith(".")
        ]
        return sorted(found, key=lambda each: (each.used_at_s, each.name))

    def used_bytes(self) -> int:
        """On the disk, by contents, by what is on its way and by what was compiled; contents count once."""
        sizes: dict[int, int] = {}
        for part in ("blobs", "partial", "compiled"):
            sizes |= _sizes_below(self.folder / part)
        return sum(sizes.values())

    # ---- adding ----

    @contextlib.contextmanager
    def fetching(self, source: Source) -> Iterator[bool]:
        """Whether this process may fetch the source now: another one may be at it."""
        path = self.folder / "partial" / f"{source.key}.lock"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            yield _try(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)

    def partial(self, source: Source, number: int) -> Path:
        """The folder for one file on its way."""
        return self.folder / "partial" / source.key / str(number)

    def blob(self, sha256: str) -> Path | None:
        """Contents that are here already."""
        path = self.folder / "blobs" / sha256
        return path if path.is_file() else None

    def keep(self, data: Path, sha256: str) -> None:
        """Give whole and checked contents their name. They keep the old one until the source is committed, so
        that they are not taken for contents that nobody needs."""
        fresh = data.with_name("kept")
        fresh.unlink(missing_ok=True)
        os.link(data, fresh)
        fresh.replace(self.folder / "blobs" / sha256)

    def commit(self, source: Source, ref: Ref) -> None:
        """All contents are here: make the tree, then say that the source is it."""
        with self._changing():
            tree = self._tree(ref.digest)
            if not all(_has_length(tree / name, file.size) for name, file in ref.files.items()):
                self._build(tree, ref)
            path = self._ref_path(source)
            fresh = path.with_suffix(f".{os.getpid()}.new")
            fresh.write_bytes(msgspec.json.encode(ref))
            fresh.replace(path)
            _touch(_lock_of(tree))
        shutil.rmtree(self.folder / "partial" / source.key, ignore_errors=True)

    def _build(self, tree: Path, ref: Ref) -> None:
        fresh = tree.with_name(f".{tree.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        for name, file in ref.files.items():
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            blob = self.folder / "blobs" / file.sha256
            blob.chmod(0o444)
            os.link(blob, fresh / name)
        if not tree.exists():
            fresh.rename(tree)
            return
        # The same contents under another name, or a file that somebody took out: whoever uses it goes on.
        for name in ref.files:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (fresh / name).replace(tree / name)
        shutil.rmtree(fresh, ignore_errors=True)

    # ---- compiled engines ----

    def compiled(self, key: str) -> Pin:
        """The folder for what engines compile under this key, made if need be and kept while the pin lives."""
        folder = self.folder / "compiled" / key
        pin = _shared(_lock_of(folder), folder)
        folder.mkdir(parents=True, exist_ok=True)
        return pin

    # ---- making room ----

    def make_room(self, wanted_bytes: int, *, unused_for_s: float = 0.0) -> list[Kept]:
        """Throw away what was used longest ago until these bytes fit. What went.

        Args:
            wanted_bytes: To be written next.
            unused_for_s: Spare what was used more recently than this.

        Raises:
            NoRoom: all that may go is gone, and they do not fit.
        """
        gone: list[Kept] = []
        with self._changing():
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
        with self._changing():
            old = [
                each for each in self.kept() if not each.is_used and now_s - each.used_at_s >= older_than_s
            ]
            gone = old if dry else [each for each in old if self._throw_away(each)]
            if partial and not dry:
                self._sweep_partial()
        return gone

    def _lacking(self, wanted_bytes: int) -> int:
        """How many bytes must go before these fit; 0 or less when they do."""
        of_disk = wanted_bytes + _KEEP_FREE_BYTES - shutil.disk_usage(self.folder).free if wanted_bytes else 0
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
        lock = _lock_of(kept.path)
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            if not _try(descriptor, fcntl.LOCK_EX):
                return False
            # Out of sight at once: it is never half there.
            gone = kept.path.with_name(f".{kept.name}.gone")
            shutil.rmtree(gone, ignore_errors=True)
            kept.path.rename(gone)
            shutil.rmtree(gone, ignore_errors=True)
            self._sweep_blobs()
            return True
        finally:
            os.close(descriptor)

    def _sweep_blobs(self) -> None:
        """Contents that are in no tree and not on their way into one."""
        for path in (self.folder / "blobs").iterdir():
            with contextlib.suppress(OSError):
                if path.stat().st_nlink == 1:
                    path.unlink()

    def _sweep_partial(self) -> None:
        """What nobody is fetching at present."""
        for folder in (self.folder / "partial").iterdir():
            if not folder.is_dir():
                continue
            descriptor = os.open(folder.with_suffix(".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                if _try(descriptor, fcntl.LOCK_EX):
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        descriptor = os.open(self.folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def known(self, source: Source) -> Ref | None:
        """What the source was found to be, here or not any more."""
        try:
            return msgspec.json.decode(self._ref_path(source).read_bytes(), type=Ref)
        except (OSError, msgspec.DecodeError):
            return None

    def _tree(self, digest: str) -> Path:
        return self.folder / "trees" / digest

    def _ref_path(self, source: Source) -> Path:
        return self.folder / "refs" / f"{source.key}.json"


def digest_of(files: dict[str, StoredFile], *, is_folder: bool) -> str:
    """What names these contents: for one file its own SHA-256, for a folder that of its list."""
    if not is_folder:
        return next(iter(files.values())).sha256
    return tree_digest({name: file.sha256 for name, file in files.items()})


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _shared(lock: Path, path: Path) -> Pin:
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return Pin(path, descriptor)


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _touch(path: Path) -> None:
    path.touch(mode=0o644)


def _has_length(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False


def _kept(folder: Path, is_compiled: bool, sources: tuple[str, ...]) -> Kept:
    lock = _lock_of(folder)
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        used_at_s = os.fstat(descriptor).st_mtime
        is_used = not _try(descriptor, fcntl.LOCK_EX)
    finally:
        os.close(descriptor)
    size = sum(_sizes_below(folder).values())
    return Kept(folder.name, folder, size, used_at_s, is_used, is_compiled, sources)


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
