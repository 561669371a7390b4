from tidegate.gateway.histogram import Histogram


def test_a_histogram_counts_up_to_and_including_its_bounds():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 99.0):
        histogram.observe(value)
    assert histogram.buckets() == [("1.0", 2.0), ("2.0", 4.0), ("+Inf", 5.0)]
    assert (histogram.count, histogram.total) == (5, 104.0)
