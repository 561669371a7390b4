"""Shifting traffic between versions of a model: which version answers a request, and when that is undone.

A version is a model of its own, with its own replicas; clients ask for the name that they share. A request
of a session goes where the session's name falls: each version draws a number from it, weighted, and the
largest wins (weighted rendezvous hashing). So a session stays where it is, and when a weight grows,
sessions only move to that version. Other requests go to the version that is furthest behind its share of
the *tokens*, which also makes up for sessions of unequal size; or to the one that has most of the prompt
in its caches, as long as that is not ahead of its share by more than a little.

A version that fails, or is slow, beyond what is allowed gets nothing more until the versions are
configured anew. The first version is the one to fall back to and is never taken out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log

from tidegate.core.events import RequestArrived
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import TrafficShift
from tidegate.core.types import ModelId

FORGET_TOKENS = 5_000_000.0
"""Older tokens fade: a share holds over recent traffic."""
SLACK_RATIO = 0.02
"""Of the tokens counted, what a version may be ahead of its share for the sake of its caches."""
FORGET_SAMPLES = 0.02
WORSE_RATIO = 2.0
"""A version is not to blame while the first one fails half as often as it does."""

FAULTS = frozenset({Outcome.FAILED_ENGINE, Outcome.FAILED_MIDSTREAM, Outcome.EXPIRED_RUNNING})

Matched = Callable[[ModelId], float]
"""Tokens of a prompt that some replica of a version has in its cache."""


class Version:
    """One version and what has been seen of it."""

    __slots__ = ("because", "error_ratio", "model", "samples", "slow_ratio", "tokens", "weight")

    def __init__(self, model: ModelId, weight: float) -> None:
        self.model = model
        self.weight = weight
        self.tokens = 0.0
        self.samples = 0
        self.error_ratio = 0.0
        self.slow_ratio = 0.0
        self.because: str | None = None
        """Why it was taken out; None while it is in."""

    def __repr__(self) -> str:
        state = "out" if self.because else f"weight={self.weight:g}"
        return f"<Version {self.model} {state} tokens={self.tokens:.0f} errors={self.error_ratio:.3f}>"


class Shift:
    """The versions behind one name."""

    def __init__(self, config: TrafficShift) -> None:
        self._config = config
        self.versions = [Version(ModelId(model), weight) for model, weight in config.versions]
        self._by_model = {version.model: version for version in self.versions}

    def __repr__(self) -> str:
        return f"<Shift {self.versions!r}>"

    def configure(self, config: TrafficShift) -> None:
        """New weights; what was seen of a version stays, and one that was taken out gets another chance."""
        known, before, self._config = self._by_model, self._config, config
        self.versions = []
        for model, weight in config.versions:
            version = known.get(ModelId(model)) or Version(ModelId(model), weight)
            if version.because is not None:
                version.because, version.samples = None, 0
                version.error_ratio = version.slow_ratio = 0.0
            if config.max_ttft_s != before.max_ttft_s:
                version.slow_ratio = 0.0  # Late by another measure.
            version.weight = weight
            self.versions.append(version)
        self._by_model = {version.model: version for version in self.versions}
        for version in self.versions:
            version.tokens = 0.0  # Shares are counted from here on.

    def choose(self, session: str | None, can: Callable[[ModelId], bool], matched: Matched) -> ModelId:
        """The version for a request. ``can``: whether a version can serve at all.

        1. Only one is left, or none can: that one, or the first.
        2. A session: where its name falls.
        3. The one with most of the prompt cached, while it is not ahead of its share.
        4. The one furthest behind its share.
        """
        open_ones = [v for v in self.versions if v.weight > 0.0 and v.because is None and can(v.model)]
        if len(open_ones) < 2:  # 1
            return open_ones[0].model if open_ones else self.versions[0].model
        if session is not None:  # 2
            return max(open_ones, key=lambda version: _draw(session, version)).model
        total = sum(version.tokens for version in open_ones)
        weights = sum(version.weight for version in open_ones)
        slack = SLACK_RATIO * total
        behind = {version.model: version.weight / weights * total - version.tokens for version in open_ones}
        best = max(open_ones, key=lambda version: matched(version.model))
        if matched(best.model) > 0.0 and behind[best.model] > -slack:  # 3
            return best.model
        return max(open_ones, key=lambda version: behind[version.model] / version.weight).model  # 4

    def sent(self, model: ModelId, tokens: float) -> None:
        """A request of so many expected tokens went to this version; below zero corrects that."""
        version = self._by_model.get(model)
        if version is None:
            return
        version.tokens = max(0.0, version.tokens + tokens)
        total = sum(one.tokens for one in self.versions)
        if total > FORGET_TOKENS:
            for one in self.versions:
                one.tokens *= 0.5

    def ended(self, model: ModelId, outcome: Outcome, ttft_s: float | None) -> str | None:
        """How a request of this version ended. The reason when the version is taken out for it."""
        version = self._by_model.get(model)
        if version is None or (outcome is not Outcome.COMPLETED and outcome not in FAULTS):
            return None
        config = self._config
        rate = max(FORGET_SAMPLES, 1.0 / (version.samples + 1))
        version.samples += 1
        failed = float(outcome in FAULTS)
        version.error_ratio += rate * (failed - version.error_ratio)
        if ttft_s is not None and config.max_ttft_s is not None:
            version.slow_ratio += rate * (float(ttft_s > config.max_ttft_s) - version.slow_ratio)
        first = self.versions[0]
        if version is first or version.because is not None or version.samples < config.min_samples:
            return None
        if version.error_ratio > max(config.max_error_ratio, WORSE_RATIO * first.error_ratio):
            version.because = f"{100 * version.error_ratio:.1f} % of its requests failed"
        elif version.slow_ratio > max(config.max_slow_ratio, WORSE_RATIO * first.slow_ratio):
            slow = f"{100 * version.slow_ratio:.1f} % of its first tokens"
            version.because = f"{slow} took longer than {config.max_ttft_s:g} s"
        return version.because


def of_version(arrived: RequestArrived, model: ModelId) -> RequestArrived:
    """The request as this version's router sees it: what another version has cached is of no use to it."""
    if not arrived.prefix:
        return arrived
    salt = _digest(model)
    return replace(arrived, prefix=tuple([block ^ salt for block in arrived.prefix]))


def _draw(session: str, version: Version) -> float:
    """The version's number for this session; the largest wins with the chance of its weight."""
    # Above 53 bits a float would be rounded to one, and a session be found whose draw has no logarithm.
    unit = ((_digest(f"{version.model}\n{session}") >> 8) + 0.5) / 2**52
    return version.weight / -log(unit)


def _digest(text: str) -> int:
    """60 well-mixed bits of a text, the same in every process."""
    mixed = 0xCBF29CE484222325
    for byte in text.encode():
        mixed = ((mixed ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 33
    mixed = (mixed * 0xFF51AFD7ED558CCD) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 33
    mixed = (mixed * 0xC4CEB9FE1A85EC53) & 0xFFFFFFFFFFFFFFFF
    mixed ^= mixed >> 33
    return mixed >> 4
