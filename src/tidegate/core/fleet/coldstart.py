"""How long it takes until a replica serves, learned from the last ones of its kind: for each model, tier and kind of
replica by itself: its variant, and the node it is on. Tiers differ by two orders of magnitude, so a wake-up says nothing
about a cold start. Of a kind that has not been seen its settings speak, and the model's other kinds where those say nothing.
Starts that begin side by side on one node share its disk and its cores: they are learned by themselves, and each sort
speaks for the other until that has been seen.

One number is the median of the last few, since one slow pull is not the rule, and since a start takes about as long as
those just before: a machine is busy, or another image is there, for many starts together. For plans with a risk more of
them are taken for log-normal: times of downloads and loads are skewed to the right, and two parameters can be had from a
few samples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import erf, exp, log, sqrt
from statistics import NormalDist, fmean, median, pstdev

from tidegate.core.fleet.artifacts import ArtifactBook, joined_spread
from tidegate.core.fleet.kinds import StartKinds
from tidegate.core.fleet.replicas import Replica
from tidegate.core.knowledge import KnownStarts
from tidegate.core.lifecycle import State
from tidegate.core.tiers import Tier
from tidegate.core.types import ModelId
from tidegate.core.values import value

SAMPLES_MAX = 16
"""Enough for a spread, few enough to follow a new image or a faster disk within a day."""
LAST = 5
"""Of these the median: two that were out of the way do not move it far, and three tell that times have changed."""
SPREAD_LEAST = 0.1
"""Of the logarithm: a tenth more or less. Few equal samples do not prove that there is no chance in it."""
SPREAD_UNKNOWN = 0.3
"""Before anything was measured a configured time is taken for right to about a third."""

LONGEST_S = 86_400.0
"""Nobody has waited longer for a start: what a file says beyond that was not measured."""
STAGES_MAX = 20
"""And parts of stages: more names than there are."""
PROMOTION_S = 0.001
"""From warm to serving: a new table, in the same turn."""

_Key = tuple[ModelId, Tier]
_Kind = tuple[str, bool]
"""Kind of replica, and whether another one came up beside it."""


@value
class Readiness:
    """When a start of one model will be over, as a distribution. Nothing is known: no median."""

    median_s: float | None = None
    spread: float = SPREAD_UNKNOWN
    """Standard deviation of the logarithm."""
    samples: int = 0
    """Measured starts behind it; 0: it is configured."""

    def quantile_s(self, ratio: float) -> float | None:
        """A start is over after this with such a probability, 0 < ratio < 1; None when nothing is known."""
        if self.median_s is None:
            return None
        return self.median_s * exp(self.spread * NormalDist().inv_cdf(ratio))

    def p_ready(self, within_s: float, age_s: float = 0.0) -> float | None:
        """The probability that one that began ``age_s`` ago is ready ``within_s`` from now; None when nothing
        is known. One that is far beyond its time is no longer counted on."""
        if self.median_s is None:
            return None
        late = 1.0 - self._share_by(age_s)
        if late < 1e-6:
            return 0.0
        return (self._share_by(age_s + within_s) - self._share_by(age_s)) / late

    def _share_by(self, age_s: float) -> float:
        if age_s <= 0.0 or not self.median_s:
            return float(age_s > 0.0)
        return 0.5 * (1.0 + erf((log(age_s) - log(self.median_s)) / (self.spread * sqrt(2.0))))


@value
class StartsView:
    """What is known of one model's cold starts, for the admin page."""

    samples: int
    """Measured ones, the last of them; 0: what is said is configured."""
    median_s: float | None
    """From the order to serving, with what is to be fetched; None when nothing is known."""
    p90_s: float | None
    stages: dict[str, float]
    """The median of each stage, in s; their sum need not be the whole median."""


