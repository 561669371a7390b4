"""A burst far above all slots while the engines' metrics are old: no replica ever gets more than its slots."""

from __future__ import annotations

import asyncio
from pathlib import Path

from system import journals, policies
from system.clients import Ask, How, ask
from system.figures import Figure, exactly, never
from system.product import product
from system.watched_engine import most_open

MODEL = "burst"
REPLICAS, SLOTS = 4, 8
METRICS_LAG_S = 0.2
SPEED = "0.5"
"""Slow enough for the burst to outlast several looks at the metrics."""


async def burst(folder: Path, requests: int) -> list[Figure]:
    """All at once. What was in flight is counted by the engines themselves and, again, from the journal."""
    notes = folder / "notes"
    model = policies.emulated(
        notes, REPLICAS, REPLICAS, "--time-scale", SPEED, slots=SLOTS, metrics_lag_s=METRICS_LAG_S
    )
    async with product(policies.only(MODEL, model), folder) as p:
        await p.until_serving(REPLICAS)
        asks = [Ask(MODEL, 20 + n % 60, stream=n % 2 == 0) for n in range(requests)]
        endings = await asyncio.gather(*(ask(p.url, wanted) for wanted in asks))
        await p.until_idle()
        assert await p.stop() == 0
    seen, ordered = most_open(notes), journals.most_in_flight(p.journal_dir)
    return [
        Figure("requests at once", requests),
        never("not answered", sum(ending.how is not How.COMPLETE for ending in endings)),
        Figure("metrics reports heard during the burst", _reports(p.journal_dir), at_least=1),
        Figure("age of the engines' metrics when heard, at least", 1000 * METRICS_LAG_S, "ms"),
        exactly("replicas used", len(seen), REPLICAS),
        exactly("most in flight on a replica, by the engines' own count", max(seen.values()), SLOTS),
        exactly("most in flight on a replica, by the journal", max(ordered.values()), SLOTS),
    ]


def _reports(journal_dir: Path) -> int:
    """Engines' metrics that were taken in while requests were under way."""
    turns = list(journals.turns(journal_dir))
    times = [turn.at_s for turn in turns if turn.event in ("RequestArrived", "UpstreamEnded")]
    return sum(t.event == "EngineReported" and min(times) <= t.at_s <= max(times) for t in turns)
