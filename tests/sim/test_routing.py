"""The router before simulated engines: hot beginnings, prompts that share nothing, and newcomers.

The worlds are those of ``make bench-dispatch``, smaller.
"""

import pytest

from benchmarks.dispatch.fleet import Fleet, play
from benchmarks.dispatch.workloads import adapters, hot_prefix, unrelated
from tidegate.core.settings import Routing

OURS = Routing.LEAST_SECONDS


def test_one_system_prompt_for_all_is_on_all_and_nearly_all_of_it_hits():  # F12
    trace = hot_prefix(1, 1_200, 60.0, 1.0, 4_096)
    could_hit = 4_096 * len(trace) / sum(trace.prompt_tokens)

    seen = play(trace, Fleet(), OURS, 1)

    assert seen.max_to_mean <= 1.25
    assert seen.hit_ratio >= 0.95 * could_hit


def test_random_prompts_are_split_evenly_over_two_replicas():  # F13
    seen = play(unrelated(1, 1_000, 16.0), Fleet(2), OURS, 1)

    assert seen.max_to_mean <= 1.05
    assert seen.hit_ratio == 0.0


def test_where_nothing_is_shared_looking_for_it_costs_nothing():
    trace = unrelated(2, 1_000, 16.0)

    ours, least_load = (play(trace, Fleet(2), routing, 2) for routing in (OURS, Routing.LEAST_TOKENS))

    assert ours.p99_s <= 1.02 * least_load.p99_s
    assert ours.e2e_p90_s <= 1.05 * least_load.e2e_p90_s


@pytest.mark.parametrize("seed", [1, 2])
def test_each_adapter_is_loaded_about_once_where_there_is_a_place_for_each(seed):
    trace = adapters(seed, 500, 6.0)

    seen = play(trace, Fleet(4, slots=64, adapter_load_s=0.3), OURS, seed)

    used = len(set(trace.adapters))
    assert used <= seen.adapter_loads <= 1.2 * used
