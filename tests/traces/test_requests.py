"""Traces of requests: what we read and compute is what was published or measured with them."""

import pytest

from dice import SeededDice
from tidegate.workload.describe import describe
from tidegate.workload.formats import Format, mooncake, named_csv, read
from tidegate.workload.formats.guess import guessed, peeked
from tidegate.workload.servegen import SLOT_S


def rounded(counts, digits=1):
    return round(counts.mean, digits), round(counts.p50), round(counts.p95), round(counts.p99), counts.max


def test_azure_conversations_are_as_measured(open_trace):
    reading = read(open_trace("azure-llm-2023/AzureLLMInferenceTrace_conv.csv"), SeededDice(0))
    found = describe(reading.trace)

    assert len(reading.broken) == 0
    assert (found.rows, round(found.span_s, 1), round(found.mean_per_s, 2)) == (19_366, 3_501.7, 5.53)
    assert (found.peak_1s_per_s, round(found.peak_60s_per_s, 2), round(found.lowest_60s_per_s, 2)) == (
        16,
        8.45,
        3.18,
    )
    assert round(found.gap_cv, 2) == 1.09
    assert {width: round(value, 1) for width, value in found.dispersion.items()} == {
        1: 1.4,
        10: 4.0,
        60: 20.6,
    }
    assert rounded(found.prompt) == (1_154.7, 1_020, 4_083, 4_142, 14_050)
    assert rounded(found.output) == (211.1, 129, 451, 601, 1_000)
    assert round(found.prompt_to_output, 1) == 5.5
    assert (round(found.prompt_tokens_per_s), round(found.output_tokens_per_s)) == (6_386, 1_168)
    assert found.sharing is None


def test_mooncake_conversations_are_as_measured(open_trace):
    found = describe(read(open_trace("mooncake-fast25/conversation_trace.jsonl.gz"), SeededDice(0)).trace)

    assert (found.rows, round(found.span_s, 1), round(found.mean_per_s, 2)) == (12_031, 3_537.0, 3.40)
    assert (round(found.peak_60s_per_s, 2), found.peak_1s_per_s, round(found.gap_cv, 2)) == (4.12, 28, 3.03)
    assert rounded(found.prompt, 0) == (12_035, 6_909, 39_550, 85_400, 126_195)
    assert rounded(found.output) == (342.6, 350, 698, 1_119, 2_000)
    assert (round(found.prompt_tokens_per_s), round(found.output_tokens_per_s)) == (40_937, 1_165)


def test_mooncake_prefixes_are_shared_as_measured(open_trace):
    found = describe(
        read(open_trace("mooncake-fast25/conversation_trace.jsonl.gz"), SeededDice(0)).trace
    ).sharing

    assert (found.unique_blocks, found.blocks) == (182_790, 288_500)
    assert round(found.token_hit_ratio, 3) == 0.374
    assert round(found.requests_with_hit_ratio, 2) == 1.0
    lru = {size: round(ratio, 3) for size, ratio in found.lru_block_hit_ratio.items()}
    assert lru == {1_000: 0.044, 10_000: 0.211, 50_000: 0.355}
    assert [round(gap) for gap in (found.reuse_gap_p50_s, found.reuse_gap_p90_s, found.reuse_gap_p99_s)] == [
        114,
        519,
        1_578,
    ]


def test_mooncake_survives_its_own_form_and_ours(open_trace):
    trace = read(open_trace("mooncake-fast25/conversation_trace.jsonl.gz"), SeededDice(0)).trace

    assert mooncake.read(mooncake.lines(trace)).trace == trace
    assert named_csv.read(named_csv.lines(trace)).trace == trace


@pytest.mark.parametrize(
    "run", ["rtx4090_llama-3.1-8b", "rtxpro6000_llama-3.1-8b", "rtxpro6000_qwen3-30b-a3b-instruct-2507"]
)
def test_vllm_runs_are_as_measured(open_trace, run):
    found = describe(read(open_trace(f"llmservingsim-bench/{run}__requests.jsonl"), SeededDice(0)).trace)

    assert (found.rows, round(found.span_s), round(found.mean_per_s, 1)) == (300, 29, 10.3)
    assert 857 <= round(found.prompt.mean) <= 862
    assert found.prompt.p50 == pytest.approx(730, abs=3)
    assert 1_749 <= round(found.prompt.p95) <= 1_814
    assert 652 <= found.output.mean <= 665
    assert found.output.p50 == pytest.approx(635, abs=4)
    assert 773 <= round(found.output.p95) <= 814


def test_vidurs_requests_are_those_of_the_azure_trace(open_trace):
    vidur = read(
        open_trace("vidur-reference/requests_azureconv_4rep_lor_codellama34b_a100tp2.csv.gz"), SeededDice(0)
    ).trace
    azure = read(open_trace("azure-llm-2023/AzureLLMInferenceTrace_conv.csv"), SeededDice(0)).trace

    assert len(vidur) == len(azure) == 19_366
    assert (
        max(abs(mine - theirs) for mine, theirs in zip(vidur.arrived_s, azure.arrived_s, strict=True)) < 1e-5
    )
    assert max(p + o for p, o in zip(vidur.prompt_tokens, vidur.output_tokens, strict=True)) <= 4_096


def test_summaries_have_the_lengths_that_were_measured(open_trace):
    pairs = named_csv.read_lengths(open_trace("vidur-lengths/arxiv_summarization_lengths.csv")).pairs
    prompts = sorted(prompt for prompt, _ in pairs)
    outputs = sorted(output for _, output in pairs)

    assert len(pairs) == 28_257
    assert round(sum(prompts) / len(prompts)) == 2_588
    assert (prompts[len(prompts) // 2], prompts[-1]) == (2_730, 4_054)
    assert round(sum(outputs) / len(outputs)) == 291
    assert (outputs[len(outputs) // 2], outputs[-1]) == (167, 4_056)


@pytest.mark.parametrize(
    "name, form",
    [
        ("azure-llm-2023/AzureLLMInferenceTrace_conv.csv", Format.AZURE_LLM),
        ("azure-functions/invocations_500.csv", Format.AZURE_FUNCTIONS),
        ("azure-functions/Azure2021_200.csv", Format.AZURE_FUNCTIONS),
        ("mooncake-fast25/conversation_trace.jsonl.gz", Format.MOONCAKE),
        ("servegen/language-m-large-rate.csv.gz", Format.SERVEGEN_RATE),
        ("llmservingsim-bench/rtx4090_llama-3.1-8b__requests.jsonl", Format.JSONL),
        ("vidur-reference/requests_512_qps2_codellama34b_a100tp2.csv.gz", Format.CSV),
    ],
)
def test_each_public_trace_is_recognised(open_trace, name, form):
    assert guessed(peeked(open_trace(name))[0]) is form


def test_a_day_of_rates_scaled_down_keeps_its_mean(open_trace):
    reading = read(open_trace("servegen/language-m-large-rate.csv.gz"), SeededDice(1), rate_scale=0.0005)

    # 236.9 M requests in 14 days; four standard deviations of a Poisson count are 1.2 % of 118,446.
    assert len(reading.trace) == pytest.approx(236_892_877 * 0.0005, rel=0.012)
    assert reading.trace.arrived_s[-1] < 2_016 * SLOT_S
    assert not reading.trace.is_complete
