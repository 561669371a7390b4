"""Values: frozen for the type checker, and made at the cost of plain objects.

A frozen dataclass sets each field through a call, which makes it three times as dear as one that may be
changed. Every event and every order is such a value, so that was a seventh of all the work of a simulation.
mypy still refuses any assignment to a field; two values are equal when their fields are, and equal ones have
the same hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing import dataclass_transform

    T = TypeVar("T")

    @dataclass_transform(frozen_default=True)
    def value(cls: type[T]) -> type[T]:
        """Make a class one of values."""

else:

    def value(cls):
        """Make a class one of values."""
        return dataclass(slots=True, unsafe_hash=True)(cls)
