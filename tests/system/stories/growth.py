"""24 clients at once and eight slots each: one replica becomes three, nobody is lost, and idle goes to zero."""

from __future__ import annotations

from pathlib import Path

from system import journals, policies
from system.clients import Ask, Crowd, How, ask
from system.figures import Figure, exactly, never
from system.policies import TINY
from system.product import Product, product

CLIENTS, SLOTS, MOST = 24, 8, 3
WINDOW_S, DELAY_S = 1.0, 2.0
LATE_S = 2.5
"""A tick, a report, and the end of an idle engine."""


async def growth(folder: Path, weights: Path, tokens: int, requests: int) -> list[Figure]:
    """Closed loop until so many requests were answered, and all three replicas have served."""
    model = policies.tiny(weights, 0, MOST, slots=SLOTS)
    model["scaling"] |= {"window": f"{WINDOW_S:g}s", "scale_down_delay": f"{DELAY_S:g}s"}
    async with product(policies.only(TINY, model), folder) as p:
        first = await ask(p.url, Ask(TINY))
        assert first.how is How.COMPLETE, first
        await p.until_serving(1)
        crowd = Crowd(lambda: p.url, [Ask(TINY, tokens, stream=n % 3 != 0) for n in range(CLIENTS)])
        await p.until_serving(MOST)
        await p.wait_until(lambda: len(crowd.endings) >= requests, 120.0)
        endings = await crowd.stop()
        await _settled_at_zero(p)
        assert await p.stop() == 0
    idle_s = _idle_to_zero_s(p)
    sizes = _sizes(p)
    return [
        exactly("replicas at most", max(sizes), MOST),
        exactly("replicas after the first request", next(size for size in sizes if size), 1),
        Figure("requests of 24 concurrent clients", len(endings), at_least=requests),
        never("requests lost", sum(ending.how is not How.COMPLETE for ending in endings)),
        Figure(
            "from the last answer to zero replicas wanted",
            idle_s,
            "s",
            at_least=DELAY_S,
            at_most=WINDOW_S + DELAY_S + LATE_S,
        ),
    ]


async def _settled_at_zero(p: Product) -> None:
    async def none_is_left() -> bool:
        model = await p.model(TINY)
        return all(replica["state"] in ("stopped", "failed") for replica in model["replicas"])

    await p.wait_until(lambda: not p.replica_processes(), 30.0)
    await p.wait_until(none_is_left, 10.0)


def _sizes(p: Product) -> list[int]:
    """The numbers decided on, in order."""
    return [
        decision["desired"] for turn in journals.turns(p.journal_dir) for decision in turn.orders("Decision")
    ]


def _idle_to_zero_s(p: Product) -> float:
    last_end_s = zero_s = 0.0
    for turn in journals.turns(p.journal_dir):
        if turn.event == "UpstreamEnded":
            last_end_s = turn.at_s
        if any(decision["desired"] == 0 for decision in turn.orders("Decision")):
            zero_s = turn.at_s
    return zero_s - last_end_s
