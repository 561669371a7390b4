"""One file as its source has it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Remote:
    """Where it is, and what is known of it before it comes."""

    name: str
    """Below the folder that it goes to."""
    url: str
    size: int | None = None
    sha256: str | None = None
    git_sha1: str | None = None
    """As git names the contents: for small files of a hub, which have no other checksum."""

    @property
    def is_checked(self) -> bool:
        """There is something to compare with at the end."""
        return self.sha256 is not None or self.git_sha1 is not None
