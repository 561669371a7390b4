"""The default policy on a real engine: starts are predicted from those before, a crowd is met, and every step has its
reason. One replica for one client; 24 clients make it three; when they have gone there is none."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import yaml

from system import journals, policies
from system.clients import Ask, Crowd, How, ask
from system.figures import Figure, exactly, never
from system.product import Product, product

EXAMPLE = Path(__file__).parents[3] / "examples" / "smollm2-llamacpp.yaml"
EXPLAINED = "explained.txt"
CLIENTS, MOST = 24, 3
CROWDS = 2
"""What two starts side by side take beside a busy replica is known from the second crowd on."""
DELAY_S = 5.0
OFF_SHARE = 0.2
"""Of a start, by how much its prediction may be off."""


@dataclass(frozen=True, slots=True)
class Start:
    """One replica's way up, in seconds from its launch."""

    predicted_s: float | None
    """As the route table said in the turn that ordered it."""
    measured_s: float


async def flash_crowd(folder: Path, deaths: int) -> list[Figure]:
    """So often the only replica is killed and replaced before a crowd comes: each time a start to predict."""
    policy = yaml.safe_load(EXAMPLE.read_text())
    ((model, keys),) = policy["models"].items()
    keys["restarts"] = policies.at_once()
    keys["scaling"] |= {"window": "1s", "scale_down_delay": f"{DELAY_S:g}s"}
    async with product(policy, folder) as p:
        first = await ask(p.url, Ask(model, 8))
        assert first.how is How.COMPLETE, first
        endings = []
        for crowds in range(min(CROWDS, deaths)):
            alone = Crowd(lambda: p.url, [Ask(model, 16)])
            for _ in range(0 if crowds else deaths):
                await p.until_serving(1)
                await _replaced(p)
            await p.until_serving(1)
            crowd = Crowd(lambda: p.url, [Ask(model, 24, stream=n % 3 != 0) for n in range(CLIENTS)])
            await p.until_serving(MOST)
            await p.wait_until(lambda crowd=crowd: len(crowd.endings) >= CLIENTS, 120.0)
            endings += await crowd.stop()
            await alone.stop()
            await p.wait_until(lambda: not p.replica_processes(), 240.0)
        assert await p.stop() == 0
    steps = await _explained(p.journal_dir, folder / EXPLAINED)
    return [*_readiness(_starts(p.journal_dir), deaths), *_steps(steps, endings)]


async def _replaced(p: Product) -> None:
    """Kill the one that serves, and wait for another."""
    (gone,) = [replica["id"] for replica in await p.serving()]
    for process in p.replica_processes()[gone]:
        os.kill(process.pid, signal.SIGKILL)

    async def another_serves() -> bool:
        return any(replica["id"] != gone for replica in await p.serving())

    await p.wait_until(another_serves, 60.0)


# ---- readiness ----


def _starts(journal_dir: Path) -> list[Start]:
    """In the order of their launches."""
    launched: dict[str, tuple[float, float | None]] = {}
    found: dict[str, Start] = {}
    for turn in journals.turns(journal_dir):
        tables = turn.orders("PublishRoutes")
        routes = tables[-1]["table"]["routes"] if tables else []
        expected_s = {route["replica_id"]: route["expected_ready_s"] for route in routes}
        for order in turn.orders("Launch"):
            launched[order["replica_id"]] = turn.at_s, expected_s.get(order["replica_id"])
        if turn.event == "ReplicaSeen" and turn.fact["seen"] == "ready":
            at_s, ready_s = launched[turn.fact["replica_id"]]
            found[turn.fact["replica_id"]] = Start(ready_s and ready_s - at_s, turn.at_s - at_s)
    return [found[name] for name in launched if name in found]


def _readiness(starts: list[Start], deaths: int) -> list[Figure]:
    """The first one teaches. Those of a crowd start two at a time on a machine that is busy with answers: how long that
    takes is not known before the second crowd."""
    each, crowded = MOST - 1, starts[1 + deaths :]
    alone = [*starts[1 : 1 + deaths], *crowded[each : each + 1]]
    figures = [
        exactly("starts without a prediction", sum(one.predicted_s is None for one in starts), 0),
        exactly("starts one at a time after the first", len(alone), deaths + min(CROWDS, deaths) - 1),
        Figure("the first start, which was expected to take 1 s", starts[0].measured_s, "s"),
    ]
    told = [
        ("alone", alone),
        ("in a first crowd", crowded[:each]),
        ("in a second crowd", crowded[each + 1 :]),
    ]
    for what, some in told:
        if not some:
            continue
        took_s = median(one.measured_s for one in some)
        off_s = median(abs((one.predicted_s or 0.0) - one.measured_s) for one in some)
        bound_s = OFF_SHARE * took_s if some is alone else None
        figures += [
            Figure(f"starts {what}, predicted, median", median(one.predicted_s or 0.0 for one in some), "s"),
            Figure(f"starts {what}, measured, median", took_s, "s"),
            Figure(f"starts {what}, prediction off by, median", off_s, "s", at_most=bound_s),
            Figure(f"starts {what}, off by, of the measured", 100 * off_s / took_s, "%"),
        ]
    return figures


# ---- steps ----


async def _explained(journal_dir: Path, to: Path) -> list[dict]:
    """Every decision that changed the number; in words, as ``tidegate explain`` says them, in a file."""
    listed = json.loads(await _said("explain", "--json", str(journal_dir)))["decisions"]
    steps = [one for one in listed if one["decision"]["desired"] != one["decision"]["before"]]
    words = [await _said("explain", str(journal_dir), str(one["number"])) for one in steps]
    to.write_text("\n".join(words))
    return steps


async def _said(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidegate", *arguments), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, arguments
    return out.decode()


def _steps(steps: list[dict], endings: list) -> list[Figure]:
    numbers = [one["decision"]["desired"] for one in steps]
    return [
        exactly("replicas after the first request", numbers[0], 1),
        exactly("replicas at most", max(numbers), MOST),
        exactly("replicas in the end", numbers[-1], 0),
        Figure(
            "steps, each with its reason", sum(bool(one["decision"]["because"]) for one in steps), at_least=3
        ),
        Figure("requests of 24 concurrent clients", len(endings), at_least=CLIENTS),
        never("requests of theirs lost", sum(ending.how is not How.COMPLETE for ending in endings)),
    ]
