"""The life of a replica, as a table.

A replica is *requested*, gets its machine (*procuring*), its files (*pulling*), its weights
(*loading*), and compiles or warms itself (*starting*). Then it is *warm* (loaded, no traffic) or
*serving*. One that is no longer wanted is *draining* until its last request has ended and its
processes are gone, or *sleeping* while its weights stay in host memory, until it is *waking* and warm again.
*stopped* and *failed* end.
One whose process lives but gives no answer is *unresponsive*: that is seen, and is its end.

Not every backend sees every stage: a local process goes from *requested* straight to *starting*,
so a stage may be skipped but never returned to. ``docs/lifecycle.mmd`` is drawn from this table:
``python -m tidegate.core.lifecycle`` prints it.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """Where a replica is in its life."""

    REQUESTED = "requested"
    PROCURING = "procuring"
    PULLING = "pulling"
    LOADING = "loading"
    STARTING = "starting"
    WARM = "warm"
    SERVING = "serving"
    DRAINING = "draining"
    SLEEPING = "sleeping"
    WAKING = "waking"
    STOPPED = "stopped"
    FAILED = "failed"

    # By identity, in C: Enum's own hashes the name in Python, and states are looked up in every turn.
    __hash__ = object.__hash__


class Seen(Enum):
    """What can happen to a replica."""

    PROCURING = "procuring"
    PULLING = "pulling"
    LOADING = "loading"
    STARTING = "starting"
    READY = "ready"
    PROMOTED = "promoted"
    DEMOTED = "demoted"
    SLEPT = "slept"
    WAKING = "waking"
    WOKEN = "woken"
    UNWANTED = "unwanted"
    WANTED_AGAIN = "wanted again"
    EXITED = "exited"
    GAVE_UP = "gave up"
    UNRESPONSIVE = "unresponsive"

    __hash__ = object.__hash__


class Part(Enum):
    """What an engine does while it starts, as it tells of it itself; several of these lie within one stage."""

    WEIGHTS = "weights"
    """Reading its weights into its memory."""
    COMPILE = "compile"
    PROFILING = "profiling"
    """Finding out how much memory is left for the KV cache."""
    CAPTURE = "capture"
    """Recording graphs of kernels, one for each of many batch sizes."""

    __hash__ = object.__hash__


class IllegalTransition(ValueError):
    """Something was reported that cannot happen to a replica in its state."""


_STAGES = {
    State.REQUESTED: None,
    State.PROCURING: Seen.PROCURING,
    State.PULLING: Seen.PULLING,
    State.LOADING: Seen.LOADING,
    State.STARTING: Seen.STARTING,
}
"""The way up, in order, with the fact that opens each stage."""


def _on_the_way_up(stage: State) -> dict[Seen, State]:
    order = list(_STAGES)
    later = order[order.index(stage) + 1 :]
    forward = {seen: state for state in later if (seen := _STAGES[state]) is not None}
    return forward | {
        Seen.READY: State.WARM,
        Seen.UNWANTED: State.DRAINING,
        Seen.EXITED: State.FAILED,
        Seen.GAVE_UP: State.FAILED,
    }


TRANSITIONS: dict[State, dict[Seen, State]] = {stage: _on_the_way_up(stage) for stage in _STAGES} | {
    State.WARM: {
        Seen.PROMOTED: State.SERVING,
        Seen.SLEPT: State.SLEEPING,
        Seen.UNWANTED: State.DRAINING,
        Seen.EXITED: State.FAILED,
        Seen.UNRESPONSIVE: State.FAILED,
    },
    State.SERVING: {
        Seen.DEMOTED: State.WARM,
        Seen.UNWANTED: State.DRAINING,
        Seen.EXITED: State.FAILED,
        Seen.UNRESPONSIVE: State.FAILED,
    },
    State.SLEEPING: {
        Seen.WAKING: State.WAKING,
        Seen.UNWANTED: State.DRAINING,
        Seen.EXITED: State.FAILED,
        Seen.UNRESPONSIVE: State.FAILED,
    },
    State.WAKING: {
        Seen.WOKEN: State.WARM,
        Seen.SLEPT: State.SLEEPING,
        Seen.UNWANTED: State.DRAINING,
        Seen.EXITED: State.FAILED,
        Seen.GAVE_UP: State.FAILED,
        Seen.UNRESPONSIVE: State.FAILED,
    },
    State.DRAINING: {
        Seen.WANTED_AGAIN: State.SERVING,
        Seen.EXITED: State.STOPPED,
        Seen.UNRESPONSIVE: State.STOPPED,
    },
    State.STOPPED: {},
    State.FAILED: {},
}

ENDED = frozenset(state for state, moves in TRANSITIONS.items() if not moves)
"""States without a way out: the processes are gone, or their end is ordered."""

COMING_UP = frozenset(_STAGES) | {State.WAKING}
"""Launched or about to be, or woken, and not ready yet."""

LIVE = COMING_UP | {State.WARM, State.SERVING}
"""Serving or on the way to it."""


def advance(state: State, seen: Seen) -> State:
    """The state that follows ``seen``.

    Raises:
        IllegalTransition: ``seen`` cannot happen to a replica in ``state``.
    """
    try:
        return TRANSITIONS[state][seen]
    except KeyError:
        raise IllegalTransition(f"{seen.value!r} cannot happen to a {state.value} replica") from None


def drawing() -> str:
    """The table as a Mermaid state diagram."""
    lines = ["stateDiagram-v2", f"    [*] --> {State.REQUESTED.value}"]
    for state, moves in TRANSITIONS.items():
        lines += [f"    {state.value} --> {after.value}: {seen.value}" for seen, after in moves.items()]
        if state in ENDED:
            lines.append(f"    {state.value} --> [*]")
    return "\n".join(lines)


if __name__ == "__main__":
    print(drawing())
