"""The product on real sockets against the wall clock, and the simulator on what its gateway saw.

``tidegate serve`` runs with emulated engines that are so many times as fast as the real ones. Its journal then
says when each request came and how long a start took on this machine. The simulator gets these two, the same
policy, and an engine of the same speed. Nothing else passes between the two.

All figures are in model time: wall time times the scale.
"""

from __future__ import annotations

import asyncio
import random
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from parity import timed_engine
from system import journals
from system.product import product
from tidegate.config import parse
from tidegate.core.types import ModelId
from tidegate.emulator import text
from tidegate.emulator.options import EmulatorOptions
from tidegate.engine.catalogue import profile
from tidegate.engine.coldstart import ColdStart
from tidegate.engine.latency import Slowed
from tidegate.sim.scenario import ModelSetup, Scenario
from tidegate.sim.world import simulate
from tidegate.workload.traces import Trace

MODEL = ModelId("m")
PROFILE = "llama-3.1-70b-a100x4"
"""A step of it takes 28 ms and a prompt of 1,000 tokens 0.2 s: on the wall still long beside a socket's time."""
SLOTS = 8
COLD_START_S = 10.0
"""In model time; what the process itself takes to start comes on top."""
MOST_TOKENS = 512
"""What clients ask for at most. Emulated answers end sooner by themselves."""
SETTLE_S = 2.0
"""On the wall, before the first request and after the last."""


@dataclass(frozen=True, slots=True)
class Request:
    """One row: when it is sent, in model time, and what."""

    at_s: float
    prompt: str

    @property
    def output_tokens(self) -> int:
        return text.natural_tokens(text.plain_prompt(self.prompt))


@dataclass(slots=True)
class Latencies:
    """Of all requests, in model time and by row where rows are known."""

    ttft_s: list[float] = field(default_factory=list)
    e2e_s: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """One side."""

    gateway: Latencies = field(default_factory=Latencies)
    """From a request's arrival at the gateway; its ledger says so."""
    engine: Latencies = field(default_factory=Latencies)
    """From a request's arrival at the engine; the engine model says so."""
    replicas: list[str] = field(default_factory=list)
    """Where each request was sent."""
    launches_s: list[float] = field(default_factory=list)
    """When a replica was ordered, since the first report."""


@dataclass(slots=True)
class Seen:
    """What the journal of the product says, in wall seconds since a report of the gateway."""

    outcome: Outcome
    arrived_s: list[float]
    start_s: float
    """From an order to launch to a replica that serves."""


