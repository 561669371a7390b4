"""What the journal says that was decided, and whether it can be replayed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from system.figures import Figure, never, some

LEAVES_A_REPLICA = ("UpstreamEnded", "UpstreamFailed", "ClientGone")


@dataclass(frozen=True, slots=True)
class Turn:
    """One line."""

    at_s: float
    brain: str
    event: str
    fact: dict[str, Any]
    effects: list[tuple[str, dict[str, Any]]]

    def orders(self, name: str) -> list[dict[str, Any]]:
        """The effects of one kind."""
        return [order for kind, order in self.effects if kind == name]


def runs(folder: Path) -> list[list[Path]]:
    """The segments of each run of the product, oldest first."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name)):
        found.setdefault(path.name.rpartition("-")[0], []).append(path)
    return [sorted(paths) for paths in found.values()]


def turns(folder: Path) -> Iterator[Turn]:
    """Every turn of the newest run. A torn last line, as a crash leaves it, is passed over."""
    for path in runs(folder)[-1]:
        for text in path.read_bytes().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if "event" in line:
                ((event, fact),) = line["event"].items()
                effects = [next(iter(effect.items())) for effect in line["effects"]]
                yield Turn(line["t"], line["brain"], event, fact, effects)


def ready_to_dispatch_s(folder: Path) -> float:
    """From the turn that hears of the first ready replica to the turn that sends the first request."""
    ready_s = None
    for turn in turns(folder):
        if turn.event == "ReplicaSeen" and turn.fact["seen"] == "ready" and ready_s is None:
            ready_s = turn.at_s
        if turn.orders("Send"):
            assert ready_s is not None, "a request was sent before any replica was ready"
            return turn.at_s - ready_s
    raise AssertionError("no request was sent")


def most_in_flight(folder: Path) -> dict[str, int]:
    """For each replica the most requests that were ever in flight there, by the orders given."""
    places: dict[str, str] = {}
    now: dict[str, int] = {}
    most: dict[str, int] = {}

    def leave(request_id: str) -> None:
        replica = places.pop(request_id, None)
        if replica is not None:
            now[replica] -= 1

    for turn in turns(folder):
        if turn.event in LEAVES_A_REPLICA:
            leave(turn.fact["request_id"])
        # In their order: one turn may cut a request loose and seat the next in its place.
        for kind, order in turn.effects:
            if kind in ("Record", "CancelUpstream"):
                leave(order["request_id"])
            elif kind == "Send":
                replica = order["replica_id"]
                places[order["request_id"]] = replica
                now[replica] = now.get(replica, 0) + 1
                most[replica] = max(most.get(replica, 0), now[replica])
    return most


async def replayed(folder: Path, *, killed: int = 0) -> list[Figure]:
    """Every run of this journal through ``tidegate replay``; each killed one may end in a torn line."""
    totals = dict.fromkeys(("turns", "effects", "differences", "missing", "unreadable"), 0)
    unfaithful = 0
    for segments in runs(folder):
        found = await _replay(segments[0])
        if found["turns"] or not killed:
            unfaithful += bool(found["differences"] or found["missing"] or not found["turns"])
        for name in totals:
            totals[name] += found[name]
    return [
        some("journal: turns replayed", totals["turns"]),
        Figure("journal: effects compared", totals["effects"]),
        never("journal: effects that came out otherwise", totals["differences"]),
        never("journal: runs that cannot be reproduced", unfaithful),
        Figure("journal: torn lines", totals["unreadable"], at_most=killed),
    ]


async def _replay(path: Path) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tidegate", "replay", "--json", str(path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert out, f"replay of {path.name} said: {err.decode()}"
    return json.loads(out)
