"""Tables of rates, clients, lengths and invocations: what was measured with them comes out."""

import pytest

from dice import SeededDice
from tidegate.workload.figures import percentile
from tidegate.workload.formats import azure_functions, read, servegen
from tidegate.workload.servegen import fortnight
from tidegate.workload.tables import describe_clients, describe_minutes, describe_rates

WORKLOADS = {
    # name: clients, M requests, mean, max, min, empty slots, peak by mean, top client, top 10, coverage
    "language-m-large": (162, 236.9, 195.8, 583.0, 48.4, 0, 2.98, 16.0, 63.2, 62.7),
    "language-m-small": (43, 1_421, 1_174, 3_880, 0, 37, 3.30, 29.9, 92.8, 43.2),
    "multimodal-mm-image": (35, 0.82, 9.5, 13.3, 4.9, 0, 1.40, 13.5, 82.8, 100.0),
}
LENGTHS = {
    # (name, field): mean, p50, p95, p99, lowest and highest 6 h mean
    ("language-m-large", "input_tokens"): (914, 595, 2_271, 5_442, 360, 2_077),
    ("language-m-large", "output_tokens"): (155, 52, 530, 844, 45, 315),
    ("language-m-small", "input_tokens"): (120, 39, 561, 1_425, 74, 227),
    ("language-m-small", "output_tokens"): (15, 3, 69, 139, 10, 36),
    ("multimodal-mm-image", "text_tokens"): (572, 104, 2_271, 3_039, 518, 677),
    ("multimodal-mm-image", "image_tokens"): (650, 530, 1_197, 1_268, None, None),
    ("multimodal-mm-image", "output_tokens"): (130, 98, 332, 561, 113, 141),
}


@pytest.mark.parametrize("name", WORKLOADS)
def test_servegen_rates_are_as_measured(open_trace, name):
    rates, broken = servegen.read_rates(open_trace(f"servegen/{name}-rate.csv.gz"))
    found = describe_rates(rates)

    _, requests, mean, largest, smallest, empty, peak_to_mean, *_ = WORKLOADS[name]
    assert len(broken) == 0
    assert found.requests / 1e6 == pytest.approx(requests, rel=0.002)
    assert found.mean_per_s == pytest.approx(mean, rel=0.003)
    assert (found.max_per_s, found.min_per_s) == (
        pytest.approx(largest, abs=0.5),
        pytest.approx(smallest, abs=0.05),
    )
    assert (found.empty_slots, round(found.peak_to_mean, 2)) == (empty, peak_to_mean)


@pytest.mark.parametrize("name", WORKLOADS)
def test_servegen_clients_are_as_measured(open_trace, name):
    clients, broken = servegen.read_clients(open_trace(f"servegen/{name}-clients.csv.gz"))
    found = describe_clients(clients)

    count, requests, *_, top, top_10, _ = WORKLOADS[name]
    assert len(broken) == 0
    assert found.clients == count
    assert found.requests / 1e6 == pytest.approx(requests, rel=0.002)
    assert round(found.top_client_ratio * 100, 1) == top
    assert round(found.top_10_ratio * 100, 1) == top_10


@pytest.mark.parametrize("name, field", LENGTHS)
def test_servegen_lengths_are_as_measured(open_trace, name, field):
    table, broken = servegen.read_lengths(open_trace(f"servegen/{name}-lengths.csv.gz"))
    whole = table.whole(field)

    mean, p50, p95, p99, low, high = LENGTHS[name, field]
    assert len(broken) == 0
    # The means were measured before the lengths were put into bins; a bin's middle is up to 1 % off.
    assert whole.mean == pytest.approx(mean, rel=0.01)
    assert (whole.quantile(0.5), whole.quantile(0.95), whole.quantile(0.99)) == (p50, p95, p99)
    if low is not None:
        means = [window.mean for window in table.windows[field].values()]
        assert (min(means), max(means)) == (pytest.approx(low, rel=0.03), pytest.approx(high, rel=0.03))


@pytest.mark.parametrize("name", WORKLOADS)
def test_servegen_lengths_cover_the_stated_share_of_requests(open_trace, name):
    table, _ = servegen.read_lengths(open_trace(f"servegen/{name}-lengths.csv.gz"))
    clients, _ = servegen.read_clients(open_trace(f"servegen/{name}-clients.csv.gz"))

    ratio = table.whole("output_tokens").weight / describe_clients(clients).requests
    assert round(ratio * 100, 1) == pytest.approx(WORKLOADS[name][-1], abs=0.05)


