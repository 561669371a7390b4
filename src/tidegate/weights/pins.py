"""Locks that say what is in use.

That a tree is in use is not written down anywhere, it *is* the lock: the kernel lets go of it when the last
process of the engine has ended, whoever was killed before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


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


def lock_of(folder: Path) -> Path:
    """The file beside a folder that is locked by whoever uses it."""
    return folder.with_name(f"{folder.name}.lock")


def pinned(lock: Path, path: Path) -> Pin:
    """Keep what this lock belongs to; ``path`` is what its user is given of it."""
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return Pin(path, descriptor)


@contextlib.contextmanager
def alone(lock: Path, mode: int = 0o644) -> Iterator[bool]:
    """Whether nobody else has it now; nobody gets it meanwhile then."""
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, mode)
    try:
        yield _try_lock(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def changing(folder: Path) -> Iterator[None]:
    """The store's folder is changed by nobody else meanwhile."""
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