def requests(count: int, seed: int) -> list[Request]:
    """A quiet beginning, then more than one replica can serve."""
    dice = random.Random(seed)
    at_s, made = 0.0, []
    for number in range(count):
        at_s += dice.expovariate(0.7 if number < count // 5 else 1.6)
        tokens = round(min(6_000, max(200, dice.lognormvariate(7.3, 0.7))))
        made.append(Request(at_s, f"{number:<8}".ljust(tokens * text.TOKEN_BYTES, ".")))
    return made


def policy(notes: Path, scale: float) -> dict[str, Any]:
    """One model, one or two replicas. Its times are on the wall, as the brains know no other."""
    options = ("--profile", PROFILE, "--time-scale", f"{scale:g}", "--cold-start", f"{COLD_START_S:g}s")
    scaling = {
        "min_replicas": 1,
        "max_replicas": 2,
        "window": "2s",
        "scale_down_delay": "10m",
        "concurrency_target": 6,
    }
    engine = {"engine": "emulated", "command": timed_engine.command(notes, *options), "slots": SLOTS}
    return {"models": {MODEL: engine | {"scaling": scaling}}}


async def on_sockets(rows: list[Request], scale: float, folder: Path) -> Seen:
    """Play the rows against ``tidegate serve``."""
    notes = folder / "engines"
    async with product(policy(notes, scale), folder) as served:
        await served.until_serving(1)
        await asyncio.sleep(SETTLE_S)
        await _play(rows, scale, served.url)
        await served.until_idle()
        await asyncio.sleep(SETTLE_S)
        await served.stop()
        return _read(served.journal_dir, notes, len(rows), scale)


async def _play(rows: list[Request], scale: float, url: str) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for number, row in enumerate(rows):
            await asyncio.sleep(began_s + row.at_s / scale - loop.time())
            group.create_task(_ask(session, url, number, row.prompt))


async def _ask(session: aiohttp.ClientSession, url: str, number: int, prompt: str) -> None:
    body = {"model": MODEL, "prompt": prompt, "max_tokens": MOST_TOKENS, "stream": True}
    headers = {"x-request-id": str(number)}
    async with session.post(f"{url}/v1/completions", json=body, headers=headers) as answer:
        said = await answer.read()
    assert answer.status == 200, said
    assert said.endswith(b"data: [DONE]\n\n")


def _read(journal: Path, notes: Path, count: int, scale: float) -> Seen:
    found = Outcome(replicas=[""] * count)
    found.gateway = Latencies([0.0] * count, [0.0] * count)
    arrived_s = [0.0] * count
    origin_s = ready_s = 0.0
    launched: dict[str, float] = {}
    starts_s: list[float] = []
    for turn in journals.turns(journal):
        for order in turn.orders("Launch"):
            launched[order["replica_id"]] = turn.at_s
            if ready_s:
                found.launches_s.append((turn.at_s - origin_s) * scale)
        match turn.event:
            case "ReplicaSeen" if turn.fact["seen"] == "ready":
                ready_s = turn.at_s
                starts_s.append(ready_s - launched[turn.fact["replica_id"]])
            case "ReportDue" if ready_s and not origin_s:
                origin_s = turn.at_s
            case "RequestArrived":
                arrived_s[_row(turn.fact)] = turn.at_s - origin_s
        for order in turn.orders("Send"):
            found.replicas[_row(order)] = order["replica_id"]
        for record in turn.orders("Record"):
            assert record["outcome"] == "completed", record
            found.gateway.ttft_s[_row(record)] = record["ttft_s"] * scale
            found.gateway.e2e_s[_row(record)] = record["e2e_s"] * scale
    for timed in timed_engine.answers(notes):
        if timed.output_tokens > 1:  # A readiness probe asks for one.
            found.engine.ttft_s.append(timed.ttft_s)
            found.engine.e2e_s.append(timed.e2e_s)
    # The last start, for the first one had the machine to itself.
    return Seen(found, arrived_s, starts_s[-1])


def _row(named: dict[str, Any]) -> int:
    return int(named["request_id"].partition("/")[0])


def simulated(rows: list[Request], seen: Seen, scale: float) -> Outcome:
    """The same in the simulator."""
    trace = Trace()
    trace.arrived_s = array("d", seen.arrived_s)
    trace.prompt_tokens = array("i", [len(text.plain_prompt(row.prompt)) // text.TOKEN_BYTES for row in rows])
    trace.output_tokens = array("i", [row.output_tokens for row in rows])
    run = simulate(trace, _scenario(seen.start_s, scale), journal=(notes := _Sends()))
    tally = run.tally
    found = Outcome(replicas=[notes.sent[str(row)] for row in range(len(rows))])
    found.gateway.ttft_s = [value * scale for value in tally.ttft_s]
    found.gateway.e2e_s = [value * scale for value in tally.e2e_s]
    waits = [value * scale for value in tally.queue_wait_s]
    found.engine.ttft_s = [ttft - wait for ttft, wait in zip(found.gateway.ttft_s, waits, strict=True)]
    found.engine.e2e_s = [e2e - wait for e2e, wait in zip(found.gateway.e2e_s, waits, strict=True)]
    found.launches_s = [at_s * scale for at_s in notes.launches_s]
    return found


def _scenario(start_s: float, scale: float) -> Scenario:
    """The policy that was served, as the product itself reads it, on the wall's time."""
    settings = parse(yaml.safe_dump(policy(Path("engines"), scale)))
    model = settings.models[MODEL]
    options = EmulatorOptions(profile=PROFILE, max_sequences=SLOTS)
    setup = ModelSetup(
        dispatch=model.dispatch,
        fleet=model.fleet,
        limits=options.limits,
        law=Slowed(profile(PROFILE).law, 1 / scale),
        cold_start=ColdStart(engine_start_s=start_s),
        running=1,
    )
    return Scenario(models={MODEL: setup}, fleet=settings.limits, max_output_tokens=MOST_TOKENS)


class _Sends:
    """A journal that keeps where requests were sent, and when replicas were ordered."""

    def __init__(self) -> None:
        self.sent: dict[str, str] = {}
        self.launches_s: list[float] = []

    def turn(self, brain: str, now_s: float, event: object, effects: Any) -> None:
        for effect in effects:
            match type(effect).__name__:
                case "Send":
                    self.sent[effect.request_id] = effect.replica_id
                case "Launch":
                    self.launches_s.append(now_s)
