"""Random fleets that were seen to go back and forth, after their turmoil: models with variants, with and without a pool."""

import pytest

from benchmarks.fleet.calm import MOVES_MOST, played


@pytest.mark.parametrize("seed", [20, 22])
def test_after_the_turmoil_whoever_is_asked_for_serves_and_nothing_moves(seed):
    unserved, moves = played(seed)
    assert unserved == []
    assert moves <= MOVES_MOST