class ColdStarts:
    """Measured times from the order to the first real token, fetching of weights left out: that is predicted from
    what is missing."""

    def __init__(self) -> None:
        self.artifacts = ArtifactBook()
        self.kinds = StartKinds()
        self._took_s: dict[_Key, dict[_Kind, deque[float]]] = {}
        self._readiness: dict[_Key, dict[tuple[_Kind, bool], Readiness]] = {}
        """By kind, and whether the settings say nothing of it; asked for since something was last learned of the model and
        tier."""
        self._stages: dict[ModelId, dict[tuple[Tier, str], dict[str, deque[float]]]] = {}
        """Of each tier and kind of node, what each stage took."""
        self.learned = 0
        """Starts measured by this process."""

    def __repr__(self) -> str:
        return f"<ColdStarts of {len(self._took_s)} models and tiers>"

    def learn(
        self,
        model: ModelId,
        took_s: float,
        tier: Tier = Tier.COLD,
        kind: str = "",
        stages: Mapping[str, float] | None = None,
        *,
        beside: bool = False,
    ) -> None:
        """A replica took this long from its launch, or from the order to wake up, to its first real token,
        without what fetching took; ``stages`` says what each stage of that took, and each part of one; ``beside`` that
        another one came up on its node."""
        self._samples_of(model, tier, (kind, beside)).append(took_s)
        for stage, stage_s in (stages or {}).items():
            self._stages_of(model, tier, kind, stage).append(stage_s)
        self.learned += 1
        self._readiness.pop((model, tier), None)

    def remember(self) -> tuple[KnownStarts, ...]:
        """What outlives this process. How fast sources are is known where the weights are kept."""
        known = []
        for (model, tier), kinds in self._took_s.items():
            for (kind, beside), took_s in kinds.items():
                is_told = beside and (kind, False) in kinds  # stages are those of both sorts together
                stages = {} if is_told else self._stages.get(model, {}).get((tier, kind), {})
                kept = tuple((stage, tuple(samples)) for stage, samples in stages.items())
                known.append(KnownStarts(model, tier, kind, tuple(took_s), kept, beside))
        return tuple(known)

    def restore(self, known: Iterable[KnownStarts]) -> None:
        """Go on from what a former process knew; what cannot be a time is left out."""
        for one in known:
            self._samples_of(one.model, one.tier, (one.kind, one.beside)).extend(filter(_can_be, one.took_s))
            for stage, samples in one.stages[:STAGES_MAX]:
                if kept := [took_s for took_s in samples if 0.0 <= took_s <= LONGEST_S]:
                    self._stages_of(one.model, one.tier, one.kind, stage).extend(kept)
        self._readiness.clear()

    def view(self, model: ModelId, otherwise_s: float | None, kind: str = "") -> StartsView:
        """The model's cold starts as they are known now; how long one of this kind takes."""
        readiness = self.readiness(model, otherwise_s, kind=kind)
        stages: dict[str, list[float]] = {}
        for (tier, _), known in self._stages.get(model, {}).items():
            if tier is Tier.COLD:
                for stage, samples in known.items():
                    stages.setdefault(stage, []).extend(samples)
        return StartsView(
            readiness.samples,
            readiness.median_s,
            readiness.quantile_s(0.9),
            {stage: median(samples) for stage, samples in stages.items()},
        )

    def expected_s(
        self,
        model: ModelId,
        otherwise_s: float | None,
        tier: Tier = Tier.COLD,
        kind: str = "",
        *,
        beside: bool = False,
    ) -> float | None:
        """The median of the last starts; before the first, what the settings say of all together; else None."""
        took_s = self._samples(model, tier, (kind, beside), otherwise_s)
        return median(took_s[-LAST:]) if took_s else otherwise_s

    def readiness(
        self,
        model: ModelId,
        otherwise_s: float | None,
        tier: Tier = Tier.COLD,
        kind: str = "",
        *,
        beside: bool = False,
    ) -> Readiness:
        """The distribution of the model's starts, with what is to be fetched first; before the first start, about
        what the settings say. From ``CACHED`` nothing is to be fetched."""
        if tier is Tier.CACHED:
            return self._without_fetching(model, otherwise_s, Tier.COLD, (kind, beside))
        known = self._without_fetching(model, otherwise_s, tier, (kind, beside))
        fetch_s = self.artifacts.fetch_s(model) if tier is Tier.COLD else 0.0
        if not fetch_s or known.samples == 0 or known.median_s is None:
            return known
        spread = joined_spread(known.median_s, known.spread, fetch_s, self.artifacts.spread(model))
        return Readiness(known.median_s + fetch_s, spread, known.samples)

    def fetch_s(self, model: ModelId, otherwise_s: float | None, kind: str = "") -> float | None:
        """What fetching is expected to add to a cold start; 0 before the first one, which the settings speak of."""
        is_measured = self._samples(model, Tier.COLD, (kind, False), otherwise_s)
        return self.artifacts.fetch_s(model) if is_measured else 0.0

    def start_s(
        self, model: ModelId, otherwise_s: float | None, kind: str = "", *, unknown_s: float | None = None
    ) -> float | None:
        """From the order to start one until it serves, with what is to be fetched. A part that is not known is taken for
        ``unknown_s``; where that is None the whole is not known."""
        fetch_s = self.fetch_s(model, otherwise_s, kind)
        took_s = self.expected_s(model, otherwise_s, kind=kind)
        fetch_s = unknown_s if fetch_s is None else fetch_s
        took_s = unknown_s if took_s is None else took_s
        return None if fetch_s is None or took_s is None else fetch_s + took_s

    def ready_s(self, replica: Replica) -> float | None:
        """When one that comes up is expected to serve; None when that is not known."""
        if replica.state is State.WAKING:
            begins_s: float | None = replica.since_s
            took_s = self.wakes_in_s(replica)
        else:
            begins_s = replica.weights_here_s
            took_s = self.expected_s(
                replica.model,
                replica.spec.expected_start_s,
                kind=self.kinds.of(replica),
                beside=replica.is_beside,
            )
        return None if begins_s is None or took_s is None else begins_s + took_s

    def wakes_in_s(self, replica: Replica) -> float | None:
        """From the order to wake up to serving; None when that is not known."""
        kind = self.kinds.of(replica)
        return self.expected_s(replica.home, replica.spec.pool.expected_wake_s, Tier.SLEEPING, kind)

    def _without_fetching(
        self, model: ModelId, otherwise_s: float | None, tier: Tier, kind: _Kind
    ) -> Readiness:
        by_kind = self._readiness.setdefault((model, tier), {})
        key = kind, otherwise_s is None
        known = by_kind.get(key)
        if known is not None:
            return known
        took_s = self._samples(model, tier, kind, otherwise_s)
        if not took_s:
            return Readiness(otherwise_s)
        logs = [log(max(1e-3, took)) for took in took_s]
        known = Readiness(exp(fmean(logs)), max(SPREAD_LEAST, pstdev(logs)), len(logs))
        by_kind[key] = known
        return known

    def _samples_of(self, model: ModelId, tier: Tier, kind: _Kind) -> deque[float]:
        return self._took_s.setdefault((model, tier), {}).setdefault(kind, deque(maxlen=SAMPLES_MAX))

    def _stages_of(self, model: ModelId, tier: Tier, kind: str, stage: str) -> deque[float]:
        stages = self._stages.setdefault(model, {}).setdefault((tier, kind), {})
        return stages.setdefault(stage, deque(maxlen=SAMPLES_MAX))

    def _samples(self, model: ModelId, tier: Tier, kind: _Kind, otherwise_s: float | None) -> list[float]:
        """Of the kind; of all, if there are none and the settings say nothing of this kind."""
        kinds = self._took_s.get((model, tier))
        if not kinds:
            return []
        name, beside = kind
        own = kinds.get(kind) or kinds.get((name, not beside))
        if own:
            return list(own)
        return [] if otherwise_s is not None else [took_s for took in kinds.values() for took_s in took]


def _can_be(took_s: float) -> bool:
    return 0.0 < took_s <= LONGEST_S
