"""What cold starts consist of, and what would shorten them most: from measured starts alone.

A lever says of each measured start how many seconds it would have saved. What it gains is the difference between the
medians with and without it, so a stage that only one start in ten has gains nothing at the median, and something at the
90th percentile. Three kinds of ground are told apart: *measured* on this fleet, in *proportion* to something measured, and
*published* by others. A lever that the data say nothing about is not there.

=====================  ==================================================================================================
sleep                  a wake-up in place of the start: the median of the wake-ups measured; without one 6 s, the upper
                       end of what vLLM has published for its sleep mode (0.1 to 6 s, vLLM blog, 2025)
weights ahead          nothing is pulled: they are on the node's disk before
nearer source          the same bytes at the rate of the fastest source that something was fetched from
smaller weights        half the bytes (8 bits for 16): half of what pulling and reading them takes
compiled before        a compilation found: the median of those that found one, for those that did not
fewer capture sizes    graphs are captured one size after the other: half as many take half as long
=====================  ==================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from statistics import median, quantiles

from tidegate.core.fleet.tiers import PUBLISHED_WAKE_S
from tidegate.core.lifecycle import Part, State
from tidegate.core.types import ModelId
from tidegate.core.values import value

HALF = 0.5
LEAST_S = 0.01
"""A gain below is none, and neither is a stage."""


class Ground(Enum):
    """What a prediction rests on."""

    MEASURED = "measured"
    PROPORTION = "proportion"
    PUBLISHED = "published"


@value
class Start:
    """One measured start, from the order to the first real token."""

    took_s: float
    stages: dict[State, float]
    """How long it was in each state on its way up; those that it skipped are not there."""
    parts: dict[Part, float]
    """What its engine said of its own start."""
    compiled: bool | None = None
    """What it compiles was found; None: not known."""
    pulled_bytes: int | None = None
    """How much it had to fetch; None: nothing, or not known."""
    source: str = ""
    """From where it fetched that."""

    @property
    def pulling_s(self) -> float:
        """What fetching its weights took."""
        return self.stages.get(State.PULLING, 0.0)

    @property
    def reading_s(self) -> float:
        """What getting them from the disk into its memory took."""
        return self.stages.get(State.LOADING) or self.parts.get(Part.WEIGHTS, 0.0)


@value
class Span:
    """One stage of many starts, or one part of a stage."""

    name: str
    starts: int
    """Those that had it."""
    p50_s: float
    """Over these."""
    p90_s: float
    share: float
    """Of the time of all starts together."""


@value
class Lever:
    """Something that could be done about starts."""

    name: str
    gain_s: float
    """By so much the median would be shorter."""
    gain_p90_s: float
    ground: Ground
    because: str


@value
class StartReport:
    """One model's starts on one kind of node."""

    model: ModelId
    kind: str
    starts: int
    failed: int
    """Ended before they were ready, not asked to."""
    p50_s: float | None
    p90_s: float | None
    wakes: int
    wake_p50_s: float | None
    spans: tuple[Span, ...]
    """Stages in their order, each followed by the parts that its engine told."""
    levers: tuple[Lever, ...]
    """The one that gains most first."""


def report(
    model: ModelId,
    kind: str,
    starts: Sequence[Start],
    wakes_s: Sequence[float],
    failed: int,
    rates_per_s: dict[str, float],
    *,
    can_sleep: bool,
) -> StartReport:
    """All about one model's starts.

    Args:
        model: Whose.
        kind: On which sort of node, or in which of its variants.
        starts: Measured cold ones.
        wakes_s: How long wake-ups from sleep took.
        failed: How many starts never became ready.
        rates_per_s: Of each source, the bytes a second that came from it.
        can_sleep: Its engine has a sleep mode.
    """
    took_s = [start.took_s for start in starts]
    found = _Levers(starts)
    found.add("sleep instead of stop", *_sleep(wakes_s, can_sleep=can_sleep))
    found.add("weights ahead", *_ahead(starts))
    found.add("nearer source", *_nearer(starts, rates_per_s))
    found.add("smaller weights", *_smaller(starts))
    found.add("compiled before", *_compiled(starts))
    found.add("fewer capture sizes", *_capture(starts))
    return StartReport(
        model=model,
        kind=kind,
        starts=len(starts),
        failed=failed,
        p50_s=median(took_s) if took_s else None,
        p90_s=_p90(took_s) if took_s else None,
        wakes=len(wakes_s),
        wake_p50_s=median(wakes_s) if wakes_s else None,
        spans=_spans(starts),
        levers=tuple(sorted(found.levers, key=lambda lever: (-lever.gain_s, -lever.gain_p90_s, lever.name))),
    )


# ---- stages ----

_WAY_UP = (State.REQUESTED, State.PROCURING, State.PULLING, State.LOADING, State.STARTING)
_NAMES = tuple(
    name for state in _WAY_UP for name in (state.value, *(f"{state.value}: {part.value}" for part in Part))
)


def named(stages: Mapping[State, float], parts: Mapping[Part, float]) -> dict[str, float]:
    """Stages by name, and parts below the stage that they lie in: reading weights in that of its own where a backend
    sees one."""
    found = {state.value: took_s for state, took_s in stages.items()}
    for part, took_s in parts.items():
        loads = part is Part.WEIGHTS and State.LOADING in stages
        state = State.LOADING if loads else State.STARTING
        found[f"{state.value}: {part.value}"] = took_s
    return found


