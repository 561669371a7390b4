"""Columns that are more than numbers: names kept once each, and lists of different lengths."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

Text = TypeVar("Text", bound=str)

NOBODY = -1
"""Stands for None inside a column of ids; it never leaves this module."""


class Names(Generic[Text]):
    """One name or None a row; each different name is kept once, in order of first use."""

    __slots__ = ("_ids", "_number", "table")

    def __init__(self) -> None:
        self.table: list[Text] = []
        self._ids = array("i")
        self._number: dict[Text, int] = {}

    def __repr__(self) -> str:
        return f"<Names rows={len(self)} different={len(self.table)}>"

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, row: int) -> Text | None:
        number = self._ids[row]
        return None if number == NOBODY else self.table[number]

    def __iter__(self) -> Iterator[Text | None]:
        table = self.table
        return (None if number == NOBODY else table[number] for number in self._ids)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Names) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it grows

    def append(self, name: Text | None) -> None:
        if name is None:
            self._ids.append(NOBODY)
            return
        number = self._number.get(name)
        if number is None:
            number = self._number[name] = len(self.table)
            self.table.append(name)
        self._ids.append(number)

    def pad(self, rows: int) -> None:
        """So many more rows without a name."""
        self._ids.extend(array("i", [NOBODY]) * rows)

    def take(self, rows: Sequence[int]) -> Names[Text]:
        """These rows, in this order."""
        taken: Names[Text] = Names()
        for row in rows:
            taken.append(self[row])
        return taken


class Blocks:
    """One list of prefix hashes a row, end to end in one array."""

    __slots__ = ("_ends", "hashes")

    def __init__(self) -> None:
        self.hashes = array("Q")
        self._ends = array("Q", [0])

    def __repr__(self) -> str:
        return f"<Blocks rows={len(self)} blocks={len(self.hashes)}>"

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, row: int) -> tuple[int, ...]:
        return tuple(self.hashes[self._ends[row] : self._ends[row + 1]])

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        hashes, start = self.hashes, 0
        for end in self._ends[1:]:
            yield tuple(hashes[start:end])
            start = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocks) and self._ends == other._ends and self.hashes == other.hashes

    __hash__ = None  # type: ignore[assignment]  # it grows

    def append(self, hashes: Sequence[int]) -> None:
        self.hashes.extend(hashes)
        self._ends.append(len(self.hashes))

    def pad(self, rows: int) -> None:
        """So many more rows without a block."""
        self._ends.extend(array("Q", [len(self.hashes)]) * rows)

    def take(self, rows: Sequence[int]) -> Blocks:
        """These rows, in this order."""
        taken = Blocks()
        for row in rows:
            taken.append(self[row])
        return taken