def test_a_drawn_day_has_the_clients_rates_and_lengths_of_the_table(open_trace):
    clients, _ = servegen.read_clients(open_trace("servegen/language-m-large-clients.csv.gz"))
    table, _ = servegen.read_lengths(open_trace("servegen/language-m-large-lengths.csv.gz"))
    day_s = 86_400.0
    trace = fortnight(clients, table, SeededDice(3), rate_scale=0.01, from_s=day_s, until_s=2 * day_s)

    expected = 0.01 * sum(
        slot.rate_per_s * 600
        for slots in clients.slots.values()
        for slot in slots
        if day_s <= slot.start_s < 2 * day_s
    )
    windows = [table.windows["input_tokens"][day_s + 21_600.0 * number] for number in range(4)]
    means = [window.mean for window in windows]
    assert len(trace) == pytest.approx(expected, rel=0.05)
    assert trace.is_complete
    assert 0 <= trace.arrived_s[0] <= trace.arrived_s[-1] < day_s
    assert min(means) * 0.97 < sum(trace.prompt_tokens) / len(trace) < max(means) * 1.03


def test_prompts_with_images_have_the_tokens_of_both(open_trace):
    clients, _ = servegen.read_clients(open_trace("servegen/multimodal-mm-image-clients.csv.gz"))
    table, _ = servegen.read_lengths(open_trace("servegen/multimodal-mm-image-lengths.csv.gz"))
    trace = fortnight(clients, table, SeededDice(3), rate_scale=0.02, until_s=86_400.0)

    # Image tokens swing by the hour, from 532 to 799 on average: the day's mean is within a few percent.
    assert len(trace) == pytest.approx(818_600 * 0.02, rel=0.04)
    assert sum(trace.prompt_tokens) / len(trace) == pytest.approx(572 + 650, rel=0.04)


def test_functions_a_minute_are_as_measured(open_trace):
    functions, broken = azure_functions.read_minutes(open_trace("azure-functions/invocations_500.csv"))
    found = describe_minutes(functions)

    assert len(broken) == 0
    assert (found.functions, found.calls) == (500, 3_037_902)
    assert (round(found.mean_per_minute), found.max_per_minute, found.min_per_minute) == (6_329, 7_603, 3_013)
    assert (round(found.function_p50), round(found.function_p90), found.function_max) == (48, 958, 1_915_521)
    assert (round(found.active_ratio_p50, 3), round(found.active_ratio_p90, 2)) == (0.078, 0.99)
    assert found.rarely_active == 218
    assert found.triggers["timer"] == 247
    assert list(found.triggers.values()) == [247, 139, 69, 25, 14, 5, 1]


def test_functions_become_models_of_which_many_are_idle(open_trace):
    reading = read(open_trace("azure-functions/invocations_500.csv"), SeededDice(0), rate_scale=0.02)

    assert len(reading.trace) == pytest.approx(3_037_902 * 0.02, rel=0.03)
    assert reading.trace.arrived_s[-1] < 480 * 60
    assert reading.trace.prompt_tokens[0] == reading.trace.output_tokens[0] == -1


def test_function_durations_are_as_measured(open_trace):
    durations, broken = azure_functions.read_mean_durations(open_trace("azure-functions/durations_500.csv"))

    assert len(broken) == 0
    assert round(percentile(sorted(durations), 0.5)) == 567
    assert round(percentile(sorted(durations), 0.95) / 1_000, 1) == 27.7


def test_function_calls_are_as_measured(open_trace):
    calls, broken = azure_functions.read_calls(open_trace("azure-functions/Azure2021_200.csv"))
    durations = sorted(call.duration_s for call in calls)

    assert len(broken) == 0
    assert (len(calls), len({call.app for call in calls}), len({call.function for call in calls})) == (
        199,
        13,
        31,
    )
    # The stated span is that of the moments at which calls begin.
    begun_s = [call.ended_s - call.duration_s for call in calls]
    assert round(max(begun_s) - min(begun_s)) == 1_200
    assert round(percentile(durations, 0.5), 2) == 1.63
    assert round(percentile(durations, 0.95)) == 330
