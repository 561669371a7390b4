"""What a source was found to be: its files and what names them all together."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from tidegate.weights.source import tree_digest


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


def refs_in(folder: Path) -> list[Ref]:
    """All that were ever found, here or not."""
    found = []
    for path in sorted((folder / "refs").glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append(msgspec.json.decode(path.read_bytes(), type=Ref))
    return found


def digest_of(files: dict[str, StoredFile], *, is_folder: bool) -> str:
    """What names these contents: for one file its own SHA-256, for a folder that of its list."""
    if not is_folder:
        return next(iter(files.values())).sha256
    return tree_digest({name: file.sha256 for name, file in files.items()})
