"""Policies for the stories: the tiny real llama.cpp, and emulated engines of a chosen speed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from system import watched_engine

Policy = dict[str, Any]

TINY = "tiny"


def scaling(least: int, most: int, **keys: Any) -> Policy:
    """Short times, so that a story need not wait."""
    return {
        "min_replicas": least,
        "max_replicas": most,
        "window": "1s",
        "scale_down_delay": "2s",
        **keys,
    }


def tiny(weights: Path, least: int, most: int, *, slots: int = 8, **keys: Any) -> Policy:
    """A real engine with the half-megabyte model of ``engines.tiny``."""
    return {
        "engine": "llamacpp",
        "weights": str(weights),
        "slots": slots,
        "context": 1024,
        "expected_start": "1s",
        "start_deadline": "30s",
        "scaling": scaling(least, most),
        **keys,
    }


def emulated(
    notes: Path,
    least: int,
    most: int,
    *options: str,
    slots: int = 8,
    metrics_lag_s: float = 0.0,
    **keys: Any,
) -> Policy:
    """An engine of emulated speed that notes what it sees."""
    return {
        "engine": "emulated",
        "command": watched_engine.command(notes, *options, metrics_lag_s=metrics_lag_s),
        "slots": slots,
        "expected_start": "1s",
        "stop_grace": "1s",
        "scaling": scaling(least, most),
        **keys,
    }


def at_once() -> Policy:
    """``restarts`` for stories that kill: the next try comes soon and no number of failures is too many."""
    return {
        "backoff_first": "50ms",
        "backoff_max": "100ms",
        "give_up_after": 1000,
        "forgiven_after": "1s",
    }


def only(name: str, model: Policy, **sections: Any) -> Policy:
    """A policy of one model."""
    return {"models": {name: model}, **sections}
