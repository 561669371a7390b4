import pytest

from tidegate.engine.batch import Engine
from tidegate.engine.kernels import BLOCK_LAYERS, ONCE_LAYERS, Curve, KernelLaw, Shape
from tidegate.engine.sequence import Limits, Sequence

NOTHING = {1: 0.0}
DENSE = dict.fromkeys((*BLOCK_LAYERS, *ONCE_LAYERS), NOTHING)


def law(attention, dense=NOTHING, head=NOTHING, **shape):
    tables = DENSE | {"qkv_proj": dense}
    return KernelLaw(Shape(**{"layers": 2, "hidden": 1000} | shape), tables, attention, {"lm_head": head})


def test_between_points_a_curve_is_straight_and_beyond_them_it_goes_on():
    curve = Curve({10: 1.0, 20: 3.0, 40: 4.0})
    assert [curve.at(x) for x in (1, 10, 15, 30, 60)] == [1.0, 1.0, 2.0, 3.5, 5.0]
    assert [curve.piece_end(x) for x in (5, 10, 19, 20, 50)] == [10, 20, 20, float("inf"), float("inf")]


def test_a_decode_step_sums_layers_head_and_host():
    attention = {(0, 0, 1, 10): 0.001, (0, 0, 1, 20): 0.002}
    found = law(attention, dense={1: 0.004}, head={1: 0.05}, host_s=0.3)
    # 14 tokens cached and the one being computed: 0.0015 s of attention in each of two layers.
    assert found.mixed_s(1, 14, []) == pytest.approx(2 * (0.0015 + 0.004) + 0.05 + 0.3)


def test_attention_of_a_chunk_and_decoding_together_is_looked_up_together():
    attention = {
        (0, 0, 1, 10): 0.001,
        (0, 0, 1, 20): 0.001,
        (100, 0, 0, 0): 0.002,
        (100, 0, 1, 10): 0.007,
        (100, 0, 1, 20): 0.009,
    }
    found = law(attention)
    assert found.mixed_s(1, 14, [(100, 0)]) == pytest.approx(2 * 0.008)
    assert found.mixed_s(0, 0, [(100, 0)]) == pytest.approx(2 * 0.002)
    assert found.mixed_s(0, 0, [(100, 0), (50, 0)]) == pytest.approx(2 * (0.002 + 0.0015))


def test_several_gpus_pay_for_the_link():
    attention = {(0, 0, 1, 10): 0.0, (0, 0, 1, 20): 0.0}
    found = law(attention, gpus=2, link_bytes_per_s=1e6, link_latency_s=0.01)
    # Two all-reduces in two layers; in each two messages of half of 1 token x 1000 x 2 bytes.
    assert found.mixed_s(1, 14, []) == pytest.approx(4 * 2 * (0.001 + 0.01))


def test_the_dense_kernels_of_a_step_run_for_the_next_larger_graph():
    attention = {(0, 0, 1, 10): 0.0, (0, 0, 1, 20): 0.0, (0, 0, 100, 10): 0.0, (0, 0, 100, 20): 0.0}
    found = law(attention, dense={1: 0.01, 101: 1.01}, graph_tokens=(1, 8, 64))
    assert found.mixed_s(5, 50, []) == pytest.approx(2 * 0.08)
    assert found.mixed_s(64, 640, []) == pytest.approx(2 * 0.64)
    assert found.mixed_s(70, 700, []) == pytest.approx(2 * 0.70)  # beyond the graphs, as it is


def test_each_kernel_is_followed_by_a_gap():
    attention = {(0, 0, 1, 10): 0.0, (0, 0, 1, 20): 0.0}
    # Seven dense kernels and a second norm in each of two layers, with attention and the cache; then
    # embedding, final norm and head.
    assert law(attention, kernel_gap_s=1.0).mixed_s(1, 14, []) == 2 * (8 + 2) + 3


def test_kernels_beyond_the_usual_count_too():
    attention = {(0, 0, 1, 10): 0.0, (0, 0, 1, 20): 0.0}
    found = KernelLaw(
        Shape(layers=3, hidden=1000), DENSE | {"qk_norm": {1: 0.5}}, attention, {"lm_head": NOTHING}
    )
    assert found.mixed_s(1, 14, []) == 1.5


def test_an_engine_runs_on_tables():
    attention = {(0, 0, 1, 1): 0.1, (0, 0, 1, 100): 0.1, (10, 0, 0, 0): 0.5}
    engine, sequence = Engine(Limits(), law(attention)), Sequence("s", 10, 6)
    engine.add(sequence, 0.0)
    engine.advance(100.0)
    assert sequence.first_token_s == pytest.approx(1.0)
    assert sequence.finished_s == pytest.approx(2.0)
