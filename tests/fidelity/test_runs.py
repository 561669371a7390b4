"""How near the engine model comes to others' runs. Bounds a little wider than what it reaches today."""

import pytest

from benchmarks.fidelity import untabled, vidur, vllm_runs


def test_vidurs_own_runs_come_out_within_two_percent(needs_trace):
    needs_trace("vidur-reference")
    found = vidur.judge()
    assert len(found) == 16
    for one in found:
        assert abs(one.error) < 0.02, one


def test_real_vllm_runs_come_out_of_their_kernel_tables(needs_trace):
    needs_trace("llmservingsim-bench")
    found = vllm_runs.judge()
    assert {one.run for one in found} >= {"rtx4090_llama-3.1-8b", "rtxpro6000_llama-3.1-8b"}
    for one in found:
        assert one.is_kept, one
        if one.figure in ("TPOT mean", "E2E mean") and "llama" in one.run:
            assert abs(one.error) < 0.035, one


def test_a_step_from_the_tables_is_never_shorter_for_more_work(needs_trace):
    needs_trace("llmservingsim-bench")
    for run in vllm_runs.read():
        if not run.has_tables:
            continue
        law = run.law()
        for sequences, longer in ((8, 16), (64, 100), (100, 128)):
            assert law.decode_s(longer, longer * 900, 1) > law.decode_s(sequences, sequences * 900, 1)
        for tokens, more in ((900, 1000), (8000, 9000)):
            assert law.decode_s(64, 64 * more, 1) > law.decode_s(64, 64 * tokens, 1)
        for chunk, larger in ((100, 400), (500, 1900)):
            assert law.mixed_s(60, 60 * 900, [(larger, 0)]) > law.mixed_s(60, 60 * 900, [(chunk, 0)])


def test_decoding_in_one_go_takes_as_long_as_step_by_step(needs_trace):
    needs_trace("llmservingsim-bench")
    law = vllm_runs.read()[0].law()
    alone = sum(law.decode_s(40, 40 * (800 + step), 1) for step in range(500))
    assert law.decode_s(40, 40 * 800, 500) == pytest.approx(alone)


def test_a_run_without_tables_lies_in_the_range_of_its_data_sheets(needs_trace):
    needs_trace("llmservingsim-bench")
    sides = untabled.judge()
    for brisk, slow in zip(sides["brisk"], sides["slow"], strict=True):
        assert brisk.predicted < brisk.measured < slow.predicted, brisk.figure
        if brisk.figure == "TPOT mean":
            assert slow.predicted < 2 * brisk.predicted  # a range that says something
