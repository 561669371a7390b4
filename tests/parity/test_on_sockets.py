"""The product on real sockets and the simulator see the same requests last about as long.

How near they come is ``make bench-parity``'s to say. Here the machine may be busy with anything, so the factors
are generous: they find a model that is another one, and no millisecond.
"""

from statistics import fmean, median

import pytest

from parity.sockets import on_sockets, requests, simulated

SCALE = 5.0
FACTOR = 2.0


def ratio(sockets, simulator, of):
    return of(sockets) / of(simulator)


@pytest.mark.slow  # half a minute of requests, and the product's start
@pytest.mark.timeout(180)
async def test_requests_on_sockets_last_as_long_as_simulated_ones(tmp_path):
    rows = requests(40, seed=1)

    seen = await on_sockets(rows, SCALE, tmp_path)
    lived, simulator = seen.outcome, simulated(rows, seen, SCALE)

    assert len(lived.engine.e2e_s) == len(simulator.engine.e2e_s) == len(rows)
    assert len(lived.launches_s) == len(simulator.launches_s) == 1
    for ours, theirs in ((lived.engine, simulator.engine), (lived.gateway, simulator.gateway)):
        assert 1 / FACTOR < ratio(ours.e2e_s, theirs.e2e_s, fmean) < FACTOR
        assert 1 / FACTOR < ratio(ours.ttft_s, theirs.ttft_s, median) < FACTOR
