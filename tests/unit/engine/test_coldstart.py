import json
from pathlib import Path

import pytest

from tidegate.core.lifecycle import Seen
from tidegate.core.tiers import Tier
from tidegate.engine.coldstart import Build, ColdStart, Stage, StageKind

CASE = json.loads(Path(__file__).with_name("worked_cases.json").read_text())["cold_start"]
HERE = Build("h100", "13.1", ("vllm 0.33",))


class Loaded:
    """Dice that fall as told."""

    def __init__(self, *falls):
        self._falls = list(falls)

    def uniform(self):
        return self._falls.pop(0)


@pytest.mark.parametrize("row", CASE["rows"])
def test_worked_cases(row):
    start = ColdStart(
        procurement_s=CASE["procurement_s"],
        image_gb=CASE["image_gb"],
        image_gb_per_s=CASE["image_gb_per_s"],
        weights_gb=CASE["parameters"] * row["bytes_per_parameter"] / 1e9,
        weights_gb_per_s=row["weights_gb_per_s"],
        build=None if row["compiled_engine"] == "not needed" else HERE,
        compile_s=CASE["compile_s"],
        engine_start_s=CASE["engine_start_s"],
    )
    compiled = [HERE] if row["compiled_engine"].startswith("cached") else []

    assert start.weights_gb == row["weights_gb"]
    assert start.total_s(compiled=compiled) == row["total_s"]


def test_a_compiled_engine_fits_only_what_it_was_compiled_for():
    start = ColdStart(build=HERE, compile_s=300, cached_compile_s=8)

    assert start.total_s(compiled=[HERE]) == 8
    assert start.total_s(compiled=[Build("a100", "13.1", ("vllm 0.33",))]) == 300
    assert start.total_s(compiled=[Build("h100", "12.8", ("vllm 0.33",))]) == 300
    assert start.total_s(compiled=[Build("h100", "13.1", ("vllm 0.32",))]) == 300


def test_each_tier_skips_what_it_has():
    start = ColdStart(
        procurement_s=90, image_gb=12, weights_gb=14, weights_gb_per_s=2, engine_start_s=20, wake_s=3
    )
    assert [start.total_s(tier) for tier in Tier] == [0, 0, 3, 27, 129]


def test_the_stages_are_reported_in_the_order_of_the_lifecycle():
    start = ColdStart(
        procurement_s=1, image_gb=1, weights_gb=1, build=HERE, compile_s=1, kv_profiling_s=1, engine_start_s=1
    )
    seen = [stage.kind.seen for stage in start.stages()]
    assert seen == [Seen.PROCURING, Seen.PULLING, Seen.LOADING, Seen.STARTING, Seen.STARTING, Seen.STARTING]


def test_without_spread_the_dice_stay_on_the_table():
    assert Stage(StageKind.WEIGHTS, 8.0).draw_s(Loaded()) == 8.0


def test_with_spread_the_median_is_in_the_middle():
    stage = Stage(StageKind.WEIGHTS, 8.0, sigma=0.3)
    assert stage.draw_s(Loaded(0.5, 0.25)) == pytest.approx(8.0)
    assert stage.draw_s(Loaded(0.5, 0.0)) > 8.0
    assert stage.draw_s(Loaded(0.5, 0.5)) < 8.0


@pytest.mark.parametrize("total_s", [0.0, 0.5, 45.0, 100.0, 3600.0])
def test_a_span_in_all_is_divided_among_the_stages(total_s):
    start = ColdStart.lasting(total_s)

    assert start.total_s() == pytest.approx(total_s)
    assert start.total_s(Tier.CACHED) == pytest.approx(total_s)
    kinds = [stage.kind for stage in start.stages()]
    assert total_s == 0.0 or kinds == [
        StageKind.WEIGHTS,
        StageKind.COMPILE,
        StageKind.KV_PROFILING,
        StageKind.GRAPH_CAPTURE,
        StageKind.ENGINE_START,
    ]


def test_waking_from_the_deeper_sleep_reads_the_weights_again():
    start = ColdStart(weights_gb=16, weights_gb_per_s=2, wake_s=3)
    assert [stage.median_s for stage in start.waking(1)] == [3]
    assert [stage.median_s for stage in start.waking(2)] == [3, 8]


def test_what_was_compiled_for_one_model_is_of_no_use_to_another():
    start = ColdStart(build=Build("h100", "13.1", model="a"), compile_s=300, cached_compile_s=8)
    assert start.total_s(compiled=[Build("h100", "13.1", model="b")]) == 300
