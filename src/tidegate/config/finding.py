"""What a rule between keys found."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.config.problems import KeyPath


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that does not hold, said at ``path``."""

    path: KeyPath
    value: str | None
    message: str
    rests_on: tuple[KeyPath, ...] = ()
    """Places whose values it compares; ``path`` when empty."""

    def __post_init__(self) -> None:
        if not self.rests_on:
            object.__setattr__(self, "rests_on", (self.path,))
