"""Measured serving points, each predicted from other models. Bounds around what is reached today."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.fidelity import calibration, features, judging, points, shipped, silicon, traces
from benchmarks.fidelity.calibration import Model
from benchmarks.fidelity.waves import Waves, run
from tidegate.engine.costs import costs
from tidegate.engine.hardware import GPUS
from tidegate.engine.roofline import Costs


def test_a_lone_client_waits_for_its_own_prompt_only():
    first, each = run(clients=1, prompt_steps=3.0, output_tokens=100, prompt_tokens=1000)
    assert first == pytest.approx(4.0, rel=0.05)
    assert each == pytest.approx(1.0)


def test_more_clients_wait_longer_and_decode_slower():
    found = [run(clients, 3.0, 200, 1000) for clients in (1, 8, 64)]
    assert sorted(found) == found
    assert all(earlier[1] < later[1] for earlier, later in pairwise(found))


def test_no_row_is_lost_and_two_codings_of_one_run_agree(needs_trace):
    needs_trace("silicon-points")
    found = points.read(traces.folder("silicon-points") / "silicon_sample.csv.gz")
    assert len(found) >= 4835
    runs = {}
    for point in found:
        if not point.is_split and not point.is_guessed:
            key = (point.measured, point.clients)
            runs.setdefault(key, set()).add((point.answers.tensor, point.answers.data))
    assert sum(len(codings) > 1 for codings in runs.values()) < 0.01 * len(runs)


@pytest.mark.slow  # about two minutes: nine models, and for each eight more to know how sure it is
@pytest.mark.timeout(900)
def test_points_of_models_never_seen(needs_trace, tmp_path):
    needs_trace("silicon-points")
    judged = silicon.run(tmp_path)
    every, together, *_ = judged.summary()

    assert every.ttft_error < 0.36
    assert every.tpot_error < 0.145
    assert together.ttft_error < 0.28
    assert together.tpot_error < 0.12
    assert 0.74 < every.ttft_covered < 0.86
    assert 0.74 < every.tpot_covered < 0.87


@pytest.mark.slow  # ten seconds: every model and every pair of models left out, twice
@pytest.mark.timeout(300)
def test_nothing_measured_on_a_model_changes_what_is_predicted_for_it(needs_trace):
    needs_trace("silicon-points")
    found = [
        point
        for point in points.read(traces.folder("silicon-points") / "silicon_sample.csv.gz")
        if point.backend == "vllm" and not point.is_split
    ][::4]
    grid = np.full((10, 9, 3, 3, 2), 2.0)  # any closed loop will do
    model = Model.of(features.table(found), Waves(grid))
    before = judging.judge(model, found).predicted
    mine = model.data["model"] == "kimi-k2.5"
    model.data["ttft_s"][mine] *= 3
    model.data["tpot_s"][mine] *= 3
    after = judging.judge(model, found).predicted

    assert after[:, mine] == pytest.approx(before[:, mine])
    assert np.abs(after[:, ~mine] / before[:, ~mine] - 1).max() > 0.01


@pytest.mark.slow  # fifteen seconds: closed loops and one fit to all points
def test_the_shipped_costs_are_the_fitted_ones(needs_trace, tmp_path):
    needs_trace("silicon-points")
    values = shipped.fitted(tmp_path)
    for engine, gpu, precision in (
        ("vllm", "h200", "fp8"),
        ("sglang", "b200", "fp8"),
        ("trtllm", "gb200", "fp4"),
    ):
        generation = GPUS[gpu].generation
        for name, cost in zip(Costs._fields, costs(engine, gpu, precision), strict=True):
            column = calibration.PRIORS[name][0]
            group = {
                "generation": generation,
                "backend": engine,
                "backend, generation": f"{engine}, {generation}",
            }
            of = group.get(column, f"{precision}, {generation}")
            fitted = values[f"{name} ({of})"] * values[f"of this GPU ({gpu})"]
            assert cost == pytest.approx(fitted, rel=0.03), name
