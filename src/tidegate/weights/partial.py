"""A file that is on its way: its bytes so far, and a note of which they are, good after a ``kill -9``.

``data`` has its full length from the start, so that a disk without room says so at once. ``have`` is a line
about the file at the source, then one for each run of bytes that has reached the disk.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import msgspec

from tidegate.weights.errors import NoRoom
from tidegate.weights.parts import Ranges


class About(msgspec.Struct, frozen=True):
    """The file at the source. Bytes of one do not fit to those of another."""

    validator: str | None
    """Strong ETag, or time of last change; None when the source gives neither."""
    size: int


class Partial:
    """The folder of one file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.data = folder / "data"
        self._have = folder / "have"
        self.ranges = Ranges()
        self._unnoted: list[tuple[int, int]] = []
        self._file: int | None = None

    def begin(self, about: About, *, is_checked: bool) -> int:
        """Take up what is there if it is of this very file, else start over. How many bytes are there.

        ``is_checked``: a checksum will tell at the end, so a source without a validator may be trusted so far.

        Raises:
            NoRoom: the disk cannot hold the file.
        """
        self.close()
        known, ranges = self._read()
        if known != about or (about.validator is None and not is_checked):
            self.forget()
            ranges = Ranges()
        self._folder.mkdir(parents=True, exist_ok=True)
        self.ranges = ranges
        try:
            self._file = os.open(self.data, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if about.size:
                os.posix_fallocate(self._file, 0, about.size)
            if not self._have.exists():
                self._have.write_bytes(msgspec.json.encode(about) + b"\n")
        except OSError as error:
            self.close()
            raise _no_room(error) from None
        return self.ranges.bytes

    def begin_anew(self) -> None:
        """For a file that comes in one piece, of unknown length perhaps: nothing of it is kept."""
        self.close()
        self.forget()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.data, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, at: int, data: bytes) -> None:
        """Put these bytes there.

        Raises:
            NoRoom: the disk cannot hold them.
        """
        assert self._file is not None
        view = memoryview(data)
        start = at
        try:
            while view:
                written = os.pwrite(self._file, view, at)
                at += written
                view = view[written:]
        except OSError as error:
            raise _no_room(error) from None
        self.ranges.add(start, at)
        self._unnoted.append((start, at))

    def unnoted(self) -> list[tuple[int, int]]:
        """What has come since this was asked last."""
        fresh, self._unnoted = self._unnoted, []
        return fresh

    def note(self, fresh: list[tuple[int, int]]) -> None:
        """Write down what has come, once it is on the disk: after a power cut nothing is believed that is not."""
        if not fresh or self._file is None:
            return
        try:
            os.fdatasync(self._file)
            with self._have.open("ab") as file:
                file.write(b"".join(b"%d %d\n" % each for each in Ranges(fresh)))
        except OSError as error:
            raise _no_room(error) from None

    def read(self, at: int, count: int) -> bytes:
        """Bytes that are here already."""
        assert self._file is not None
        return os.pread(self._file, count, at)

    def settle(self) -> None:
        """The file is whole: have it on the disk under its own name."""
        assert self._file is not None
        os.fsync(self._file)
        self.close()

    def close(self) -> None:
        """Keep what is there for the next one."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def forget(self) -> None:
        """Keep nothing."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self.ranges = Ranges()
        self._unnoted = []

    def _read(self) -> tuple[About | None, Ranges]:
        try:
            lines = self._have.read_bytes().split(b"\n")
            about = msgspec.json.decode(lines[0], type=About)
            # The last is empty, or torn by a power cut.
            ranges = Ranges([(int(start), int(end)) for start, end in (line.split() for line in lines[1:-1])])
            if self.data.stat().st_size != about.size:
                return None, Ranges()
        except (OSError, ValueError, msgspec.DecodeError):
            return None, Ranges()
        return about, ranges


def _no_room(error: OSError) -> Exception:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return NoRoom("the disk has no room for it")
    return error
