"""Work and costs of steps, by hand for a model small enough to count."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.engine.architectures import ARCHITECTURES, Architecture
from tidegate.engine.catalogue import profile
from tidegate.engine.costs import RANGES, costs
from tidegate.engine.hardware import GPUS, Gpu
from tidegate.engine.roofline import Costs, Placement, RooflineLaw, Work

TINY = Architecture(
    layers=2,
    hidden=10,
    vocabulary=100,
    attention_parameters=1000,
    kv_values=20,
    kv_shards=2,
    pair_flops=40,
    decode_pair_flops=40,
    dense_parameters=6000,
    kernels=5,
    full_layers=2,
)
UNIT = Gpu(bf16=1, fp8=2, fp4=4, memory_tb_per_s=1, link_gb_per_s=1, memory_gb=1, generation="unit")
AT_DATA_SHEET = Costs(*[1.0] * 7, *[0.0] * 5)


def placed(**changes):
    return Placement(**{"model": TINY, "gpu": UNIT} | changes)


def test_decoding_reads_all_weights_and_the_cache_once():
    work = placed().work(sequences=3, kv_tokens=300)
    # Two layers' attention, the feed-forward parts, and the head, in two bytes each.
    assert work.weights_s == pytest.approx(2 * (2 * 1000 + 6000 + 1000) / 1e12)
    assert work.kv_s == pytest.approx(2 * 300 * 2 * 20 / 1e12)
    assert work.dense_s == pytest.approx(2 * 3 * 9000 / 1e12)
    assert work.attention_s == pytest.approx(300 * 2 * 40 / 1e12)
    assert (work.kernels, work.launches, work.sequences, work.steps) == (10, 0, 3, 1)
    assert (work.messages, work.sending_s, work.experts_s) == (0, 0, 0)


def test_a_prompt_attends_to_half_of_itself_and_all_before_it():
    alone, after = (placed().work(0, 0, [(100, cached)]) for cached in (0, 1000))
    assert alone.attention_s == pytest.approx(100 * 50 * 2 * 40 / 1e12)
    assert after.attention_s == pytest.approx(100 * 1050 * 2 * 40 / 1e12)
    assert alone.dense_s == pytest.approx(2 * (100 * 8000 + 1000) / 1e12)  # the head for its last token only


def test_gpus_share_the_weights_and_send_messages():
    one, two = (placed(tensor=gpus).work(4, 400) for gpus in (1, 2))
    assert two.weights_s == pytest.approx(one.weights_s / 2)
    assert two.kv_s == pytest.approx(one.kv_s / 2)
    # Two all-reduces in two layers of 4 tokens of 10 numbers of 2 bytes, each sent 2 x 1/2 times.
    assert two.sending_s == pytest.approx(4 * 4 * 10 * 2 / 1e9)
    assert two.messages > 0


def test_with_attention_in_parallel_every_gpu_keeps_its_weights_but_not_its_sequences():
    one, two = placed().work(4, 400), placed(data=2).work(4, 400)
    assert two.weights_s == pytest.approx((2 * 2000 + 2 * 7000 / 2) / 1e12)
    assert (two.kv_s, two.sequences) == pytest.approx((one.kv_s / 2, 2))


def test_more_gpus_than_cache_shards_keep_copies():
    assert placed(tensor=4).kv_token_bytes() == placed(tensor=2).kv_token_bytes() == 2 * 20 * 2 / 2


def test_few_tokens_touch_few_experts_and_many_touch_all():
    model = ARCHITECTURES["qwen3-235b-a22b"]
    assert model.touched(1) == pytest.approx(8 / 128)
    assert model.touched(2) == pytest.approx(1 - (1 - 8 / 128) ** 2)
    assert model.touched(4000) == pytest.approx(1)


def test_windows_and_selections_bound_what_is_seen():
    windowed, selecting = ARCHITECTURES["gpt-oss-120b"], ARCHITECTURES["glm-5"]
    assert windowed.seen(1000) == 18 * 1000 + 18 * 128
    assert selecting.seen(1000) == 78 * 1000
    assert selecting.seen(100_000) == 78 * 2048


@pytest.mark.parametrize(
    "name, billions, active_billions",
    [
        ("llama-3.1-8b", 8.0, 7.0),  # active without embedding and head
        ("llama-3.1-70b", 70.6, 68.5),
        ("deepseek-v3", 671, 35.6),
        ("kimi-k2.5", 1026, 30.3),
        ("minimax-m2.5", 229, 9.8),
        ("gpt-oss-120b", 117, 4.5),
        ("qwen3-235b-a22b", 235, 20.9),
        ("qwen3.5-397b-a17b", 397, 14.6),
        ("glm-5", 744, 39),
    ],
)
def test_parameters_add_up_to_the_published_size(name, billions, active_billions):
    model = ARCHITECTURES[name]
    assert model.parameters / 1e9 == pytest.approx(billions, rel=0.01)
    assert model.active_parameters / 1e9 == pytest.approx(active_billions, rel=0.01)


def test_moving_and_multiplying_overlap_in_part():
    costs = Costs(*[1.0] * 7, *[0.0] * 4, 0.5)
    assert costs.seconds(Work(weights_s=3.0, dense_s=4.0, steps=1.0)) == 5.5


def test_what_does_not_fit_leaves_no_room():
    big = Placement(model=ARCHITECTURES["llama-3.1-70b"], gpu=GPUS["h100"])
    assert big.kv_tokens() == 0
    assert replace(big, tensor=4).kv_tokens() > 100_000


placements = st.builds(
    Placement,
    model=st.sampled_from(list(ARCHITECTURES.values())),
    gpu=st.sampled_from(list(GPUS.values())),
    precision=st.sampled_from(["bf16", "fp8", "fp4", "int4"]),
    tensor=st.sampled_from([1, 2, 8]),
    data=st.sampled_from([1, 4]),
)
COSTS = Costs(1.25, 1.5, 1.4, 1.8, 3.0, 2.5, 1.7, 3e-6, 3e-6, 1e-5, 7e-6, 4e-4)


@given(placements, st.integers(1, 300), st.integers(1, 8000), st.integers(1, 300), st.integers(0, 8000))
def test_a_step_is_never_shorter_for_more_sequences_or_longer_ones(placement, sequences, each, more, longer):
    law = RooflineLaw(placement, COSTS)
    step_s = law.mixed_s(sequences, sequences * each, ())
    assert law.mixed_s(sequences + more, (sequences + more) * each, ()) >= step_s
    assert law.mixed_s(sequences, sequences * (each + longer), ()) >= step_s


@given(placements, st.integers(0, 200), st.integers(1, 4000), st.integers(1, 4000), st.integers(0, 4000))
def test_a_step_is_never_shorter_for_a_longer_prompt(placement, sequences, new, more, cached):
    law = RooflineLaw(placement, COSTS)
    step_s = law.mixed_s(sequences, sequences * 500, [(new, cached)])
    assert law.mixed_s(sequences, sequences * 500, [(new + more, cached)]) >= step_s
    assert law.mixed_s(sequences, sequences * 500, [(new, cached + more)]) >= step_s
    assert step_s >= law.mixed_s(sequences, sequences * 500, ()) or not sequences


@given(placements, st.integers(1, 200), st.integers(1, 8000), st.integers(1, 500))
def test_a_run_of_steps_lasts_about_as_long_as_its_steps(placement, sequences, each, steps):
    law = RooflineLaw(placement, COSTS)
    kv_tokens = sequences * each
    one_by_one = sum(law.mixed_s(sequences, kv_tokens + step * sequences, ()) for step in range(steps))
    assert law.decode_s(sequences, kv_tokens, steps) == pytest.approx(one_by_one, rel=0.03)
    span_s = law.decode_s(sequences, kv_tokens, steps)
    assert law.decode_steps(sequences, kv_tokens, span_s * (1 - 1e-9)) == steps


def test_shipped_costs_predict_a_catalogued_engine_within_their_range():
    """Llama-3.1-8B on an H100 from the silicon tables: 6.37 ms, and 0.0415 ms for each thousand tokens cached."""
    measured = profile("llama-3.1-8b-h100x1").law
    found = RooflineLaw(
        Placement(model=ARCHITECTURES["llama-3.1-8b"], gpu=GPUS["h100"]), costs("vllm", "h100", "bf16")
    )
    low, high = RANGES["tpot"]
    for sequences, each in ((1, 500), (32, 1000), (128, 2000)):
        ratio = measured.decode_s(sequences, sequences * each, 1) / found.decode_s(
            sequences, sequences * each, 1
        )
        assert low < ratio < high


def test_costs_of_what_nobody_measured_are_refused():
    with pytest.raises(KeyError, match="nothing was measured for vllm on a100; known are vllm"):
        costs("vllm", "a100", "bf16")
