"""Dispatch: which request goes when, and to which replica."""

from tidegate.core.dispatch.dispatcher import DispatchEffect, Dispatcher, DispatchEvent

__all__ = ["DispatchEffect", "DispatchEvent", "Dispatcher"]
