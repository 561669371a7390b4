"""Dispatch: which request goes when, and to which replica."""

from tidegate.core.dispatch.dispatcher import Dispatcher, DispatchEvent
from tidegate.core.dispatch.floor import DispatchEffect

__all__ = ["DispatchEffect", "DispatchEvent", "Dispatcher"]
