"""llm-d's published episode under our default law: nothing known at first, and each request moved."""

import pytest

from benchmarks.fleet.episode import AIMS, HOT_S, under_tidal

pytestmark = pytest.mark.slow  # each episode is 12,480 requests, about four seconds


@pytest.mark.parametrize("seed", [1, 2])
def test_with_starts_of_a_hundred_seconds(seed):
    score, replicas = AIMS["tidal"]
    found = under_tidal(seed)

    assert found.score >= score
    assert found.mean_replicas <= replicas


def test_with_a_tier_that_is_awake_in_four():
    score, replicas = AIMS["tidal, hot"]
    found = under_tidal(1, HOT_S)

    assert found.score >= score
    assert found.mean_replicas <= replicas
