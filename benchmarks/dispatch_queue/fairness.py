"""Tenants side by side: shares under backlog, and a quiet tenant beside a loud one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from itertools import cycle

from benchmarks.dispatch_queue.world import STEP_TOKENS, Ask, World
from tidegate.config.settings import Client
from tidegate.core.effects import Reject
from tidegate.core.outcomes import Outcome
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import FlowId
from tidegate.core.windows import percentile
from tidegate.gateway.auth import Keys

REPLICAS = 2
SLOTS = 64
MEAN_PROMPT, MEAN_OUTPUT = 500, 200
QUIET_PER_S = 1.0
KEYS = [f"key-{number}" for number in range(100)]
"""All of one tenant."""


def fleet(seed: int, config: DispatchConfig | None = None, step_tokens: int = STEP_TOKENS) -> World:
    """Two replicas that serve from the beginning."""
    world = World(SLOTS, seed, config, step_tokens)
    for number in range(REPLICAS):
        world.engine(f"m-{number + 1}")
    world.publish()
    return world


def shares(seed: int, sizes: dict[str, tuple[int, int]], seconds: float = 60.0) -> dict[str, float]:
    """Tenants that always have more waiting than fits, each with requests of its own mean size. The
    tokens that each was served, as a part of an equal share."""
    world = fleet(seed)
    numbers = iter(range(10_000_000))
    served: Counter[str] = Counter()

    def more(flow: str) -> None:
        prompt, output = sizes[flow]
        dice = world.dice
        ask = Ask(
            next(numbers), 1 + int(dice.expovariate(1 / prompt)), 1 + int(dice.expovariate(1 / output)), flow
        )
        world.ask(ask)

    def done(ask: Ask) -> None:
        if world.kernel.now_s > seconds / 4:
            served[ask.flow] += ask.prompt + ask.output
        more(ask.flow)

    world.done = done
    for flow in sizes:
        for _ in range(2 * SLOTS):
            more(flow)
    world.run(seconds)
    equal = sum(served.values()) / len(sizes)
    return {flow: served[flow] / equal for flow in sizes}


@dataclass(frozen=True, slots=True)
class Quiet:
    """How the quiet tenant fared."""

    requests: int
    ttft_p99_s: float
    e2e_p99_s: float
    error_ratio: float
    loud_tokens_per_s: float
    """Of prompts that the other tenant was served."""


def beside(
    seed: int,
    loud_per_s: float,
    *,
    prompt: int = MEAN_PROMPT,
    config: DispatchConfig | None = None,
    step_tokens: int = STEP_TOKENS,
    seconds: float = 400.0,
) -> Quiet:
    """A quiet tenant of one request a second beside a loud one, which uses each of its hundred keys in turn. Clients
    come back when they are told to."""
    world = fleet(seed, config, step_tokens)
    numbers = iter(range(10_000_000))
    quiet: list[Ask] = []
    loud_flows = _flows()

    def arrive(flow: str, per_s: float, size: int) -> None:
        dice = world.dice
        ask = Ask(
            next(numbers),
            1 + int(dice.expovariate(1 / size)),
            1 + int(dice.expovariate(1 / MEAN_OUTPUT)),
            flow if flow == "quiet" else next(loud_flows),
        )
        if flow == "quiet":
            quiet.append(ask)
        world.ask(ask)
        world.kernel.at(world.kernel.now_s + dice.expovariate(per_s), partial(arrive, flow, per_s, size))

    def refused(ask: Ask, order: Reject) -> None:
        if order.retry_after_s is not None:
            world.kernel.at(world.kernel.now_s + order.retry_after_s, partial(world.ask, ask))

    world.refused = refused
    arrive("quiet", QUIET_PER_S, MEAN_PROMPT)
    if loud_per_s:
        arrive("loud", loud_per_s, prompt)
    world.run(seconds)
    measured = [ask for ask in quiet if 20.0 < ask.first_s < seconds - 40.0]
    ttft_s = sorted(ask.ttft_s for ask in measured)
    e2e_s = sorted(ask.e2e_s for ask in measured)
    failed = sum(1 for ask in measured if ask.outcome is not Outcome.COMPLETED or ask.tries > 1)
    served = [record for _, record in world.records if record.outcome is Outcome.COMPLETED]
    return Quiet(
        len(measured),
        percentile(ttft_s, 0.99) or 0.0,
        percentile(e2e_s, 0.99) or 0.0,
        failed / max(1, len(measured)),
        sum(record.prompt_tokens for record in served if record.flow != "quiet") / seconds,
    )


def _flows() -> Iterator[str]:
    """Whom the gateway takes each of a tenant's requests to be from."""
    owner = Client(FlowId("loud"))
    keys = Keys({sha256(key.encode()).hexdigest(): owner for key in KEYS})
    for key in cycle(KEYS):
        found = keys.client(f"Bearer {key}".encode())
        assert found is not None
        yield found.flow
