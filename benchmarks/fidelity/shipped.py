"""``python -m benchmarks.fidelity.shipped``: the costs that the product ships, fitted to all points at hand.

Prints the numbers in ``tidegate.engine.costs``. Judging never uses them: there each model is left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

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


if __name__ == "__main__":
    for name, value in fitted(Path("build/bench")).items():
        print(f"{value:10.3g}  {name}")
