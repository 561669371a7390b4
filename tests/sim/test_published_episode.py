"""llm-d's published episode under its own law, with the one profile that was fitted for it.

Published: a fixed fleet of 8 keeps 100 %; the law keeps 95.8 % at 5.93 replicas. Ours meets the fleet and the
moments of its steps, and not the 95.8 %: on measured latencies a crossing of the capacity costs what the
publication's own formula says, and after the peak the signal of eight healthy replicas is low enough to shrink
into the next one. With latencies read 1.35 times high, a ratio picked by trying, and an estimated 45 s between
the stages, replicas and steps come out as published, and 91.9 % are kept; the rest is unexplained.
"""

import pytest

from benchmarks.episode.published import Assumptions, fixed, load, under_the_law
from tidegate.engine.batch import Engine
from tidegate.engine.catalogue import profile
from tidegate.engine.sequence import Sequence

pytestmark = pytest.mark.slow  # each episode is 12,480 requests, about two seconds


def saturation(rate):
    """P90 latency by promise of one replica under a steady rate of the benchmark's requests."""
    known = profile("llm-d-episode")
    engine = Engine(known.limits, known.law)
    sequences = []
    for arrival in load(1):
        at_s = len(sequences) / rate
        if at_s > 900:
            break
        sequences.append((at_s, Sequence(len(sequences), arrival.prompt_tokens, arrival.output_tokens)))
        engine.add(sequences[-1][1], at_s)
    while engine.wake_s is not None:
        engine.advance(engine.wake_s)
    settled = [(at_s, one) for at_s, one in sequences if at_s > 150]
    ttft_s = sorted(one.first_token_s - at_s for at_s, one in settled)
    tpot_s = sorted((one.finished_s - one.first_token_s) / (one.output_tokens - 1) for _, one in settled)
    place = int(0.9 * len(settled))
    return max(ttft_s[place] / 3.0, tpot_s[place] / 0.1)


def test_the_profile_is_in_the_band_where_the_law_settles():
    assert 0.40 < saturation(1.4) < saturation(1.45) < 0.55
    assert saturation(1.55) > 1.0  # the knee


def test_a_fixed_fleet_of_eight_keeps_every_promise():
    found = fixed(8)

    assert found.score == 1.0
    assert found.mean_replicas == pytest.approx(8.0)


def test_the_law_uses_as_many_replicas_as_published():
    found = under_the_law(Assumptions())

    assert found.mean_replicas == pytest.approx(5.93, abs=0.2)
    assert found.score < 0.958 - 0.015  # two assumptions that narrow it are in the test below


def test_with_signals_and_stages_as_in_the_benchmark_the_steps_come_when_they_came():
    found = under_the_law(Assumptions(gap_s=45.0, latency_ratio=1.35))

    assert found.mean_replicas == pytest.approx(5.93, abs=0.2)
    ups = [at_s for at_s, one in found.run.decisions if at_s > 0 and one.desired > one.before]
    downs = [at_s for at_s, one in found.run.decisions if one.desired < one.before]
    assert ups[0] / 60 == pytest.approx(15.2, abs=1.0)  # annotated in the published picture
    assert not [at_s for at_s in downs if at_s < 2_100]  # the peak stages run clean
    # One crossing: signal, two evaluations, the stabilization window and the start, at 6 requests a second.
    lost = (1 - found.score) * len(found.run.trace)
    assert 100 * 6 < lost < (30 + 15 + 30 + 15 + 100) * 6
