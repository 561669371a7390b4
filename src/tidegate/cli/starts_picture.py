"""Starts as one PNG, drawn with matplotlib (the extra ``report``): stages as a bar, and what each lever would leave of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from tidegate.core.fleet.levers import StartReport

COLORS = {
    "requested": "#b8bcc0",
    "procuring": "#5c6166",
    "pulling": "#e2b23c",
    "loading": "#e58a5b",
    "starting": "#2f7fb5",
    "weights": "#e58a5b",
    "compile": "#9a6fb0",
    "profiling": "#b3261e",
    "capture": "#d9822b",
}
LEFT_OVER = "#7fae8a"
INCHES_A_BAR = 0.36
WIDE_INCHES = 9.0


def draw(reports: Sequence[StartReport], path: Path) -> None:
    """Write the picture: one panel for each model."""
    shown = [one for one in reports if one.starts]
    heights = [1.0 + INCHES_A_BAR * (1 + len(one.levers)) for one in shown]
    figure = Figure(figsize=(WIDE_INCHES, sum(heights)), layout="constrained")
    panels = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)
    for axes, one in zip(panels[:, 0], shown, strict=True):
        _panel(axes, one)
    figure.savefig(path, dpi=110)


def _panel(axes: Any, one: StartReport) -> None:
    begin = 0.0
    for name, share in pieces(one):
        # Medians of stages need not add up to the median of starts; shares of the time do.
        wide = share * (one.p50_s or 0.0)
        axes.barh(["as it is"], [wide], left=[begin], color=COLORS[name], label=name)
        begin += wide
    for lever in one.levers:
        left_s = (one.p50_s or 0.0) - lever.gain_s
        bars = axes.barh([f"{lever.name}\n({lever.ground.value})"], [left_s], color=LEFT_OVER)
        axes.bar_label(bars, [f"{left_s:,.1f} s"], padding=3, fontsize=8)
    kind = f" ({one.kind})" if one.kind else ""
    axes.set_title(f"{one.model}{kind}: {one.starts} starts", loc="left", fontsize=10)
    axes.set_xlabel("s at the median")
    axes.invert_yaxis()
    axes.tick_params(labelsize=8)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)


def pieces(one: StartReport) -> list[tuple[str, float]]:
    """Stages and parts with their shares; a stage has left what its parts do not take."""
    shares: dict[str, float] = {}
    for span in one.spans:
        shares[span.name] = span.share
        stage, _, part = span.name.partition(": ")
        if part and stage in shares:  # a backend may not have seen the stage that an engine tells a part of
            shares[stage] = max(0.0, shares[stage] - span.share)
    return [(name.rpartition(": ")[2], share) for name, share in shares.items()]
