"""A law's constants, with those that the policy file changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    _T = TypeVar("_T", bound=DataclassInstance)
else:
    _T = TypeVar("_T")


def with_changes(constants: _T, changes: Sequence[tuple[str, float]]) -> _T:
    """The constants, where the policy file names others. The names have been checked at the door."""
    changed: dict[str, Any] = dict(changes)
    return replace(constants, **changed) if changed else constants
