"""Statistics of small traces that can be checked by hand."""

import pytest

from tidegate.workload.arrival import BadValue
from tidegate.workload.builder import TraceBuilder
from tidegate.workload.describe import describe
from tidegate.workload.figures import percentile
from tidegate.workload.sharing import lru_hits, sharing


def trace_of(*rows):
    builder = TraceBuilder()
    for moment, prompt, output, *hashes in rows:
        builder.add(moment, prompt, output, prefix_hashes=tuple(hashes))
    return builder.build()


def test_a_steady_minute_and_a_half():
    found = describe(trace_of(*((number * 0.5, 100, 10) for number in range(181))))

    assert (found.rows, found.span_s) == (181, 90.0)
    assert found.mean_per_s == pytest.approx(181 / 90)
    assert (found.peak_1s_per_s, found.peak_60s_per_s, found.lowest_60s_per_s) == (2, 2.0, 2.0)
    assert found.gap_cv == 0.0
    assert (found.prompt.mean, found.prompt.p99, found.prompt_to_output) == (100.0, 100.0, 10.0)


def test_a_silent_minute_is_the_lowest_and_silence_costs_no_room():
    found = describe(trace_of((0.0, 1, 1), (59.0, 1, 1), (121.0, 1, 1), (3e9, 1, 1)))

    assert (found.peak_60s_per_s, found.lowest_60s_per_s) == (2 / 60, 0.0)
    windows = 3e9 // 60 + 1
    mean = 4 / windows
    squares = (2 - mean) ** 2 + 2 * (1 - mean) ** 2 + (windows - 3) * mean**2
    assert found.dispersion[60] == pytest.approx(squares / windows / mean)


def test_nothing_is_told_of_a_trace_that_says_nothing():
    found = describe(trace_of())
    assert (found.rows, found.mean_per_s, found.gap_cv, found.prompt, found.dispersion) == (
        0,
        None,
        None,
        None,
        {},
    )

    alone = describe(trace_of((5.0, None, 3)))
    assert (alone.rows, alone.span_s, alone.mean_per_s, alone.prompt) == (1, 0.0, None, None)
    assert (alone.output.known, alone.output.p50) == (1, 3)


def test_a_prefix_hit_is_the_longest_leading_run():
    found = sharing(
        trace_of(
            (0.0, 1_200, 1, 1, 2, 3),
            (4.0, 1_200, 1, 1, 2, 4),  # two blocks of 512
            (9.0, 1_200, 1, 5, 2, 3),  # the first differs: none
            (10.0, 600, 1, 1, 2),  # both, the second of them partial: the whole prompt
        )
    )

    assert found.token_hit_ratio == pytest.approx((1_024 + 600) / 4_200)
    assert (found.requests_with_hit_ratio, found.blocks, found.unique_blocks) == (0.5, 11, 5)
    # After 4 and 6 s, after 4, 5 and 1 s, and after 9 s.
    assert (found.reuse_gap_p50_s, found.reuse_gap_p99_s) == (4.5, pytest.approx(8.85))


def test_the_block_used_longest_ago_is_the_one_to_go():
    assert lru_hits([1, 2, 1, 3, 2, 1], capacity=2) == 1  # 3 puts 2 out, 2 puts 1 out
    assert lru_hits([1, 2, 1, 3, 2, 1], capacity=3) == 3


def test_percentiles_lie_between_ranks():
    assert percentile([10, 20], 0.5) == 15.0
    assert percentile([10], 0.99) == 10.0
    assert percentile(range(101), 0.95) == pytest.approx(95.0)


@pytest.mark.parametrize(
    "row, reason",
    [
        ({"arrived_s": float("nan")}, "arrived_s is nan"),
        ({"prompt_tokens": -1}, "prompt_tokens is -1"),
        ({"output_tokens": 2**31}, "output_tokens is 2147483648"),
        ({"model": ""}, "model is ''"),
        ({"tenant": " a"}, "tenant is ' a'"),
        ({"session": "a\nb"}, "session is 'a"),
        ({"prefix_hashes": (1, -1)}, "prefix_hashes go from -1 to 1"),
        ({"cached_tokens": -1}, "cached_tokens is -1"),
        ({"deadline_s": 0.0}, "deadline_s is 0.0"),
        ({"priority": 2**40}, "priority is"),
    ],
)
def test_a_row_that_cannot_be_is_refused_whole(row, reason):
    builder = TraceBuilder()
    with pytest.raises(BadValue, match=reason):
        builder.add(**{"arrived_s": 0.0, "prompt_tokens": 1, "output_tokens": 1} | row)

    builder.add(1.0, 2, 3)
    assert len(builder.build()) == 1
