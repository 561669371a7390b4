"""``python -m benchmarks.parity``: the product on real sockets against the simulator, on the same requests.

What is compared, in model time: TTFT and E2E as the gateway's ledger has them, from a request's arrival there to
the first and the last byte passed on, over all requests. In the simulator nothing passes a socket; on the wall
everything does, and that time counts in full, times the scale. Nothing is subtracted. Below stand the same two
from arrival at the engine, as the engine model itself says: what differs there is no socket's doing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.gateway.machine import facts

ROOT = Path(__file__).parents[1]
# The world is the tests' own. What is shown here and what is tested can't differ.
sys.path.insert(0, str(ROOT / "tests"))

from parity.sockets import (  # noqa: E402
    PROFILE,
    SLOTS,
    Latencies,
    Outcome,
    Request,
    Seen,
    on_sockets,
    requests,
    simulated,
)
from tidegate import __version__  # noqa: E402
from tidegate.core.windows import percentile  # noqa: E402

OUT = ROOT / "build" / "bench" / "parity.json"
BOUND = 0.05
FIGURES = ("mean", "p50", "p90")
JITTER_S, JITTERED_RUNS = 0.01, 20
"""In model time: how much arrivals are moved to see how far the simulator's own figures move."""


def main() -> int:
    """1 when a figure of the gateway's ledger is not within the bound."""
    parser = argparse.ArgumentParser(prog="make bench-parity", description=__doc__)
    parser.add_argument("--time-scale", type=float, default=1.0, help="so many times as fast (default 1)")
    parser.add_argument("--requests", type=int, default=200, help="default 200")
    parser.add_argument("--seed", type=int, default=1, help="of the requests (default 1)")
    asked = parser.parse_args()
    folder = ROOT / "build" / "bench" / "parity"
    shutil.rmtree(folder, ignore_errors=True)
    rows = requests(asked.requests, asked.seed)
    print(f"{len(rows)} requests in {rows[-1].at_s:.0f} s, played {asked.time_scale:g} times as fast")
    seen = asyncio.run(on_sockets(rows, asked.time_scale, folder))
    simulator = simulated(rows, seen, asked.time_scale)
    compared = _table(seen.outcome, simulator)
    spread = _spread(rows, seen, simulator, asked.time_scale)
    alike = _alike(seen.outcome.replicas, simulator.replicas)
    worst = max(abs(row["difference"]) for row in compared if row["from"] == "gateway")
    machine = facts()
    print(f"the first {alike} requests were sent to the same replicas")
    print(
        f"a replica was ordered at: {_moments(seen.outcome)} s on sockets, {_moments(simulator)} s simulated"
    )
    print(f"told to the simulator: arrivals, and that a start takes {seen.start_s * asked.time_scale:.1f} s")
    print(f"load average: {machine['load_average'][0]:.1f} on {machine['cores']} cores")
    verdict = "met" if worst <= BOUND else "NOT met"
    print(f"largest difference from the gateway on: {worst:.1%}; at most {BOUND:.0%} is {verdict}")
    result = {
        "command": f"python -m benchmarks.parity {' '.join(sys.argv[1:])}".strip(),
        "tidegate": __version__,
        "facts": machine,
        "profile": PROFILE,
        "slots": SLOTS,
        "time_scale": asked.time_scale,
        "requests": len(rows),
        "seed": asked.seed,
        "bound": BOUND,
        "worst": worst,
        "first_sent_alike": alike,
        "start_s": seen.start_s * asked.time_scale,
        "launches_s": {"sockets": seen.outcome.launches_s, "simulator": simulator.launches_s},
        "compared": compared,
        "spread": spread,
    }
    OUT.write_text(json.dumps(result, indent=1) + "\n")
    return int(worst > BOUND)


def _table(sockets: Outcome, simulator: Outcome) -> list[dict[str, Any]]:
    """Print it."""
    print(f"{'s':<22}" + "".join(f"{figure:>27}" for figure in FIGURES))
    rows: list[dict[str, Any]] = []
    for since in ("gateway", "engine"):
        pair = getattr(sockets, since), getattr(simulator, since)
        for name in ("ttft_s", "e2e_s"):
            line = f"{name.removesuffix('_s').upper()} from the {since}"
            for figure, ours, theirs in zip(FIGURES, *(_figures(side, name) for side in pair), strict=True):
                difference = ours / theirs - 1
                line = f"{line:<22}{ours:>9.3f} /{theirs:>7.3f} {difference:>+8.1%}"
                rows.append(
                    {
                        "from": since,
                        "what": name,
                        "figure": figure,
                        "sockets": ours,
                        "simulator": theirs,
                        "difference": difference,
                    }
                )
            print(line)
    return rows


def _spread(rows: list[Request], seen: Seen, plain: Outcome, scale: float) -> dict[str, list[list[float]]]:
    """Print how far the simulator's own figures move when each request comes up to 10 ms later."""
    dice = random.Random(1)
    moved: list[Outcome] = []
    for _ in range(JITTERED_RUNS):
        arrived_s = sorted(at_s + dice.uniform(0, JITTER_S) / scale for at_s in seen.arrived_s)
        moved.append(simulated(rows, replace(seen, arrived_s=arrived_s), scale))
    found: dict[str, list[list[float]]] = {}
    for name in ("ttft_s", "e2e_s"):
        still = _figures(plain.gateway, name)
        ratios = [
            [a / b - 1 for a, b in zip(_figures(one.gateway, name), still, strict=True)] for one in moved
        ]
        found[name] = [[min(column), max(column)] for column in zip(*ratios, strict=True)]
        line = f"{name.removesuffix('_s').upper()} simulated, moved"
        print(f"{line:<22}" + "".join(f"{low:>+18.1%} {high:>+8.1%}" for low, high in found[name]))
    return found


def _figures(side: Latencies, name: str) -> list[float]:
    ordered = sorted(getattr(side, name))
    middle, high = percentile(ordered, 0.5), percentile(ordered, 0.9)
    assert middle is not None
    assert high is not None
    return [fmean(ordered), middle, high]


def _alike(ours: list[str], theirs: list[str]) -> int:
    """How many went alike until an answer ended a moment sooner here than there, and a choice fell otherwise.

    Nothing can be said of those after it: two replicas that have changed places carry the same load.
    """
    pairs = enumerate(zip(ours, theirs, strict=True))
    return next((number for number, (one, other) in pairs if one != other), len(ours))


def _moments(side: Outcome) -> str:
    return ", ".join(f"{at_s:.1f}" for at_s in side.launches_s)


if __name__ == "__main__":
    sys.exit(main())
