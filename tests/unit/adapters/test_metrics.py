"""Every trap known in engines' metrics pages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.adapters.base import EngineMetrics
from tidegate.adapters.registry import ADAPTERS
from unit.adapters import pages

VLLM, SGLANG, TRTLLM, LLAMACPP = (ADAPTERS[name] for name in ("vllm", "sglang", "trtllm", "llamacpp"))


def test_vllm():
    assert VLLM.metrics(pages.VLLM) == EngineMetrics(
        running=3,
        waiting=2,
        kv_usage_ratio=0.25,
        kv_blocks_total=512,
        kv_block_tokens=16,
        prompt_tokens_total=1000.0,
        cached_tokens_total=600.0,
        output_tokens_total=250.0,
        preemptions_total=1.0,
        is_sleeping=False,
        lora_running=("red", "blue"),
    )


def test_sglang_counts_each_request_once_whatever_the_tensor_parallel_ranks_say():
    assert SGLANG.metrics(pages.SGLANG) == EngineMetrics(
        running=7,
        waiting=1,
        kv_usage_ratio=0.31,
        kv_blocks_total=4096,
        kv_block_tokens=16,
        prompt_tokens_total=900.0,
        cached_tokens_total=350.0,
        output_tokens_total=70.0,
        preemptions_total=4.0,
    )


def test_trtllm_serve():
    assert TRTLLM.metrics(pages.TRTLLM) == EngineMetrics(
        running=6, waiting=1, kv_usage_ratio=0.4, kv_blocks_total=1000, kv_block_tokens=32
    )


def test_tensorrt_llm_behind_triton():
    assert TRTLLM.metrics(pages.TRITON) == EngineMetrics(
        running=7, waiting=2, kv_usage_ratio=0.75, kv_blocks_total=400, kv_block_tokens=64
    )


def test_llamacpp_counts_cached_prompt_tokens_apart():
    assert LLAMACPP.metrics(pages.LLAMACPP) == EngineMetrics(
        running=4, waiting=36, prompt_tokens_total=200.0, cached_tokens_total=70.0, output_tokens_total=42.0
    )


def test_an_older_llamacpp_without_the_cached_counter_does_not_say_how_long_prompts_were():
    read = LLAMACPP.metrics("llamacpp:prompt_tokens_total 130\nllamacpp:kv_cache_usage_ratio 0.5\n")

    assert read.prompt_tokens_total is None
    assert read.kv_usage_ratio == 0.5


def test_data_parallel_engines_add_up_and_the_fullest_cache_counts():
    read = VLLM.metrics(pages.VLLM_TWO_ENGINES)

    assert (read.running, read.waiting, read.kv_usage_ratio, read.kv_blocks_total) == (7, 6, 0.9, 1012)


def test_names_that_older_engines_use_are_read_when_the_current_ones_are_absent():
    read = VLLM.metrics(pages.VLLM_OLD)

    assert (read.kv_usage_ratio, read.cached_tokens_total) == (0.5, 80.0)
    both = VLLM.metrics("vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.1\n")
    assert both.kv_usage_ratio == 0.1


def test_a_name_that_merely_begins_alike_is_another_metric():
    assert VLLM.metrics('vllm:num_requests_waiting_by_reason{reason="deferred"} 9\n').waiting is None


def test_requests_put_off_for_other_reasons_are_no_congestion():
    page = (
        'vllm:num_requests_waiting 7\nvllm:num_requests_waiting_by_reason{reason="capacity"} 0\n'
        'vllm:num_requests_waiting_by_reason{reason="deferred"} 7\n'
    )
    assert VLLM.metrics(page).waiting == 0


def test_a_sleeping_vllm_says_so():
    page = 'vllm:engine_sleep_state{sleep_state="awake"} 0\nvllm:engine_sleep_state{sleep_state="discard_all"} 1\n'

    assert VLLM.metrics(page).is_sleeping is True


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "", "many"])
def test_a_value_that_is_no_count_makes_the_whole_sum_unknown(value):
    page = f'vllm:num_requests_running{{engine="0"}} 3\nvllm:num_requests_running{{engine="1"}} {value}\n'

    assert VLLM.metrics(page).running is None


@pytest.mark.parametrize("value", ["NaN", "-0.1", "57.3", "+Inf"])
def test_a_ratio_outside_its_bounds_is_unknown(value):
    assert VLLM.metrics(f"vllm:kv_cache_usage_perc {value}\n").kv_usage_ratio is None


def test_a_ratio_rounded_above_one_is_one():
    assert SGLANG.metrics("sglang:token_usage 1.002\n").kv_usage_ratio == 1.0


def test_a_page_cut_inside_a_number_does_not_report_its_first_digits():
    whole = "vllm:num_requests_running 12"

    assert VLLM.metrics(whole + "\n").running == 12
    assert VLLM.metrics(whole).running is None
    assert VLLM.metrics(whole[:-1]).running is None


def test_blocks_not_yet_known_to_the_engine_are_unknown():
    read = VLLM.metrics('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1\n')

    assert (read.kv_blocks_total, read.kv_block_tokens) == (None, 16)


def test_an_adapter_list_is_empty_before_the_first_adapter():
    assert VLLM.metrics(pages.VLLM_OLD).lora_running == ()


def test_what_is_loaded_is_known_where_the_page_says_it_and_not_taken_from_what_is_asked_for():
    page = (
        'vllm:lora_requests_info{max_lora="2",running_lora_adapters="red,blue",waiting_lora_adapters="red,blue"} 1.0\n'
        'vllm:lora_adapter_loaded{adapter_name="red",level="gpu",pinned="false"} 1\n'
        'vllm:lora_adapter_loaded{adapter_name="red",level="cpu",pinned="false"} 1\n'
        'vllm:lora_adapter_loaded{adapter_name="green",level="cpu",pinned="false"} 1\n'
    )
    assert VLLM.metrics(page).lora_on_gpu == ("red",)
    assert VLLM.metrics("vllm:num_gpu_loaded_lora_adapters 0\n").lora_on_gpu == ()
    assert VLLM.metrics(pages.VLLM).lora_on_gpu is None


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize(
    "page", ["", "\n", "<html><body>Bad gateway</body></html>", '{"running": 3}', "\x00\xff{"]
)
def test_a_page_of_something_else_is_all_unknown(name, page):
    assert ADAPTERS[name].metrics(page) == EngineMetrics()


PAGES = [pages.VLLM, pages.SGLANG, pages.TRTLLM, pages.TRITON, pages.LLAMACPP]


@given(page=st.sampled_from(PAGES), cut=st.integers(0, 4000), junk=st.text(max_size=20))
def test_no_damage_to_a_page_raises_or_turns_unknown_into_idle(page, cut, junk):
    damaged = page[:cut] + junk
    for adapter in ADAPTERS.values():
        whole, read = adapter.metrics(page), adapter.metrics(damaged)
        # What is left of the page may lack a series, never report less of one than there was.
        if read.running == 0:
            assert whole.running == 0 or "0" in junk
