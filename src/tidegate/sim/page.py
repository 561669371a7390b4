"""Runs as one HTML page that needs nothing else: figures side by side, then each run over time.

Every drawing is SVG in the page; the few lines of script only show the numbers under the pointer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files

from tidegate.sim import svg
from tidegate.sim.chart import Chart
from tidegate.sim.summary import Spread, Summary

PHASES = ("serving", "warm", "starting", "draining", "sleeping", "waiting")
DECISIONS_SHOWN = 200
TTFT_LOW_S = 0.01


def page(charts: Sequence[Chart], summaries: Sequence[Summary], title: str) -> str:
    """The whole document."""
    look = files("tidegate.sim") / "look"
    style = (look / "page.css").read_text(encoding="utf-8")
    script = (look / "page.js").read_text(encoding="utf-8")
    tops = _tops(charts)
    body = [f"<h1>{escape(title)}</h1>", _figures(charts, summaries)]
    for place, chart in enumerate(charts):
        body.append(f'<section data-run="{place}"><h2>{escape(chart.policy)}</h2>')
        body += [_demand(chart, tops), _replicas(chart, tops), _queue(chart, tops), _ttft(chart, tops)]
        body.append(_decisions(chart))
        body.append("</section>")
    data = json.dumps([_numbers(chart) for chart in charts], separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{''.join(body)}"
        f'<script type="application/json" id="numbers">{data}</script><script>{script}</script></body></html>\n'
    )


def _tops(charts: Sequence[Chart]) -> dict[str, float]:
    """The same axes for all runs, or they could not be compared by eye."""
    stacked = [[sum(column) for column in zip(*chart.replicas.values(), strict=True)] for chart in charts]
    load = (number for chart in charts for number in (*chart.queued, *chart.in_flight))
    slow = (value for chart in charts for value in (*chart.ttft_p95_s, chart.slo.ttft_s) if value)
    return {
        "arrivals": svg.nice_top(max(rate for chart in charts for rate in chart.arrivals_per_s)),
        "replicas": max(
            1.0,
            *(max(total) + 0.5 for total in stacked),
            *(max(chart.desired, default=0) + 0.5 for chart in charts),
        ),
        "load": svg.nice_top(max(load, default=1)),
        "ttft": 10 * max(slow, default=1.0) ** 1.0,
    }


def _end_s(chart: Chart) -> float:
    return chart.slots * chart.slot_s


def _demand(chart: Chart, tops: dict[str, float]) -> str:
    frame = svg.Frame(_end_s(chart), 0.0, tops["arrivals"])
    zero: list[float | None] = [0.0] * chart.slots
    kept: list[float | None] = [
        rate * (share or 0.0) for rate, share in zip(chart.arrivals_per_s, chart.kept_ratio, strict=True)
    ]
    rates: list[float | None] = list(chart.arrivals_per_s)
    return _panel(
        "Demand",
        'Requests that arrive, each second: <b class="kept">kept the promise</b>, <b class="late">did not</b>',
        frame,
        frame.axes("requests/s")
        + f'<path class="late" d="{svg.band(frame, kept, rates, chart.slot_s)}"/>'
        + f'<path class="kept" d="{svg.band(frame, zero, kept, chart.slot_s)}"/>',
    )


def _replicas(chart: Chart, tops: dict[str, float]) -> str:
    frame = svg.Frame(_end_s(chart), 0.0, tops["replicas"], height=190)
    parts = [frame.axes("replicas")]
    below: list[float | None] = [0.0] * chart.slots
    for phase in PHASES:
        above: list[float | None] = [
            (base or 0.0) + count for base, count in zip(below, chart.replicas[phase], strict=True)
        ]
        parts.append(f'<path class="{phase}" d="{svg.band(frame, below, above, chart.slot_s)}"/>')
        below = above
    desired: list[float | None] = [float(number) for number in chart.desired]
    parts.append(f'<path class="desired" d="{svg.steps(frame, desired, chart.slot_s)}"/>')
    for number, mark in enumerate(chart.marks):
        x, y = frame.x(mark.at_s), frame.y(mark.desired)
        way = "up" if mark.desired > mark.before else "down"
        told = f"{_clock(mark.at_s)}  {mark.model}: {mark.before} to {mark.desired}. {mark.because}"
        shape = f"M{x - 4:.1f},{y + 4:.1f}h8l-4,-8z" if way == "up" else f"M{x - 4:.1f},{y - 4:.1f}h8l-4,8z"
        parts.append(
            f'<path class="mark {way}" data-mark="{number}" d="{shape}"><title>{escape(told)}</title></path>'
        )
    legend = ", ".join(f'<b class="{phase}">{phase}</b>' for phase in PHASES if any(chart.replicas[phase]))
    return _panel(
        "Replicas",
        f'{legend}; <b class="desired">wanted</b>. A triangle is a decision; its reason is under the pointer',
        frame,
        "".join(parts),
    )


def _queue(chart: Chart, tops: dict[str, float]) -> str:
    frame = svg.Frame(_end_s(chart), 0.0, tops["load"])
    queued: list[float | None] = [float(number) for number in chart.queued]
    running: list[float | None] = [float(number) for number in chart.in_flight]
    zero: list[float | None] = [0.0] * chart.slots
    return _panel(
        "Load",
        'Requests at once: <b class="queued">waiting in the queue</b>, <b class="running">in flight</b> (largest of each slot)',
        frame,
        frame.axes("requests")
        + f'<path class="queued" d="{svg.band(frame, zero, queued, chart.slot_s)}"/>'
        + f'<path class="running" d="{svg.steps(frame, running, chart.slot_s)}"/>',
    )


def _ttft(chart: Chart, tops: dict[str, float]) -> str:
    top = max(tops["ttft"], 1.0)
    frame = svg.Frame(_end_s(chart), TTFT_LOW_S, top, height=170, is_log=True)
    # An answer that never came is drawn at the top of the axis.
    pairs = zip(chart.ttft_p95_s, chart.ttft_p50_s, strict=True)
    high: list[float | None] = [top if p95 is None and p50 is not None else p95 for p95, p50 in pairs]
    y = frame.y(chart.slo.ttft_s)
    return _panel(
        "Time to first token",
        '<b class="band">median to 95th percentile</b> by moment of arrival; '
        f'<b class="slo">promise: {chart.slo.ttft_s:g} s</b>. The axis is logarithmic',
        frame,
        frame.axes("seconds")
        + f'<path class="band" d="{svg.band(frame, chart.ttft_p50_s, high, chart.slot_s)}"/>'
        + f'<path class="median" d="{svg.steps(frame, chart.ttft_p50_s, chart.slot_s)}"/>'
        + f'<line class="slo" x1="{svg.LEFT}" x2="{svg.WIDTH - svg.RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>',
    )


def _panel(name: str, legend: str, frame: svg.Frame, drawing: str) -> str:
    return (
        f'<figure><figcaption><span class="name">{name}</span> {legend}</figcaption>'
        f'<svg viewBox="0 0 {svg.WIDTH} {frame.height}" role="img" aria-label="{name} over time">{drawing}'
        f'<line class="pointer" y1="{svg.TOP}" y2="{frame.height - svg.BOTTOM}"/></svg></figure>'
    )


def _figures(charts: Sequence[Chart], summaries: Sequence[Summary]) -> str:
    heads = "".join(f"<th>{escape(chart.policy)}</th>" for chart in charts)
    rows = []
    for name, figure in _ROWS:
        cells = "".join(f"<td>{escape(figure(summary))}</td>" for summary in summaries)
        rows.append(f"<tr><th>{name}</th>{cells}</tr>")
    return f'<table class="figures"><tr><th></th>{heads}</tr>{"".join(rows)}</table>'


def _s(value: float | None) -> str:
    return "never" if value is None else f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _band(found: Spread) -> str:
    return f"{_s(found.p50)} / {_s(found.p95)} / {_s(found.p99)}"


_ROWS: tuple[tuple[str, Callable[[Summary], str]], ...] = (
    ("Requests", lambda s: f"{s.requests:,}"),
    ("Completed", lambda s: f"{s.completed:,}"),
    ("Rejected / expired / failed", lambda s: f"{s.rejected:,} / {s.expired:,} / {s.failed:,}"),
    ("TTFT p50 / p95 / p99", lambda s: _band(s.ttft_s)),
    ("TPOT p50 / p95 / p99", lambda s: _band(s.tpot_s)),
    ("E2E p50 / p95 / p99", lambda s: _band(s.e2e_s)),
    ("Promise kept by", lambda s: f"{s.attainment:.1%}"),
    ("Goodput", lambda s: f"{s.goodput_per_s:.2f} requests/s"),
    ("Replicas, mean / most", lambda s: f"{s.mean_provisioned:.2f} / {s.max_provisioned}"),
    ("Replica-hours", lambda s: f"{s.replica_hours:.2f}"),
    ("GPU-hours", lambda s: f"{s.gpu_hours:.2f}"),
    ("Cost", lambda s: f"{s.cost:.2f}"),
    ("Steps up / down / reversed", lambda s: f"{s.scale_ups} / {s.scale_downs} / {s.reversals}"),
    ("Cold starts", lambda s: f"{s.cold_starts}"),
)


def _decisions(chart: Chart) -> str:
    if not chart.marks:
        return "<p>The number of replicas was never changed.</p>"
    rows = "".join(
        f"<tr><td>{_clock(mark.at_s)}</td><td>{escape(mark.model)}</td>"
        f"<td>{mark.before} &rarr; {mark.desired}</td><td>{escape(mark.because)}</td>"
        f"<td>{escape(mark.held_by or '')}</td></tr>"
        for mark in chart.marks[:DECISIONS_SHOWN]
    )
    more = len(chart.marks) - DECISIONS_SHOWN
    rest = f"<p>and {more:,} more; the journal has them all</p>" if more > 0 else ""
    return (
        f'<details><summary>{len(chart.marks):,} decisions with their reasons</summary><table class="decisions">'
        "<tr><th>at</th><th>model</th><th>replicas</th><th>because</th><th>held by</th></tr>"
        f"{rows}</table>{rest}</details>"
    )


def _clock(at_s: float) -> str:
    minutes, seconds = divmod(round(at_s), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return (f"{days} d " if days else "") + f"{hours:02d}:{minutes:02d}:{seconds:02d}"


def _numbers(chart: Chart) -> dict[str, object]:
    """What the script shows under the pointer."""
    return {
        "slot": chart.slot_s,
        "rate": [round(rate, 3) for rate in chart.arrivals_per_s],
        "kept": chart.kept_ratio,
        "replicas": {phase: [round(mean, 2) for mean in chart.replicas[phase]] for phase in PHASES},
        "wanted": chart.desired,
        "queued": chart.queued,
        "running": chart.in_flight,
        "p50": chart.ttft_p50_s,
        "p95": chart.ttft_p95_s,
    }
