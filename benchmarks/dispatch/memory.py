"""What the index takes and costs, measured in a process of its own: ``python -m benchmarks.dispatch.memory``."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from random import Random

from tidegate.core.dispatch import Dispatcher
from tidegate.core.events import FirstByte, ModelsConfigured, RequestArrived, RouteTableChanged, UpstreamEnded
from tidegate.core.lifecycle import State
from tidegate.core.settings import DispatchConfig
from tidegate.core.types import (
    DEFAULT_FLOW,
    Address,
    ModelId,
    ModelRoute,
    ReplicaId,
    RequestId,
    Route,
    RouteTable,
)
from tidegate.gateway.body import read_json
from tidegate.gateway.prefix_hash import PromptHasher

MODEL = ModelId("m")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
WARM = 2_000
BODY_BYTES = 400_000


def resident_bytes() -> int:
    """What the process takes of the machine's memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES


def dispatcher(replicas: int) -> Dispatcher:
    """One model on so many replicas."""
    made = Dispatcher()
    made.on(ModelsConfigured({MODEL: DispatchConfig()}), 0.0)
    routes = tuple(
        Route(ReplicaId(f"m-{n:02d}"), MODEL, State.SERVING, Address("h", n), 64, "openai")
        for n in range(replicas)
    )
    made.on(RouteTableChanged(RouteTable(1, (ModelRoute(MODEL, can_serve=True),), routes)), 0.0)
    return made


def unique_prompts(requests: int, replicas: int = 8) -> dict[str, float]:
    """So many prompts of 2 KB, none like another: growth in bytes, and how long looking one up takes."""
    brain, random = dispatcher(replicas), Random(1)
    recall = next(iter(brain._floor.lines.values())).router._law.insight.recall
    took_us, grown_from = [], 0
    for number in range(requests + WARM):
        if number == WARM:
            grown_from = resident_bytes()
        request_id, now_s = RequestId(f"r{number}"), number * 1e-3
        chain = (random.getrandbits(60), random.getrandbits(60))
        arrived = RequestArrived(
            request_id, MODEL, 512, None, 2_048, now_s + 60.0, prefix=chain, block_tokens=256
        )
        began_ns = time.perf_counter_ns()
        recall.walk(arrived)
        took_us.append((time.perf_counter_ns() - began_ns) / 1e3)
        if len(took_us) > 100_000:
            del took_us[:50_000]
        brain.on(arrived, now_s)
        brain.on(FirstByte(request_id), now_s + 1e-4)
        brain.on(UpstreamEnded(request_id, 200, 512, 0, 20), now_s + 2e-4)
    took_us.sort()
    return {
        "growth_bytes": resident_bytes() - grown_from,
        "lookup_p99_us": took_us[int(0.99 * len(took_us))],
        "index_bytes": brain.prefix_stats()[MODEL].index_bytes,
    }


def long_body() -> dict[str, float]:
    """CPU for a prompt of 100,000 tokens, from its bytes to the choice of a replica; the median of several."""
    words = " ".join(f"word{n}" for n in range(BODY_BYTES // 9))[: BODY_BYTES - 200]
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": words}], "stream": True}
    ).encode()
    hasher, brain = PromptHasher(), dispatcher(8)
    took_ms = []
    for number in range(15):
        began_ns = time.process_time_ns()
        hashed = hasher.hashed(read_json(body), DEFAULT_FLOW, MODEL, None)
        request_id = RequestId(f"r{number}")
        arrived = RequestArrived(
            request_id, MODEL, 100_000, None, len(body), 600.0, prefix=hashed.chain, block_tokens=256
        )
        brain.on(arrived, number * 1.0)
        took_ms.append((time.process_time_ns() - began_ns) / 1e6)
        brain.on(UpstreamEnded(request_id, 200, 100_000, 0, 20), number + 0.5)
    return {"body_bytes": len(body), "cpu_ms": sorted(took_ms)[len(took_ms) // 2]}


def turns() -> dict[str, float]:
    """Microseconds of a request's three turns, at two replicas, by blocks of its chain."""
    found = {}
    for blocks in (0, 1, 2):
        brain, random, best_us = dispatcher(2), Random(1), float("inf")
        for batch in range(6):
            events = []
            for number in range(2_000):
                request_id = RequestId(f"r{batch}-{number}")
                chain = tuple(random.getrandbits(60) for _ in range(blocks))
                events.append(
                    (
                        RequestArrived(
                            request_id, MODEL, 256, None, 1_024, 1e9, prefix=chain, block_tokens=256
                        ),
                        FirstByte(request_id),
                        UpstreamEnded(request_id, 200, 256, 0, 20),
                    )
                )
            began_ns = time.process_time_ns()
            for number, (arrived, began, ended) in enumerate(events):
                now_s = batch + number * 1e-4
                brain.on(arrived, now_s)
                brain.on(began, now_s + 4e-5)
                brain.on(ended, now_s + 8e-5)
            best_us = min(best_us, (time.process_time_ns() - began_ns) / 1e3 / len(events))
        found[f"turn_us_{blocks}_blocks"] = best_us
    return found


if __name__ == "__main__":
    import sys

    size = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    print(json.dumps(unique_prompts(size) | long_body() | turns()))
