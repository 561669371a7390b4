"""Percentiles over the last minute, from a bounded choice."""

from tidegate.core.windows import MinuteSamples, percentile


def test_what_is_older_than_a_minute_is_gone():
    minute = MinuteSamples()
    for second in range(30):
        minute.add(5.0, float(second))
    for second in range(30, 75):
        minute.add(1.0, float(second))
    assert max(minute.ordered(75.0)) == 5.0
    assert max(minute.ordered(95.0)) == 1.0
    assert minute.ordered(500.0) == []


def test_a_new_value_is_seen_within_five_seconds():
    minute = MinuteSamples()
    minute.add(1.0, 0.0)
    assert minute.ordered(0.0) == [1.0]
    minute.add(2.0, 1.0)
    assert minute.ordered(6.0) == [1.0, 2.0]


def test_after_a_silence_values_are_kept_again():
    minute = MinuteSamples()
    assert minute.ordered(3.0) == []
    minute.add(2.0, 4.0)
    assert minute.ordered(4.0) == [2.0]
    assert minute.ordered(300.0) == []
    minute.add(7.0, 300.0)
    assert minute.ordered(301.0) == [7.0]


def test_of_very_many_an_even_choice_is_kept():
    minute = MinuteSamples()
    for number in range(100_000):
        minute.add(number % 1_000 / 1_000, number / 2_000)
    ordered = minute.ordered(50.0)
    assert len(ordered) <= 288
    assert abs(percentile(ordered, 0.90) - 0.9) < 0.05
