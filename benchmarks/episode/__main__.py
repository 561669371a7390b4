"""Prints the published result beside ours, and which assumption makes which difference."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.episode.published import Assumptions, Scored, fixed, under_the_law

OUT = Path(__file__).parents[2] / "build" / "bench" / "episode.json"
SEEDS = (1, 2, 3)

ROWS = (
    ("as published, on measured latencies", Assumptions()),
    ("+ an estimated 45 s between stages", Assumptions(gap_s=45.0)),
    ("+ latencies read 1.35 x, a value picked", Assumptions(gap_s=45.0, latency_ratio=1.35)),
)


def main() -> int:
    """The exit code."""
    print(f"{'':<42}{'kept':>8}{'replicas':>10}{'first growth':>14}{'first shrinking':>17}")
    print(f"{'published: fixed fleet of 8':<42}{'100.0%':>8}{8.0:>10.2f}")
    print(f"{'published: the law':<42}{'95.8%':>8}{5.93:>10.2f}{'about 15 min':>14}")
    rows = [_row("fixed fleet of 8", [fixed(8)])]
    rows += [_row(name, [under_the_law(assumed, seed) for seed in SEEDS]) for name, assumed in ROWS]
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(
        json.dumps({"command": "make bench-episode", "seeds": SEEDS, "rows": rows}, indent=1) + "\n"
    )
    return 0


def _row(name: str, episodes: list[Scored]) -> dict[str, object]:
    """Print the mean of some episodes."""
    score = sum(episode.score for episode in episodes) / len(episodes)
    replicas = sum(episode.mean_replicas for episode in episodes) / len(episodes)
    up, down = (_first(episodes[0], is_up) for is_up in (True, False))
    print(f"{name:<42}{score:>8.1%}{replicas:>10.2f}{up:>14}{down:>17}")
    return {"name": name, "kept": score, "mean_replicas": replicas, "first_up": up, "first_down": down}


def _first(episode: Scored, is_up: bool) -> str:
    for at_s, decision in episode.run.decisions:
        if at_s > 0 and decision.desired != decision.before and (decision.desired > decision.before) is is_up:
            return f"{at_s / 60:.1f} min"
    return "never"


if __name__ == "__main__":
    sys.exit(main())
