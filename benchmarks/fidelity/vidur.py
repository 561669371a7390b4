"""Against the Vidur simulator, with its own step times: does our engine schedule as it does?

Step times are the linear law, by least squares over the steps that Vidur itself made in that run. The
squares are of seconds, not of shares, so that the sum of all steps comes out right: waiting is a sum.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.fidelity import traces
from benchmarks.fidelity.figures import STATISTICS, Comparison, compare
from tidegate.engine.batch import Engine
from tidegate.engine.latency import LinearLaw
from tidegate.engine.sequence import Limits, Sequence

LIMITS = Limits(max_sequences=109, max_step_tokens=512, kv_blocks=27_904, prefix_caching=False)
RUNS = (
    # name, replicas, bound, requests, steps
    ("512 requests, one replica", 1, 0.03, "requests_512_qps2", "steps_512_qps2"),
    (
        "Azure conversations, four replicas",
        4,
        0.05,
        "requests_azureconv_4rep_lor",
        "steps_sample20_azureconv_4rep",
    ),
)


def judge() -> list[Comparison]:
    """Both runs; every mean and percentile is promised."""
    place = traces.folder("vidur-reference")
    found = []
    for name, replicas, bound, requests, steps in RUNS:
        law = step_law(_one(place, steps))
        rows = list(traces.rows(_one(place, requests)))
        sequences = replay(rows, law, replicas)
        bounds = dict.fromkeys(STATISTICS, bound)
        first = [one.first_token_s - one.queued_s for one in sequences]
        whole = [one.finished_s - one.queued_s for one in sequences]
        found += compare(name, "TTFT", [float(row["ttft_s"]) for row in rows], first, bounds)
        found += compare(name, "E2E", [float(row["e2e_s"]) for row in rows], whole, bounds)
    return found


def step_law(path: Path) -> LinearLaw:
    """The law for the steps in that file."""
    rows = list(traces.rows(path))

    def column(name: str) -> np.ndarray:
        return np.array([float(row[name]) for row in rows])

    prompts = column("prefill_tokens")
    squares, cached = column("sum_sq_prefill_chunk"), prompts * column("prefill_kv_tokens")
    terms = np.stack(
        [
            np.ones(len(rows)),
            column("n_decode"),
            column("decode_kv_tokens") / 1e3,
            prompts / 1e3,
            squares / 1e6,
            cached / 1e6,
        ],
        axis=1,
    )
    a, b, c, e, f, g = np.linalg.lstsq(terms, 1e3 * column("step_seconds"), rcond=None)[0].tolist()
    return LinearLaw(a=a, b=b, c=c, d=a, e=e, f=f, g=g)


def replay(rows: list[dict[str, str]], law: LinearLaw, replicas: int) -> list[Sequence]:
    """The requests at their moments. Each goes to the replica with the fewest *waiting* ones, the first of
    equals: what Vidur calls least outstanding requests."""
    engines = [Engine(LIMITS, law) for _ in range(replicas)]
    sequences = []
    for number, row in enumerate(rows):
        now_s = float(row["arrived_s"])
        for engine in engines:
            engine.advance(now_s)
        sequence = Sequence(number, int(float(row["prefill_tokens"])), int(float(row["decode_tokens"])))
        min(engines, key=lambda engine: engine.waiting).add(sequence, now_s)
        sequences.append(sequence)
    for engine in engines:
        engine.advance(float("inf"))
    return sequences


def _one(place: Path, beginning: str) -> Path:
    (found,) = place.glob(f"{beginning}_*.csv.gz")
    return found
