"""Predicted beside real hits on the metrics page, and a prediction in vain said aloud: once in the log, always on the page."""

from prometheus_client import CollectorRegistry, generate_latest

from tidegate.core.dispatch.prefix import PrefixStats
from tidegate.gateway.prefix_meters import PrefixMeters

GOOD = PrefixStats(10, 10_000, 8_000, 7_900, 2_048, 4_096)
VAIN = PrefixStats(500, 500_000, 400_000, 12, 2_048, 4_096, 0, "of 400,000 expected 0.0% were found")


def meters(stats):
    return PrefixMeters(lambda: stats)


def test_predicted_and_real_tokens_stand_beside_each_other():
    registry = CollectorRegistry()
    registry.register(meters({"m": GOOD, "n": VAIN}))
    page = generate_latest(registry).decode()

    for line in (
        'tidegate_prefix_predicted_tokens_total{model="m"} 8000.0',
        'tidegate_prefix_cached_tokens_total{model="m"} 7900.0',
        'tidegate_prefix_in_vain{model="m"} 0.0',
        'tidegate_prefix_in_vain{model="n"} 1.0',
        "tidegate_prefix_index_bytes 2048.0",
    ):
        assert line in page.splitlines()


def test_the_page_says_it_as_long_as_it_is_so_and_the_log_once_each_time_that_it_begins():
    stats = {"m": VAIN}
    found = meters(stats)
    said = "model m: of 400,000 expected 0.0% were found"

    assert found.complaints() == [said]
    assert found.complaints() == []
    assert found.findings() == found.findings() == [said]

    stats["m"] = GOOD
    assert found.complaints() == found.findings() == []
    stats["m"] = VAIN
    assert found.complaints() == [said]


def test_a_model_that_looks_at_no_prompts_has_no_figures():
    registry = CollectorRegistry()
    registry.register(meters({}))

    assert "model=" not in generate_latest(registry).decode()
