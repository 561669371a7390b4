"""The frontier of cost against promise, as a page that needs nothing else and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10
from pathlib import Path

from tidegate.planner.search import Tried

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 420, 70, 20, 20, 50
WORST = 0.5
"""Of the promise: what misses more than this stands at the edge."""
BEST = 1e-4
TICKS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0.0001)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What is drawn."""

    title: str
    tried: Sequence[Tried]
    frontier: Sequence[Tried]
    chosen: Tried
    goal: float
    unit: str = "replica-hours"
    """Of what is spent."""


def page(drawn: Drawn) -> str:
    """HTML with one drawing: what is spent to the right, what misses the promise downwards, by powers of ten."""
    return (
        "<!doctype html><meta charset=utf-8><title>tidegate tune</title><style>body{font:14px system-ui;margin:2em}"
        "circle.all{fill:#bbb}circle.best{fill:#1668a8}circle.taken{fill:none;stroke:#c33;stroke-width:3}"
        "circle.now{fill:#e08a00}line.grid{stroke:#ddd}line.goal{stroke:#2a2;stroke-dasharray:6 4}"
        "polyline{fill:none;stroke:#1668a8}text{fill:#333}</style>"
        f"<h1>{escape(drawn.title)}</h1>{_drawing(drawn)}"
        "<p>Grey: all that was tried. Blue: what nothing else beats. Ringed: taken. Orange: the settings as they were. "
        "Green: the goal.</p>"
    )


def _drawing(drawn: Drawn) -> str:
    most = max(one.score.spent for one in drawn.tried) * 1.05 or 1.0
    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="cost against promise">']
    for missed in TICKS:
        y = _y(1 - missed)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{1 - missed:.4g}</text>')
    for step in range(5):
        hours = most * step / 4
        x = _x(hours, most)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{hours:.3g}</text>')
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">{drawn.unit}</text>')
    goal_y = _y(drawn.goal)
    parts.append(f'<line class="goal" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{goal_y:.1f}" y2="{goal_y:.1f}"/>')
    line = " ".join(f"{_x(o.score.spent, most):.1f},{_y(o.score.attainment):.1f}" for o in drawn.frontier)
    parts.append(f'<polyline points="{line}"/>')
    parts += [_dot(one, most, "all", 3) for one in drawn.tried]
    parts += [_dot(one, most, "best", 5) for one in drawn.frontier]
    parts += [_dot(drawn.tried[0], most, "now", 6), _dot(drawn.chosen, most, "taken", 10)]
    return "".join([*parts, "</svg>"])


def _dot(one: Tried, most: float, kind: str, radius: int) -> str:
    score, x, y = one.score, _x(one.score.spent, most), _y(one.score.attainment)
    said = f"{one.settings.policy.value}: {score.attainment:.2%} at {score.spent:.2f}"
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{escape(said)}</title></circle>'


def _x(hours: float, most: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * hours / most


def _y(kept: float) -> float:
    missed = min(WORST, max(BEST, 1.0 - kept))
    return TOP + (HEIGHT - TOP - BOTTOM) * log10(missed / BEST) / log10(WORST / BEST)


def draw(drawn: Drawn, path: Path) -> None:
    """The same as a PNG.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    for ones, colour, size, what in (
        (drawn.tried, "#bbbbbb", 12, "tried"),
        (drawn.frontier, "#1668a8", 28, "what nothing else beats"),
    ):
        axes.scatter(
            [one.score.spent for one in ones],
            [max(BEST, 1 - one.score.attainment) for one in ones],
            s=size,
            color=colour,
            label=what,
        )
    for one, colour, size, what in (
        (drawn.tried[0], "#e08a00", 60, "as it was"),
        (drawn.chosen, "#cc3333", 160, "taken"),
    ):
        at = [one.score.spent], [max(BEST, 1 - one.score.attainment)]
        axes.scatter(*at, s=size, facecolors="none", edgecolors=colour, linewidths=2, label=what)
    goal = f"goal, {drawn.goal:.2%}"
    axes.axhline(max(BEST, 1 - drawn.goal), color="#22aa22", linestyle="--", linewidth=1, label=goal)
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    axes.set(yscale="log", xlabel=drawn.unit, ylabel="share that misses the promise", title=drawn.title)
    axes.invert_yaxis()
    figure.savefig(path, dpi=110)
