"""Samples against the distributions they are meant to follow.

The largest distance between the two distribution functions is below 1.95/sqrt(n) in 999 of 1,000 fair
samples (Kolmogorov and Smirnov); the seeds are fixed, so a failure is a mistake and no bad luck.
"""

import math

import pytest

from dice import SeededDice
from tidegate.workload.chance import (
    Weights,
    chosen,
    exponential,
    gamma,
    lognormal,
    normal,
    weibull,
    zipf_weights,
)
from tidegate.workload.gaps import EvenGaps, GammaGaps, PoissonGaps, WeibullGaps

SAMPLES = 20_000


def distance(sample, distribution):
    ordered = sorted(sample)
    return max(
        max(distribution(value) - rank / len(ordered), (rank + 1) / len(ordered) - distribution(value))
        for rank, value in enumerate(ordered)
    )


def drawn(one, seed=7):
    dice = SeededDice(seed)
    return [one(dice) for _ in range(SAMPLES)]


def normal_below(x):
    return (1 + math.erf(x / math.sqrt(2))) / 2


@pytest.mark.parametrize(
    "one, distribution",
    [
        (lambda dice: exponential(3.0, dice), lambda x: 1 - math.exp(-x / 3)),
        (lambda dice: weibull(0.4, 2.0, dice), lambda x: 1 - math.exp(-((x / 2) ** 0.4))),
        (lambda dice: normal(5.0, 2.0, dice), lambda x: normal_below((x - 5) / 2)),
        # Shape 3 is the sum of three exponentials (Erlang); shape 1/2 half the square of a normal value.
        (lambda dice: gamma(3.0, 2.0, dice), lambda x: 1 - math.exp(-x / 2) * (1 + x / 2 + x * x / 8)),
        (lambda dice: gamma(0.5, 1.0, dice), lambda x: math.erf(math.sqrt(x))),
        (lambda dice: gamma(1.0, 4.0, dice), lambda x: 1 - math.exp(-x / 4)),
        (
            lambda dice: lognormal(10.0, 1.0, dice),
            lambda x: normal_below((math.log(x) - math.log(10) + math.log(2) / 2) / math.sqrt(math.log(2))),
        ),
    ],
    ids=["exponential", "weibull", "normal", "gamma 3", "gamma 1/2", "gamma 1", "lognormal"],
)
def test_a_sample_follows_its_distribution(one, distribution):
    assert distance(drawn(one), distribution) < 1.95 / math.sqrt(SAMPLES)


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("family", [GammaGaps, WeibullGaps])
def test_gaps_have_a_mean_of_one_and_the_variation_asked_for(family, cv):
    gaps = drawn(family.with_cv(cv).draw)
    mean = sum(gaps) / len(gaps)
    deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))

    assert mean == pytest.approx(1.0, abs=4 * cv / math.sqrt(SAMPLES))
    assert deviation / mean == pytest.approx(cv, rel=0.08)


@pytest.mark.parametrize(
    "gaps",
    [PoissonGaps(), EvenGaps(), GammaGaps.with_cv(2.0), GammaGaps.with_cv(0.5), WeibullGaps.with_cv(2.0)],
)
def test_the_first_wait_is_that_from_an_arbitrary_moment(gaps):
    waits = drawn(gaps.first)
    cv = {EvenGaps(): 0.0, PoissonGaps(): 1.0, GammaGaps.with_cv(0.5): 0.5}.get(gaps, 2.0)

    # Its mean is (1 + cv^2) / 2: half a gap for a metronome, a whole one for Poisson.
    assert sum(waits) / len(waits) == pytest.approx((1 + cv * cv) / 2, rel=0.07)


def test_a_weibull_variation_out_of_reach_is_refused_with_its_range():
    with pytest.raises(ValueError, match=r"cv is 0; it must be from 0\.\d+ to"):
        WeibullGaps.with_cv(0.0)


def test_places_are_drawn_by_weight_and_those_without_never():
    weights = Weights([0.0, 3.0, 0.0, 1.0, 0.0])
    counts = [drawn(weights.draw).count(place) for place in range(5)]

    assert counts[0] == counts[2] == counts[4] == 0
    assert counts[1] / SAMPLES == pytest.approx(0.75, abs=0.012)


def test_zipf_weights_halve_for_the_second_name():
    assert zipf_weights(4, 1.0) == [1.0, 1 / 2, 1 / 3, 1 / 4]
    assert zipf_weights(3, 0.0) == [1.0, 1.0, 1.0]


def test_each_choice_of_two_in_four_is_as_likely():
    counts = {}
    for pair in drawn(lambda dice: tuple(chosen(4, 2, dice))):
        counts[pair] = counts.get(pair, 0) + 1

    assert len(counts) == 6
    assert all(count / SAMPLES == pytest.approx(1 / 6, abs=0.011) for count in counts.values())
