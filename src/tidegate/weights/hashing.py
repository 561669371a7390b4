"""The checksums of a file that may still be arriving."""

from __future__ import annotations

import hashlib

from tidegate.weights.errors import WrongChecksum
from tidegate.weights.partial import Partial
from tidegate.weights.remote import Remote
from tidegate.weights.source import shown

_HASH_BYTES = 4 * 1024 * 1024


class Hashing:
    """Computed behind the arriving bytes, from the page cache."""

    def __init__(self, partial: Partial, size: int, remote: Remote) -> None:
        self._partial = partial
        self._size = size
        self._remote = remote
        self._at = 0
        self._sha256 = hashlib.sha256()
        self._git = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False) if remote.git_sha1 else None

    def upto(self, frontier: int) -> None:
        """All bytes before this one are here."""
        while self._at < frontier:
            data = self._partial.read(self._at, min(_HASH_BYTES, frontier - self._at))
            if not data:
                return
            self._at += len(data)
            self._sha256.update(data)
            if self._git is not None:
                self._git.update(data)

    def finish(self) -> str:
        """The SHA-256 of the whole.

        Raises:
            WrongChecksum: it is not what was expected.
        """
        self.upto(self._size)
        remote, found = self._remote, self._sha256.hexdigest()
        where = shown(remote.url)
        if self._at != self._size:
            raise WrongChecksum(f"{where} has {self._at} bytes here, not {self._size}")
        if remote.sha256 is not None and found != remote.sha256:
            raise WrongChecksum(f"{where} has the SHA-256 {found}, not {remote.sha256}")
        if remote.sha256 is None and self._git is not None and self._git.hexdigest() != remote.git_sha1:
            raise WrongChecksum(f"{where} is not the file that the repository lists")
        return found
