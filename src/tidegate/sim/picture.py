"""Runs over time as one PNG, drawn with matplotlib (the extra ``report``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tidegate.sim.chart import Chart

INK, SOFT, GRID, PAPER = "#1d1f21", "#5c6166", "#e3e4e0", "#fcfcfa"
COLORS = {
    "serving": "#2f7fb5",
    "starting": "#e2b23c",
    "draining": "#9a6fb0",
    "warm": "#e58a5b",
    "sleeping": "#7fae8a",
    "waiting": "#b8bcc0",
}
KEPT, LATE, QUEUED, RUNNING, BAND, MEDIAN, SLO = (
    "#2f7fb5",
    "#d9822b",
    "#d9822b",
    "#3b8f5a",
    "#8fbcd8",
    "#205d87",
    "#b3261e",
)
WIDE_INCHES = 11.0
HIGH_INCHES = {"demand": 1.9, "replicas": 2.9, "load": 1.9, "ttft": 1.9}
HEAD_INCHES = 0.6
TOLD_MOST = 2
"""Decisions whose reasons are written out: so many of the largest steps up, and down."""
STYLE: Any = {
    "font.size": 9,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "axes.grid": True,
    "grid.color": GRID,
    "axes.axisbelow": True,
    "axes.xmargin": 0.01,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
}


def draw(charts: Sequence[Chart], title: str, path: Path) -> None:
    """Write the picture: four panels for each run, one under the other."""
    panels = {"demand": _demand, "replicas": _replicas, "load": _load, "ttft": _ttft}
    heights = [HIGH_INCHES[name] for name in panels] * len(charts)
    high_inches = sum(heights) + HEAD_INCHES
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDE_INCHES, high_inches))
        axes = figure.subplots(
            len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )
        for place, chart in enumerate(charts):
            for row, panel in enumerate(panels.values()):
                panel(axes[place * len(panels) + row][0], chart)
            if len(charts) > 1:
                first = axes[place * len(panels)][0]
                first.set_title(chart.policy, loc="left", fontweight="bold", fontsize=11, pad=20)
        axes[-1][0].set_xlabel(_unit(charts[0])[1])
        figure.suptitle(title, x=0.01, y=1 - 0.15 / high_inches, va="top", ha="left", fontweight="bold")
        figure.tight_layout(rect=(0, 0, 1, 1 - HEAD_INCHES / 2 / high_inches))
        figure.savefig(path, dpi=150)


def _unit(chart: Chart) -> tuple[float, str]:
    span_s = chart.slots * chart.slot_s
    return (
        (86_400.0, "days")
        if span_s > 3 * 86_400
        else (3_600.0, "hours")
        if span_s > 3 * 3_600
        else (60.0, "minutes")
    )


def _times(chart: Chart) -> list[float]:
    return [slot * chart.slot_s / _unit(chart)[0] for slot in range(chart.slots)]


def _legend(axis: Any) -> None:
    """Above the panel, where it hides nothing."""
    axis.legend(loc="lower left", bbox_to_anchor=(-0.005, 0.98), frameon=False, ncols=6, fontsize=8)


def _demand(axis: Any, chart: Chart) -> None:
    times = _times(chart)
    kept = [rate * (share or 0.0) for rate, share in zip(chart.arrivals_per_s, chart.kept_ratio, strict=True)]
    axis.fill_between(times, 0, kept, step="post", color=KEPT, label="kept the promise", lw=0)
    axis.fill_between(times, kept, chart.arrivals_per_s, step="post", color=LATE, label="did not", lw=0)
    axis.set_ylabel("arrivals/s")
    axis.set_ylim(bottom=0)
    _legend(axis)


def _replicas(axis: Any, chart: Chart) -> None:
    times = _times(chart)
    shown = [phase for phase in COLORS if any(chart.replicas[phase])]
    below = [0.0] * chart.slots
    for phase in shown:
        above = [base + count for base, count in zip(below, chart.replicas[phase], strict=True)]
        axis.fill_between(times, below, above, step="post", color=COLORS[phase], label=phase, lw=0)
        below = above
    axis.step(times, chart.desired, where="post", color=INK, lw=1.2, label="wanted")
    for mark in chart.marks:
        shape = "^" if mark.desired > mark.before else "v"
        axis.plot(mark.at_s / _unit(chart)[0], mark.desired, shape, color=INK, ms=4, mec=PAPER, mew=0.5)
    _tell(axis, chart)
    axis.set_ylabel("replicas")
    axis.set_ylim(0, max(*below, *chart.desired, 1) * 1.75)  # room for the reasons
    _legend(axis)


def _tell(axis: Any, chart: Chart) -> None:
    """The largest steps, numbered, with their reasons."""
    largest = sorted(chart.marks, key=lambda mark: -abs(mark.desired - mark.before))
    ups = [mark for mark in largest if mark.desired > mark.before][:TOLD_MOST]
    downs = [mark for mark in largest if mark.desired < mark.before][:TOLD_MOST]
    unit_s, unit = _unit(chart)
    said = []
    for number, mark in enumerate(sorted(ups + downs, key=lambda mark: mark.at_s), 1):
        at = mark.at_s / unit_s
        place = {
            "xytext": (0, 5),
            "textcoords": "offset points",
            "ha": "center",
            "va": "bottom",
            "fontsize": 8,
        }
        axis.annotate(str(number), (at, mark.desired), color=INK, fontweight="bold", **place)
        why = mark.because.split(";")[0]
        said.append(f"{number}   {unit[:-1]} {at:.1f}: {mark.before} to {mark.desired}, {why}")
    told = {"ha": "right", "va": "top", "fontsize": 8, "color": INK, "linespacing": 1.5}
    box = {"facecolor": PAPER, "alpha": 0.8, "lw": 0, "pad": 2}
    axis.text(0.995, 0.98, "\n".join(said), bbox=box, transform=axis.transAxes, **told)


def _load(axis: Any, chart: Chart) -> None:
    times = _times(chart)
    axis.fill_between(times, 0, chart.queued, step="post", color=QUEUED, label="queued", lw=0)
    axis.step(times, chart.in_flight, where="post", color=RUNNING, lw=1.2, label="in flight")
    axis.set_ylabel("requests at once")
    axis.set_ylim(bottom=0)
    _legend(axis)


def _ttft(axis: Any, chart: Chart) -> None:
    times = _times(chart)
    nan = float("nan")
    top = 10 * max((value for value in chart.ttft_p95_s if value), default=1.0)
    low = [nan if value is None else value for value in chart.ttft_p50_s]
    pairs = zip(chart.ttft_p95_s, chart.ttft_p50_s, strict=True)
    high = [(nan if p50 is None else top) if p95 is None else p95 for p95, p50 in pairs]
    axis.fill_between(times, low, high, step="post", color=BAND, label="TTFT median to p95", lw=0)
    axis.step(times, low, where="post", color=MEDIAN, lw=1.2, label="median")
    axis.axhline(chart.slo.ttft_s, color=SLO, ls="--", lw=1.2, label=f"promise {chart.slo.ttft_s:g} s")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_ylabel("seconds")
    _legend(axis)
