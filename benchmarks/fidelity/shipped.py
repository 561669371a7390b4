"""``python -m benchmarks.fidelity.shipped``: the costs that the product ships, fitted to all points at hand.

Prints the tables of ``tidegate.engine.costs``. Judging never uses them: there each model is left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks.fidelity import features, points, traces
from benchmarks.fidelity.calibration import Model
from benchmarks.fidelity.judging import weights
from benchmarks.fidelity.waves import Waves


def fitted(cache: Path) -> dict[str, float]:
    """Every parameter by its name and group."""
    found = points.read(traces.folder("silicon-points") / "silicon_sample.csv.gz")
    model = Model.of(features.table(found), Waves.made(cache / "waves.json"))
    counted = weights(found, np.array(points.plain(found)))
    rows = np.flatnonzero(counted > 0)
    values = np.exp(model.fit(rows, counted[rows]))
    return dict(zip(model.names, map(float, values), strict=True))


def tables(values: dict[str, float]) -> dict[str, dict[str, dict[str, float]]]:
    """By kind of group, then by group, then by parameter; three digits are more than they are worth."""
    kinds: dict[str, dict[str, dict[str, float]]] = {}
    for name, value in values.items():
        parameter, group = name.rstrip(")").split(" (")
        if group == "all":
            kind = "everywhere"
        elif ", " in group:
            kind = "BY_" + ("BACKEND" if parameter == "kernels" else "PRECISION")
        else:
            kind = "of " + parameter
        kinds.setdefault(kind, {}).setdefault(group, {})[parameter] = float(f"{value:.3g}")
    return kinds


if __name__ == "__main__":
    console = Console(width=110)
    for kind, groups in tables(fitted(Path("build/bench"))).items():
        console.print(kind, groups)