def _spans(starts: Sequence[Start]) -> tuple[Span, ...]:
    whole_s = sum(start.took_s for start in starts)
    by_start = [named(start.stages, start.parts) for start in starts]
    spans: list[Span] = []
    for name in _NAMES:
        seconds = [took_s[name] for took_s in by_start if name in took_s]
        if max(seconds, default=0.0) >= LEAST_S:
            spans.append(_span(name, seconds, whole_s))
    return tuple(spans)


def _span(name: str, seconds: list[float], whole_s: float) -> Span:
    share = sum(seconds) / whole_s if whole_s > 0 else 0.0
    return Span(name, len(seconds), median(seconds), _p90(seconds), share)


def _p90(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=10, method="inclusive")[-1] if len(seconds) > 1 else seconds[0]


# ---- levers ----

Saved = Callable[[Start], float]
Found = tuple[Saved, Ground, str] | tuple[()]


class _Levers:
    """Those that gain something."""

    def __init__(self, starts: Sequence[Start]) -> None:
        self._starts = starts
        self.levers: list[Lever] = []

    def add(
        self, name: str, saved: Saved | None = None, ground: Ground = Ground.MEASURED, because: str = ""
    ) -> None:
        """What this one saves of each start, and on what that rests; nothing when it cannot be said."""
        if saved is None or not self._starts:
            return
        before = [start.took_s for start in self._starts]
        after = [max(0.0, start.took_s - max(0.0, saved(start))) for start in self._starts]
        gain_s, gain_p90_s = median(before) - median(after), _p90(before) - _p90(after)
        if max(gain_s, gain_p90_s) >= LEAST_S:
            self.levers.append(Lever(name, gain_s, gain_p90_s, ground, because))


def _sleep(wakes_s: Sequence[float], *, can_sleep: bool) -> Found:
    if wakes_s:
        wake_s = median(wakes_s)
        said = f"{_times(len(wakes_s), 'wake-up')} took {wake_s:.3g} s at the median"
        return (lambda start: start.took_s - wake_s), Ground.MEASURED, said
    if can_sleep:
        said = f"vLLM has published wake-ups of 0.1 to {PUBLISHED_WAKE_S:g} s; none was measured here"
        return (lambda start: start.took_s - PUBLISHED_WAKE_S), Ground.PUBLISHED, said
    return ()


def _ahead(starts: Sequence[Start]) -> Found:
    pulled = [start.pulling_s for start in starts if start.pulling_s > 0]
    if not pulled:
        return ()
    said = f"{len(pulled)} of {_times(len(starts), 'start')} pulled weights, for {median(pulled):.3g} s at the median"
    return (lambda start: start.pulling_s), Ground.MEASURED, said


def _nearer(starts: Sequence[Start], rates_per_s: dict[str, float]) -> Found:
    pulls = [start for start in starts if start.pulled_bytes and start.pulling_s > 0]
    if not pulls or not rates_per_s:
        return ()
    best = max(rates_per_s, key=lambda source: rates_per_s[source])
    if all(start.source == best for start in pulls):
        return ()
    rate = rates_per_s[best]

    def saved(start: Start) -> float:
        if not start.pulled_bytes or start.source == best:
            return 0.0
        return start.pulling_s - start.pulled_bytes / rate

    said = f"{_size(median([start.pulled_bytes or 0 for start in pulls]))} at {_size(rate)}/s, as came from {best}"
    return saved, Ground.MEASURED, said


def _smaller(starts: Sequence[Start]) -> Found:
    seconds = [start.pulling_s + start.reading_s for start in starts]
    if not any(seconds):
        return ()
    said = f"pulling and reading them takes {median(seconds):.3g} s at the median; half the bytes take half of it"
    return (lambda start: HALF * (start.pulling_s + start.reading_s)), Ground.PROPORTION, said


def _compiled(starts: Sequence[Start]) -> Found:
    """By what engines say of compiling, or, where they say nothing, by the stage that it is in."""
    for compiling in (_compile_part_s, _starting_s):
        hits = _known(compiling, (start for start in starts if start.compiled is True))
        misses = _known(compiling, (start for start in starts if start.compiled is False))
        if hits and misses:
            hit_s = median(hits)
            break
    else:
        return ()

    def saved(start: Start) -> float:
        took_s = compiling(start)
        return 0.0 if took_s is None or start.compiled is not False else took_s - hit_s

    said = (
        f"{hit_s:.3g} s in {_times(len(hits), 'start')} that found a compilation, "
        f"{median(misses):.3g} s in {len(misses)} that did not"
    )
    return saved, Ground.MEASURED, said


def _capture(starts: Sequence[Start]) -> Found:
    captures = [start.parts[Part.CAPTURE] for start in starts if Part.CAPTURE in start.parts]
    if not captures:
        return ()
    said = (
        f"capturing graphs takes {median(captures):.3g} s at the median; half as many sizes take half of it"
    )
    return (lambda start: HALF * start.parts.get(Part.CAPTURE, 0.0)), Ground.PROPORTION, said


def _compile_part_s(start: Start) -> float | None:
    return start.parts.get(Part.COMPILE)


def _starting_s(start: Start) -> float | None:
    return start.stages.get(State.STARTING)


def _known(of: Callable[[Start], float | None], starts: Iterable[Start]) -> list[float]:
    return [took_s for start in starts if (took_s := of(start)) is not None]


def _times(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _size(count: float) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:.0f} B"
