"""Laws of the mix of tiers, and of what is learned about growth."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.fleet.growth import SPANS_S, Growth
from tidegate.core.fleet.tiers import Disk, Offer, cheapest_mix, mix_with_disk
from tidegate.core.tiers import Tier

spans = st.lists(st.sampled_from([1.0, 5.0, 20.0, 60.0, 300.0]), unique=True, max_size=5).map(sorted)


@st.composite
def rises(draw):
    """A rising staircase."""
    counts = sorted(draw(st.lists(st.integers(0, 5), min_size=5, max_size=5)))
    return tuple(zip(draw(spans), counts, strict=False))


offers = st.tuples(
    st.builds(Offer, st.just(Tier.WARM), st.just(0.0), st.sampled_from([1.0, 2.0]), st.integers(0, 4)),
    st.builds(
        Offer, st.just(Tier.SLEEPING), st.sampled_from([0.5, 4.0, 30.0]), st.sampled_from([0.0, 0.3, 1.5]), st.integers(0, 4)
    ),
)  # fmt: skip
spans_away_s = st.sampled_from([0.0, 10.0, 100.0, float("inf")])
slacks = st.sampled_from([0.0, 2.0, 10.0])


def needed(rise):
    found, before_s = [], 0.0
    for span_s, replicas in rise:
        found += [before_s] * (replicas - len(found))
        before_s = span_s
    return found


def by_trying_all(rise, tiers, away_s, slack_s):
    """The least left uncovered, and the least price for that, over every way to hold the replicas."""
    deadlines = [at + slack_s for at in needed(rise)]
    best = None
    for choice in product([None, "away", 0, 1], repeat=len(deadlines)):
        counts = [choice.count(0), choice.count(1)]
        if any(count > tier.most for count, tier in zip(counts, tiers, strict=True)):
            continue
        late = any(
            (what == "away" and away_s > due) or (what in (0, 1) and tiers[what].wake_s > due)
            for what, due in zip(choice, deadlines, strict=True)
        )
        if late:
            continue
        price = sum(tier.price_per_h * count for tier, count in zip(tiers, counts, strict=True))
        found = (choice.count(None), price)
        best = found if best is None or found < best else best
    return best


@given(rises(), offers, spans_away_s, slacks)
def test_no_other_mix_covers_more_or_as_much_for_less(rise, tiers, away_s, slack_s):
    mix = cheapest_mix(rise, tiers, away_s, slack_s)
    uncovered, price = by_trying_all(rise, tiers, away_s, slack_s)
    assert mix.uncovered == uncovered
    assert abs(mix.price_per_h - price) < 1e-9


@given(rises(), offers, spans_away_s, slacks)
def test_no_tier_holds_more_than_it_may_and_nothing_is_held_in_vain(rise, tiers, away_s, slack_s):
    mix = cheapest_mix(rise, tiers, away_s, slack_s)
    assert mix.warm <= tiers[0].most
    assert mix.sleeping <= tiers[1].most
    assert mix.warm + mix.sleeping + mix.uncovered <= len(needed(rise))


@given(rises(), offers, spans_away_s, slacks)
def test_whoever_may_wait_longer_pays_no_more(rise, tiers, away_s, slack_s):
    patient = cheapest_mix(rise, tiers, away_s, slack_s + 5.0)
    hasty = cheapest_mix(rise, tiers, away_s, slack_s)
    assert patient.uncovered <= hasty.uncovered
    if patient.uncovered == hasty.uncovered:
        assert patient.price_per_h <= hasty.price_per_h + 1e-9


@given(rises(), offers, slacks)
def test_a_faster_start_from_nothing_makes_less_to_hold(rise, tiers, slack_s):
    slow, fast = (cheapest_mix(rise, tiers, away_s, slack_s) for away_s in (100.0, 10.0))
    assert fast.warm + fast.sleeping + fast.uncovered <= slow.warm + slow.sleeping + slow.uncovered


disks = st.builds(Disk, st.sampled_from([0.0, 5.0, 50.0]), st.sampled_from([0.0, 0.2, 2.0]))


@given(rises(), offers, spans_away_s, slacks, disks)
def test_the_disk_is_bought_when_it_covers_more_or_as_much_for_less_and_at_no_other_time(
    rise, tiers, away_s, slack_s, disk
):
    mix = mix_with_disk(rise, tiers, away_s, slack_s, disk)
    uncovered, price = by_trying_all(rise, tiers, away_s, slack_s)
    with_disk = by_trying_all(rise, tiers, min(away_s, disk.away_s), slack_s)
    with_disk = with_disk[0], with_disk[1] + disk.price_per_h

    assert (mix.uncovered, round(mix.price_per_h, 9)) == min(
        (uncovered, round(price, 9)), _rounded(with_disk)
    )
    if mix.cached:
        assert disk.away_s < away_s
        plain = cheapest_mix(rise, tiers, away_s, slack_s)
        fewer = mix.warm + mix.sleeping < plain.warm + plain.sleeping
        assert _rounded(with_disk) < (uncovered, round(price, 9)) or fewer


def _rounded(pair):
    return pair[0], round(pair[1], 9)


@given(st.lists(st.integers(0, 9), max_size=200), st.sampled_from([0.0, 0.05, 0.5]))
def test_a_staircase_of_growth_rises_and_never_exceeds_what_was_seen(needs, risk):
    growth = Growth()
    for second, need in enumerate(needs):
        growth.note(need, 1, float(second))
    stairs = growth.staircase(risk, 1)
    assert [span for span, _ in stairs] == list(SPANS_S)[: len(stairs)]
    counts = [count for _, count in stairs]
    assert counts == sorted(counts)
    assert all(0 <= count <= max(needs, default=0) for count in counts)


@given(st.lists(st.integers(0, 9), min_size=30, max_size=200))
def test_at_no_risk_the_staircase_is_the_largest_rise_over_what_stood(needs):
    growth = Growth()
    for second, need in enumerate(needs):
        growth.note(need, 2, float(second))
    (span_s, rise), *_ = growth.staircase(0.0, 1)
    assert span_s == 2.0
    seen = [max(needs[at : at + 2]) - 2 for at in range(len(needs) - 2)]
    assert rise == max(0, *seen)


def test_a_load_that_never_changes_asks_for_nothing_to_be_held():
    growth = Growth()
    for second in range(2000):
        growth.note(3, 3, float(second))
    assert growth.staircase(0.05, 1) == tuple((span_s, 0) for span_s in SPANS_S)


def test_a_jump_by_two_each_ten_minutes_is_a_jump_by_two_within_five():
    growth = Growth()
    for second in range(20_000):
        growth.note(3 if second % 600 < 60 else 1, 1, float(second))
    stairs = dict(growth.staircase(0.05, 1))
    assert stairs[300.0] == 2
    # A span of 2 s has the high load within it 62 s in 600: more often than in 5 % of all.
    assert stairs[2.0] == 2
    assert dict(growth.staircase(0.2, 1))[2.0] == 0
