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

import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from tidegate.weights.pins import Pin, alone, changing, lock_of, pinned
from tidegate.weights.refs import Ref
from tidegate.weights.room import Room
from tidegate.weights.source import Source


class Store:
    """The cache folder. Several processes may use it at once."""

    def __init__(self, folder: Path, max_bytes: int | None = None) -> None:
        self.folder = folder
        self.room = Room(folder, max_bytes)
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
        pin = pinned(lock_of(tree), tree if ref.is_folder else tree / next(iter(ref.files)))
        if self.ref(source) is None:
            # Thrown away between the look and the lock.
            pin.let_go()
            return None
        return pin

    # ---- adding ----

    def fetching(self, source: Source) -> AbstractContextManager[bool]:
        """Whether this process may fetch the source now: another one may be at it."""
        return alone(self.folder / "partial" / f"{source.key}.lock", 0o600)

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
        with changing(self.folder):
            tree = self._tree(ref.digest)
            if not all(_has_length(tree / name, file.size) for name, file in ref.files.items()):
                self._build(tree, ref)
            path = self._ref_path(source)
            fresh = path.with_suffix(f".{os.getpid()}.new")
            fresh.write_bytes(msgspec.json.encode(ref))
            fresh.replace(path)
            lock_of(tree).touch(mode=0o644)
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
        pin = pinned(lock_of(folder), folder)
        folder.mkdir(parents=True, exist_ok=True)
        return pin

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


def _has_length(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
