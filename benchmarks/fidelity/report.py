"""The tables that ``make fidelity`` prints."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from benchmarks.fidelity.figures import Comparison
from benchmarks.fidelity.silicon import COVERED, TPOT_BOUND, TTFT_BOUND, Judged, Line

console = Console(highlight=False, width=130)


def print_comparisons(title: str, found: Iterable[Comparison]) -> None:
    """One line a figure."""
    table = Table(title=title, title_justify="left")
    for name, side in (("run", "left"), ("figure", "left"), *((n, "right") for n in _NUMBERS)):
        table.add_column(name, justify=side)
    for one in found:
        bound = "" if one.bound is None else f"{one.bound:.0%} {'kept' if one.is_kept else 'MISSED'}"
        table.add_row(
            one.run, one.figure, f"{one.measured:.4g}", f"{one.predicted:.4g}", f"{one.error:+.1%}", bound
        )
    console.print(table)


_NUMBERS = ("measured", "predicted", "error", "bound")


def print_range(sides: dict[str, list[Comparison]]) -> None:
    """One line a figure, with both sides of its range."""
    table = Table(
        title="A real vLLM run from data sheets alone (TTFT, TPOT, E2E in seconds)", title_justify="left"
    )
    for name in ("run", "figure", "measured", *sides, "in range"):
        table.add_column(name, justify="left" if name in ("run", "figure") else "right")
    for same in zip(*sides.values(), strict=True):
        predicted = [one.predicted for one in same]
        measured = same[0].measured
        is_in = min(predicted) <= measured <= max(predicted)
        figures = [f"{value:.4g}" for value in (measured, *predicted)]
        table.add_row(same[0].run, same[0].figure, *figures, "yes" if is_in else "NO")
    console.print(table)


def print_silicon(judged: Judged) -> None:
    """Summary, models, then every combination of model, GPU and backend."""
    _print_lines(
        "4,835 measured points, each predicted without its own model", judged.summary(), ("points of",)
    )
    _print_lines("by model", judged.by_model(), ("model",))
    _print_lines("by model, GPU and backend", judged.by_model_gpu_backend(), ("model", "GPU", "backend"))
    for promise, is_kept in judged.promises().items():
        console.print(f"  {'kept  ' if is_kept else 'MISSED'} {promise}")


def _print_lines(title: str, lines: Iterable[Line], groups: tuple[str, ...]) -> None:
    table = Table(title=title, title_justify="left")
    for name in groups:
        table.add_column(name)
    low, high = COVERED
    for name in (
        "points",
        f"TTFT error ({TTFT_BOUND:.0%})",
        f"TPOT error ({TPOT_BOUND:.0%})",
        f"TTFT covered ({low:.0%}-{high:.0%})",
        f"TPOT covered ({low:.0%}-{high:.0%})",
        "TTFT high/low",
        "TPOT high/low",
    ):
        table.add_column(name, justify="right")
    for line in lines:
        shares = (line.ttft_error, line.tpot_error, line.ttft_covered, line.tpot_covered)
        spreads = (line.ttft_spread, line.tpot_spread)
        table.add_row(
            *line.group, str(line.points), *(f"{s:.1%}" for s in shares), *(f"{s:.2f}" for s in spreads)
        )
    console.print(table)
